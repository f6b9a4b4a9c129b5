"""`Report`: everything that jaxlib's executable reports, as bytes, text and numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from inspector._jax.values import Facts
from inspector.errors import Unavailable
from inspector.support import deferred
from inspector.support.deferred import Deferred

Costing = Callable[[bytes, Mapping[str, float] | Unavailable], Facts | Unavailable]
"""Computes operation counts from a serialized `xla.HloModuleProto` and XLA's cost analysis of it under XLA's names."""


def as_reported(_: bytes, reported: Mapping[str, float] | Unavailable) -> Facts | Unavailable:
    """Returns XLA's own counts; a `Costing`."""
    return reported


@dataclasses.dataclass(frozen=True, slots=True)
class Report(Deferred):
    """Everything read from one executable; keeps the executable alive until its serialized form is read.

    Attributes:
      hlo: the optimized HLO, as JAX's `as_text()` returns it.
      hlo_proto: the same as a serialized `xla.HloModuleProto`.
      memory: bytes under the names of `CompiledMemoryStats` (`argument_size_in_bytes`, ...).
      cost: operation counts, as computed by the `Costing` of the compile.
      executable: the serialized executable.
      timings: durations in seconds: `parse_s`, `compile_s`, `read_s`; `compile_cpu_s` is the CPU time of the process during the
        compile.
      versions: `jax`, `jaxlib`, `platform_version`.
      devices: kind, id and position of the devices compiled for, by replica, then partition.
      buffer_assignment: a serialized `xla.BufferAssignmentProto`, or its text if XLA wrote only that; b"" for none.
      recorded: other requested products, by name, as bytes that `inspector.compilation` reads.
    """

    hlo: str
    hlo_proto: bytes
    memory: Mapping[str, int] | Unavailable
    cost: Facts | Unavailable
    executable: bytes | Unavailable
    timings: Mapping[str, float]
    versions: Mapping[str, str]
    devices: tuple[str, ...] = ()
    buffer_assignment: bytes = b""
    recorded: Mapping[str, bytes | Unavailable] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class EarlyReport:
    """The results that are known after XLA's passes, before code generation.

    Attributes:
      hlo: the optimized HLO's text, equal to `Report.hlo` except for the order of stack frames if
        XLA's dump writes it in another form.
      hlo_proto: the same as a serialized `xla.HloModuleProto`.
      buffer_assignment: a serialized `xla.BufferAssignmentProto`, b"" if XLA wrote none.
      devices: as in `Report`.
    """

    hlo: str
    hlo_proto: bytes
    buffer_assignment: bytes
    devices: tuple[str, ...] = ()


@dataclasses.dataclass(slots=True)
class Early:
    """Results collected during a compile; None for those that never came.

    Attributes:
      report: the results of XLA's passes.
      cost: its operation counts, as in `Report`.
    """

    report: EarlyReport | None = None
    cost: Facts | Unavailable | None = None


def read_report(
    raw: Any,
    versions: Mapping[str, str],
    host_callbacks: bool,
    devices: tuple[str, ...],
    early: Early,
    costing: Costing = as_reported,
) -> Report:
    """Reads everything except timings from an executable.

    Args:
      raw: jaxlib's executable.
      versions: as in `Report`.
      host_callbacks: whether the program has host callbacks.
      devices: as in `Report`.
      early: results known before; if they are equal, nothing is computed or stored twice.
      costing: computes the operation counts.
    """
    memory, assignment = _memory(raw)
    modules = raw.hlo_modules()
    text = _text(raw, modules)
    first = early.report
    known = first if first is not None and first.hlo == text else None  # the same module
    hlo_proto = known.hlo_proto if known else modules[0].as_serialized_hlo_module_proto()
    counted = early.cost if known else None
    return deferred.defer(
        Report,
        {"executable": lambda _: _serialized(raw, host_callbacks)},  # as slow as everything else together
        hlo=known.hlo if known else text,
        hlo_proto=hlo_proto,
        memory=memory,
        cost=costing(hlo_proto, _cost(raw)) if counted is None else counted,
        timings={},
        versions=versions,
        devices=devices,
        buffer_assignment=first.buffer_assignment if first is not None else assignment,
    )


def _text(raw: Any, modules: Sequence[Any]) -> str:
    # In JAX's order, so that the text is the one that `as_text()` shows.
    if hasattr(raw, "get_hlo_text"):
        try:
            return str(raw.get_hlo_text())
        except Exception:  # UNIMPLEMENTED on some backends, which then have modules
            pass
    return "\n\n".join(module.to_string() for module in modules)


def _memory(raw: Any) -> tuple[Mapping[str, int] | Unavailable, bytes]:
    """Returns the `CompiledMemoryStats`, and on the CPU the buffer assignment that they include."""
    try:
        stats = raw.get_compiled_memory_stats()
    except Exception as e:
        return Unavailable(f"the backend reports no memory statistics: {e}"), b""
    named = {name: getattr(stats, name) for name in dir(stats) if not name.startswith("_")}
    return {n: v for n, v in named.items() if isinstance(v, int)}, named.get("serialized_buffer_assignment_proto", b"")


def _cost(raw: Any) -> Mapping[str, float] | Unavailable:
    return named_cost(raw.cost_analysis)


def named_cost(analyze: Callable[[], Any]) -> Mapping[str, float] | Unavailable:
    """Returns XLA's cost analysis under XLA's names, or the error that `analyze` raises."""
    try:
        cost = analyze()
    except Exception as e:
        return Unavailable(f"the backend has no cost analysis: {e}")
    if isinstance(cost, (list, tuple)):
        cost = cost[0] if cost else None
    if not cost:
        return Unavailable("the backend's cost analysis is empty")
    return {str(name): float(value) for name, value in cost.items()}


def _serialized(raw: Any, host_callbacks: bool) -> bytes | Unavailable:
    if host_callbacks:
        return Unavailable("the program calls back into this process, so its executable cannot be serialized")
    try:
        return bytes(raw.serialize())
    except Exception as e:
        return Unavailable(f"the backend does not serialize executables: {e}")
