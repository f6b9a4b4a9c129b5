"""`Preview`: the results of a compile before there is machine code. A frozen value.

An engine shows it on its `Job`, for readers that do not need the executable.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from inspector.compilation.caches import readings
from inspector.compilation.compiled import CompiledProgram, engine_of
from inspector.compilation.cost import Cost
from inspector.compilation.memory import Memory
from inspector.compilation.options.options import Options
from inspector.compilation.program import Program
from inspector.compilation.target import Target
from inspector.errors import Unavailable
from inspector.hlo.allocation_totals import assigned_bytes
from inspector.hlo.module import Module

NO_CODE = Unavailable("not known before code generation", "Wait for the compile to end.")
COUNTING = Unavailable("being counted", "Job.preview(counted=True) waits for it.")
"""The cost of a preview that is followed by another preview with the cost."""
NOT_COUNTED = Unavailable("the compile ended before its operations were counted", "Compile it again.")


@dataclasses.dataclass(frozen=True, slots=True, weakref_slot=True)
class Preview:
    """A program after XLA's passes.

    Its HLO equals that of the later `Compiled`, except for the order of stack frames and, on TPUs, for the additions of code
    generation, such as the vector memory that each kernel uses, which is 0 in a preview.

    Attributes:
      program, options, target: those of the request.
      engine: name of the engine.
      hlo: the optimized HLO.
      hlo_proto: the optimized HLO as a serialized `xla.HloModuleProto`.
      memory: sums of the buffer assignment, or why there are none yet.
      cost: operation counts, or why there are none: `COUNTING` if they follow.
      elapsed_s: seconds from the request until the engine had the preview.
      before_code: False if the engine has previews only together with the result.
      devices: as in `CompiledProgram`.
    """

    program: Program
    options: Options
    target: Target
    engine: str
    hlo: str
    hlo_proto: bytes
    memory: Memory | Unavailable
    cost: Cost | Unavailable
    elapsed_s: float
    before_code: bool = True
    devices: tuple[str, ...] = ()

    @classmethod
    def of(cls, compiled: CompiledProgram, elapsed_s: float) -> Preview:
        """Creates a preview for an engine that has the result at once."""
        shared = {f.name: getattr(compiled, f.name) for f in dataclasses.fields(cls) if hasattr(compiled, f.name)}
        return cls(**shared, engine=engine_of(compiled), elapsed_s=elapsed_s, before_code=False)

    @property
    def is_counted(self) -> bool:
        """True if the preview is final, False if its cost follows."""
        return self.cost != COUNTING

    def module(self) -> Module:
        """Returns the optimized HLO as a model: computations, instructions, shapes. The model is cached while there is space."""
        return readings.module(self, self.hlo_proto)

    def __repr__(self) -> str:
        return f"<Preview of {self.program.name} for {self.target}, {self.options}, after {self.elapsed_s:.3g} s>"


def assigned_memory(
    buffer_assignment: bytes, platform: str, reported: Mapping[str, int] | Unavailable = NO_CODE
) -> Memory | Unavailable:
    """Returns the `Memory` of a buffer assignment by a platform's compiler.

    Args:
      buffer_assignment: as read by `hlo.buffer_assignment`; b"" if XLA wrote none.
      platform: "cpu", "gpu" or "tpu".
      reported: the compiler's own statistics, used if there is no assignment.
    """
    if buffer_assignment:
        return Memory.assigned(platform, assigned_bytes(buffer_assignment), reported)
    return reported if isinstance(reported, Unavailable) else Memory.told(platform, reported)
