"""`Compiled`: what a compiler gave back. A frozen value: compare, pickle, save to one file, load without JAX.

Made by an engine, or by `Compiled.load`. Read by every analysis.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inspector.compilation.options import Options
from inspector.compilation.program import Program
from inspector.compilation.target import Target
from inspector.errors import Unavailable

if TYPE_CHECKING:
    import graphviz
    import pandas as pd

    from inspector.execution.run import Run


@dataclasses.dataclass(frozen=True, slots=True)
class Memory:
    """Bytes of one device for one execution, from XLA's buffer assignment (`CompiledMemoryStats`).

    Attributes:
      argument_bytes, output_bytes: parameters and results.
      alias_bytes: outputs that reuse a donated argument; counted in both of the above.
      temp_bytes: the heap of temporaries, as large as its fullest moment.
      generated_code_bytes: machine code, 0 where it lies in host memory.
      peak_bytes: `argument + output - alias + temp`: what XLA allocates for one execution.
        Computed here, because XLA's own peak leaves out temporaries on CPU and mixes memory spaces
        on TPU. Constants and collective scratch that XLA keeps elsewhere are not in it.
      host_*: the same in host memory, on devices with memory of their own.
    """

    argument_bytes: int
    output_bytes: int
    alias_bytes: int
    temp_bytes: int
    generated_code_bytes: int
    host_argument_bytes: int
    host_output_bytes: int
    host_alias_bytes: int
    host_temp_bytes: int
    host_generated_code_bytes: int

    @property
    def peak_bytes(self) -> int:
        return self.argument_bytes + self.output_bytes - self.alias_bytes + self.temp_bytes

    @property
    def host_peak_bytes(self) -> int:
        return self.host_argument_bytes + self.host_output_bytes - self.host_alias_bytes + self.host_temp_bytes


@dataclasses.dataclass(frozen=True, slots=True)
class Cost:
    """Operation counts of one execution on one device, from XLA's HLO cost analysis.

    A `while` body counts once, whatever its trip count.

    Attributes:
      flops: floating-point operations.
      transcendentals: exp, log, sin and the like, not in `flops`.
      bytes_accessed: operand and result bytes of every instruction that touches memory.
    """

    flops: float | Unavailable
    transcendentals: float | Unavailable
    bytes_accessed: float | Unavailable


@dataclasses.dataclass(frozen=True, slots=True)
class Compiled:
    """A compiled program.

    Attributes:
      program: what was compiled.
      options: the user's options (see `build_options` for all that the compiler got).
      target: for what.
      engine: who compiled: "worker" or "inline".
      hlo: the optimized HLO, the text of JAX's `compiled.as_text()`.
      hlo_proto: the same as a serialized `xla.HloModuleProto`.
      memory, cost: totals, or why there are none.
      timings: seconds by stage: `compile_s` (XLA), `queue_s`, `parse_s`, `read_s`, `total_s`.
      executable: XLA's serialized executable, or why there is none.
      versions: `jax`, `jaxlib`, `platform_version` of the compiler.
      warnings: what the compiler said, a line each.
    """

    program: Program
    options: Options
    target: Target
    engine: str
    hlo: str
    hlo_proto: bytes
    memory: Memory | Unavailable
    cost: Cost | Unavailable
    timings: Mapping[str, float]
    executable: bytes | Unavailable
    versions: Mapping[str, str]
    warnings: tuple[str, ...] = ()

    @property
    def build_options(self) -> Options:
        """All that the compiler was told: the program's implied options with the user's on top."""
        return self.program.options.merge(self.options)

    @property
    def digest(self) -> str:
        """SHA-256 over module, options, target and compiler versions, in hex."""
        parts = (self.program.digest, self.build_options.to_json(), str(self.target), *sorted(self.versions.items()))
        return hashlib.sha256(repr(parts).encode()).hexdigest()
