"""`CompiledProgram`: a compiled program as a frozen value, to compare, pickle, save to one file and load without JAX.

Created by an engine or by `saved_compiled.load`. Read by every analysis. Users get it as `inspector.Compiled` (`stages/`).
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping

from inspector.compilation.caches import readings
from inspector.compilation.cost import Cost
from inspector.compilation.memory import Memory
from inspector.compilation.options.options import Options
from inspector.compilation.placement import device_ids, placed
from inspector.compilation.program import Program
from inspector.compilation.records.assembly import Assembly
from inspector.compilation.records.buffers import Buffers
from inspector.compilation.records.passes import Passes
from inspector.compilation.target import Target
from inspector.errors import Unavailable
from inspector.hlo.devices.mesh import Mesh
from inspector.hlo.module import Module
from inspector.support.deferred import Deferred
from inspector.support.units import format_bytes, format_count, format_seconds


def not_asked_for(product: str) -> Unavailable:
    """Returns the value of a product that was not requested from a compile."""
    return Unavailable(f"{product!r} was not asked for", f"compile with products=({product!r},)")


_INCOMPLETE = "the compiler's dump is not complete: "


def incomplete(reason: str) -> Unavailable:
    """Returns the value of a product for which the compiler could not write all files."""
    return Unavailable(
        f"{_INCOMPLETE}{reason}",
        "free disk space there, or set TMPDIR to a folder with enough space, and compile again",
    )


def is_incomplete(product: object) -> bool:
    """Reports whether a value was created by `incomplete`. Another compile with enough disk space has the product."""
    return isinstance(product, Unavailable) and product.reason.startswith(_INCOMPLETE)


@dataclasses.dataclass(frozen=True, slots=True, weakref_slot=True)
class CompiledProgram(Deferred):
    """A compiled program.

    Attributes:
      program: the program that was compiled.
      options: the user's options (`build_options` has all options of the compiler).
      target: the target.
      engine: name of the engine: "worker" or "inline".
      hlo: the optimized HLO, the text of JAX's `compiled.as_text()`.
      hlo_proto: the optimized HLO as a serialized `xla.HloModuleProto`.
      memory: memory totals, or why there are none.
      cost: operation counts of one execution, or why there are none.
      timings: seconds by stage: `compile_s` (XLA), `queue_s`, `parse_s`, `read_s`, `total_s`. A cached program has the
        timings of its original compile, and `cache_s` (the time to fetch it) and `saved_s` (the time saved
        by the cache).
      executable: XLA's serialized executable, or why there is none. A worker writes it after all other results, so the
        first access may wait for it.
      versions: `jax`, `jaxlib`, `platform_version` of the compiler.
      warnings: warnings of the compiler, one per line. A compile in this process (engine "inline") cannot read XLA's
        warnings and lists a line about that instead.
      devices: kind, id and, for a TPU, position of the devices of the compile, one for each replica and partition in
        row-major order: a mesh's devices in the order of its axes.
      passes: the changes by each compiler pass, if requested (`products=("passes",)`).
      assembly: the backend's code, if requested.
      buffers: the buffer assignment with heap traces, if requested.
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
    devices: tuple[str, ...] = ()
    passes: Passes | Unavailable = dataclasses.field(default_factory=lambda: not_asked_for("passes"))
    assembly: Assembly | Unavailable = dataclasses.field(default_factory=lambda: not_asked_for("assembly"))
    buffers: Buffers | Unavailable = dataclasses.field(default_factory=lambda: not_asked_for("buffers"))

    @property
    def build_options(self) -> Options:
        """All options of the compiler: the program's implied options with the user's on top."""
        return self.program.options.merge(self.options)

    @property
    def mesh(self) -> Mesh | None:
        """The program's mesh with the devices of the compile as its `physical_ids`."""
        return placed(self.program.mesh, device_ids(self.devices))

    @property
    def digest(self) -> str:
        """SHA-256 over module, options, target, compiler versions and the order of devices unless it is 0, 1, ..., in hex."""
        parts = (self.program.digest, self.build_options.to_json(), str(self.target), *sorted(self.versions.items()))
        ids = self.program.device_ids or ()
        own_order = ids if ids != tuple(range(len(ids))) else ()
        return hashlib.sha256(repr((*parts, *own_order)).encode()).hexdigest()

    @property
    def from_cache(self) -> bool:
        """True if the program comes from the cache, False if it was compiled for this request."""
        return "cache_s" in self.timings

    def module(self) -> Module:
        """Returns the optimized HLO as a model: computations, instructions, shapes. The model is cached while there is space."""
        return readings.module(self, self.hlo_proto)

    def __repr__(self) -> str:
        memory = "" if isinstance(self.memory, Unavailable) else f", peak {format_bytes(self.memory.peak_bytes)}"
        flops = "" if isinstance(self.cost, Unavailable) else f", {format_count(self.cost.flops, 'flop')}"
        seconds = format_seconds(self.timings.get("compile_s", 0.0))
        return f"<Compiled {self.program.name} for {self.target}, {self.options}: compiled in {seconds}{memory}{flops}>"
