"""`CompiledProgram`: a compiled program as a frozen value, to compare, pickle, save to one file and load without JAX.

Created by an engine or by `saved_compiled.load`. Read by every analysis. Users get it as `inspector.Compiled` (`stages/`).
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from typing import Protocol

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
from inspector.support.notebook import described, with_hint
from inspector.support.units import format_bytes, format_count, format_seconds

OPENED = "file"
"""The engine of programs that were read from a file and not compiled."""


def not_asked_for(product: str) -> Unavailable:
    """Returns the value of a product that was not requested from a compile."""
    return Unavailable(f"{product!r} was not requested", f"compile with products=({product!r},)")


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
      options: the user's options (`build_options_of` has all options of the compiler).
      target: the target.
      hlo: the optimized HLO, the text of JAX's `compiled.as_text()`.
      hlo_proto: the optimized HLO as a serialized `xla.HloModuleProto`.
      memory: memory totals, or why there are none.
      cost: operation counts of one execution, or why there are none.
      timings: seconds by stage: `compile_s` (XLA), `compile_cpu_s` (its CPU time), `queue_s`, `parse_s`, `read_s`,
        `total_s`. A cached program has the timings of its original compile, and `cache_s` (the time to fetch it) and
        `saved_s` (the time saved by the cache).
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
    _engine: str
    hlo: str
    hlo_proto: bytes
    memory: Memory | Unavailable
    cost: Cost | Unavailable
    timings: Mapping[str, float]
    _executable: bytes | Unavailable
    versions: Mapping[str, str]
    warnings: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    passes: Passes | Unavailable = dataclasses.field(default_factory=lambda: not_asked_for("passes"))
    assembly: Assembly | Unavailable = dataclasses.field(default_factory=lambda: not_asked_for("assembly"))
    buffers: Buffers | Unavailable = dataclasses.field(default_factory=lambda: not_asked_for("buffers"))

    def module(self) -> Module:
        """Returns the optimized HLO as a model: computations, instructions, shapes. The model is cached while there is space."""
        return readings.module(self, self.hlo_proto)

    def __repr__(self) -> str:
        memory = "" if isinstance(self.memory, Unavailable) else f", peak {format_bytes(self.memory.peak_bytes)}"
        flops = "" if isinstance(self.cost, Unavailable) else f", {format_count(self.cost.flops, 'flop')}"
        seconds = (
            f"compiled in {format_seconds(self.timings['compile_s'])}"
            if "compile_s" in self.timings
            else "not compiled here"
        )
        text = f"<Compiled {self.program.name} for {self.target}, {self.options}: {seconds}{memory}{flops}>"
        return with_hint(text, ".hlo, .memory, .cost, .instructions(), .roofline(), .run(*args)")

    def _repr_html_(self) -> str:
        numbers = (
            {}
            if isinstance(self.memory, Unavailable)
            else {
                "peak memory per device": format_bytes(self.memory.peak_bytes),
                "arguments": format_bytes(self.memory.argument_bytes),
                "results": format_bytes(self.memory.output_bytes),
                "temporaries": format_bytes(self.memory.temp_bytes),
            }
        )
        costs = (
            {}
            if isinstance(self.cost, Unavailable)
            else {
                "FLOPs": _number(self.cost.flops, "flop"),
                "bytes accessed": _number(self.cost.bytes_accessed, "B"),
            }
        )
        compiled_in = {"compile time": format_seconds(s)} if (s := self.timings.get("compile_s")) is not None else {}
        warnings = {f"warning {i}": warning for i, warning in enumerate(self.warnings, 1)}
        return described(repr(self), {**numbers, **costs, **compiled_in, **warnings})


# Functions and not methods, so that the public members of the class are those that users need.


def _number(value: float | Unavailable, unit: str) -> str:
    return str(value) if isinstance(value, Unavailable) else format_count(value, unit)


class Built(Protocol):
    """A `CompiledProgram` or a `Preview`."""

    @property
    def program(self) -> Program: ...
    @property
    def options(self) -> Options: ...
    @property
    def target(self) -> Target: ...
    @property
    def devices(self) -> tuple[str, ...]: ...
    def module(self) -> Module: ...


def engine_of(compiled: CompiledProgram) -> str:
    """Returns the name of the engine that compiled the program: "worker", "inline" or "dask"; `OPENED` if it was read."""
    return compiled._engine  # noqa: SLF001  # see above


def executable_of(compiled: CompiledProgram) -> bytes | Unavailable:
    """Returns XLA's serialized executable, or why there is none.

    A worker writes it after all other results, so the first access may wait for it.
    """
    return compiled._executable  # noqa: SLF001  # see above


def build_options_of(compiled: Built) -> Options:
    """Returns all options that the compiler got: those implied by the program, and the user's, which win."""
    return compiled.program.options.merge(compiled.options)


def placed_mesh(compiled: Built) -> Mesh | None:
    """Returns the program's mesh on the devices it is compiled for: `Mesh.physical_ids` are their ids."""
    return placed(compiled.program.mesh, device_ids(compiled.devices))


def digest_of(compiled: CompiledProgram) -> str:
    """Returns a SHA-256 in hex over module, options, target, compiler versions and a device order other than the default."""
    options = build_options_of(compiled).to_json()
    parts = (compiled.program.digest, options, str(compiled.target), *sorted(compiled.versions.items()))
    ids = compiled.program.device_ids or ()
    own_order = ids if ids != tuple(range(len(ids))) else ()
    return hashlib.sha256(repr((*parts, *own_order)).encode()).hexdigest()


def is_from_cache(compiled: CompiledProgram) -> bool:
    """Reports whether the program was compiled before this request and read from inspector's cache."""
    return "cache_s" in compiled.timings
