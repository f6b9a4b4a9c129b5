"""`Preview`: what a compile is known to give before there is machine code. A frozen value.

Shown by an engine on its `Job`; read by whoever does not need the executable.
"""

from __future__ import annotations

import dataclasses

from inspector.compilation.compiled import Compiled, Cost, Memory
from inspector.compilation.options import Options
from inspector.compilation.program import Program
from inspector.compilation.target import Target
from inspector.errors import Unavailable
from inspector.hlo.buffer_assignment import assigned_bytes
from inspector.hlo.module import Module

NO_CODE = Unavailable("not known before code generation", "Wait for the compile to end.")


@dataclasses.dataclass(frozen=True, slots=True)
class Preview:
    """A program after XLA's passes. Its HLO is that of the `Compiled` to come, stack frames' order apart.

    Attributes:
      program, options, target: of the request.
      engine: who compiles.
      hlo: the optimized HLO.
      hlo_proto: the same as a serialized `xla.HloModuleProto`.
      memory: totals of the buffer assignment, code excepted, or why there are none yet.
      cost: operation counts, or why there are none.
      elapsed_s: from the request until the engine had this.
      before_code: False when the engine could not tell before it had the result.
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

    @classmethod
    def of(cls, compiled: Compiled, elapsed_s: float) -> Preview:
        """For an engine that has the result at once."""
        shared = {f.name: getattr(compiled, f.name) for f in dataclasses.fields(cls) if hasattr(compiled, f.name)}
        return cls(**shared, elapsed_s=elapsed_s, before_code=False)

    @property
    def build_options(self) -> Options:
        """All that the compiler was told: the program's implied options with the user's on top."""
        return self.program.options.merge(self.options)

    def module(self) -> Module:
        """The optimized HLO as a model: computations, instructions, shapes."""
        return Module.from_proto(self.hlo_proto)

    def __repr__(self) -> str:
        return f"<Preview of {self.program.name} for {self.target}, {self.options}, after {self.elapsed_s:.3g} s>"


def assigned_memory(buffer_assignment: bytes, platform: str) -> Memory | Unavailable:
    """`Memory` from a serialized `xla.BufferAssignmentProto` of a platform's compiler; b"" where XLA gave none."""
    if not buffer_assignment or platform == "tpu":  # whose totals count several memories, and not alike in all versions
        return NO_CODE
    return Memory(**assigned_bytes(buffer_assignment), generated_code_bytes=NO_CODE, host_generated_code_bytes=NO_CODE)
