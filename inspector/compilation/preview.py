"""`Preview`: what a compile is known to give before there is machine code. A frozen value.

Shown by an engine on its `Job`; read by whoever does not need the executable.
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
COUNTING = Unavailable("being counted", "It follows by itself; Job.preview(counted=True) waits for it.")
"""The cost of a preview that is followed by another one, which has it."""
NOT_COUNTED = Unavailable("the compile ended before it was counted", "Compile it again.")


@dataclasses.dataclass(frozen=True, slots=True, weakref_slot=True)
class Preview:
    """A program after XLA's passes.

    Its HLO is that of the `Compiled` to come but for the order of stack frames and, on TPUs, for what code generation
    notes in it, such as the vector memory that each kernel uses: here all use none.

    Attributes:
      program, options, target: of the request.
      engine: who compiles.
      hlo: the optimized HLO.
      hlo_proto: the same as a serialized `xla.HloModuleProto`.
      memory: sums of the buffer assignment, or why there are none yet.
      cost: operation counts, or why there are none: `COUNTING` where they follow.
      elapsed_s: from the request until the engine had this.
      before_code: False when the engine could not tell before it had the result.
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
        """For an engine that has the result at once."""
        shared = {f.name: getattr(compiled, f.name) for f in dataclasses.fields(cls) if hasattr(compiled, f.name)}
        return cls(**shared, engine=engine_of(compiled), elapsed_s=elapsed_s, before_code=False)

    @property
    def is_counted(self) -> bool:
        """Whether there is no more to follow."""
        return self.cost != COUNTING

    def module(self) -> Module:
        """The optimized HLO as a model: computations, instructions, shapes. Read once, as long as there is room."""
        return readings.module(self, self.hlo_proto)

    def __repr__(self) -> str:
        return f"<Preview of {self.program.name} for {self.target}, {self.options}, after {self.elapsed_s:.3g} s>"


def assigned_memory(
    buffer_assignment: bytes, platform: str, reported: Mapping[str, int] | Unavailable = NO_CODE
) -> Memory | Unavailable:
    """`Memory` from a buffer assignment of a platform's compiler.

    Args:
      buffer_assignment: as `hlo.buffer_assignment` reads it; b"" where XLA gave none.
      platform: "cpu", "gpu" or "tpu".
      reported: the compiler's own statistics, which stand in where there is no assignment.
    """
    if buffer_assignment:
        return Memory.assigned(platform, assigned_bytes(buffer_assignment), reported)
    return reported if isinstance(reported, Unavailable) else Memory.told(platform, reported)
