"""`Report`: everything that jaxlib's executable tells, as bytes, text and numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from inspector._jax.values import Facts
from inspector.errors import Unavailable
from inspector.support import deferred
from inspector.support.deferred import Deferred

Costing = Callable[[bytes, Mapping[str, float] | Unavailable], Facts | Unavailable]
"""Makes of a serialized `xla.HloModuleProto`, and XLA's cost analysis of it by XLA's names, the counts that are kept."""


def as_reported(_: bytes, reported: Mapping[str, float] | Unavailable) -> Facts | Unavailable:
    """The `Costing` that keeps what XLA says."""
    return reported


@dataclasses.dataclass(frozen=True, slots=True)
class Report(Deferred):
    """What is read from one executable, which it holds until it is asked for the serialized one.

    Attributes:
      hlo: the optimized HLO, as JAX's `as_text()` gives it.
      hlo_proto: the same as a serialized `xla.HloModuleProto`.
      memory: bytes by the names of `CompiledMemoryStats` (`argument_size_in_bytes`, ...).
      cost: operation counts, as the `Costing` of the compile makes them.
      executable: the serialized executable.
      timings: seconds: `parse_s`, `compile_s`, `read_s`.
      versions: `jax`, `jaxlib`, `platform_version`.
      devices: kind, id and place of the devices compiled for, by replica, then partition.
      buffer_assignment: a serialized `xla.BufferAssignmentProto`, or its text where XLA wrote only that; b"" for none.
      recorded: what else was asked for, by name, as bytes that `inspector.compilation` reads.
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
    """What is known once XLA's passes are through, before it generates code.

    Attributes:
      hlo: the optimized HLO's text, equal to `Report.hlo`, but for the order of stack frames where
        XLA's dump writes it in another form.
      hlo_proto: the same as a serialized `xla.HloModuleProto`.
      buffer_assignment: a serialized `xla.BufferAssignmentProto`, b"" where XLA gave none.
      devices: as in `Report`.
    """

    hlo: str
    hlo_proto: bytes
    buffer_assignment: bytes
    devices: tuple[str, ...] = ()


@dataclasses.dataclass(slots=True)
class Early:
    """What became known in the course of a compile; None for what did not.

    Attributes:
      report: what XLA's passes made.
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
    """Asks an executable for everything but timings.

    Args:
      raw: jaxlib's executable.
      versions: as in `Report`.
      host_callbacks: whether the program has some.
      devices: as in `Report`.
      early: what was known of it before: where it is the same, nothing is made or held twice.
      costing: makes the operation counts.
    """
    memory, assignment = _memory(raw)
    modules = raw.hlo_modules()
    text = _text(raw, modules)
    told = early.report
    known = told if told is not None and told.hlo == text else None  # the same module
    hlo_proto = known.hlo_proto if known else modules[0].as_serialized_hlo_module_proto()
    counted = early.cost if known else None
    return deferred.defer(
        Report,
        {"executable": lambda _: _serialized(raw, host_callbacks)},  # takes as long as all the rest
        hlo=known.hlo if known else text,
        hlo_proto=hlo_proto,
        memory=memory,
        cost=costing(hlo_proto, _cost(raw)) if counted is None else counted,
        timings={},
        versions=versions,
        devices=devices,
        buffer_assignment=told.buffer_assignment if told is not None else assignment,
    )


def _text(raw: Any, modules: Sequence[Any]) -> str:
    # In JAX's order, so that the text is the one that `as_text()` shows.
    if hasattr(raw, "get_hlo_text"):
        try:
            return str(raw.get_hlo_text())
        except Exception:  # UNIMPLEMENTED on some back-ends, which then have modules
            pass
    return "\n\n".join(module.to_string() for module in modules)


def _memory(raw: Any) -> tuple[Mapping[str, int] | Unavailable, bytes]:
    """`CompiledMemoryStats`, and the buffer assignment that comes with it on the CPU."""
    try:
        stats = raw.get_compiled_memory_stats()
    except Exception as e:
        return Unavailable(f"the back-end reports no memory statistics: {e}"), b""
    named = {name: getattr(stats, name) for name in dir(stats) if not name.startswith("_")}
    return {n: v for n, v in named.items() if isinstance(v, int)}, named.get("serialized_buffer_assignment_proto", b"")


def _cost(raw: Any) -> Mapping[str, float] | Unavailable:
    return named_cost(raw.cost_analysis)


def named_cost(analyze: Callable[[], Any]) -> Mapping[str, float] | Unavailable:
    """XLA's cost analysis by XLA's names, of what `analyze` returns or raises."""
    try:
        cost = analyze()
    except Exception as e:
        return Unavailable(f"the back-end has no cost analysis: {e}")
    if isinstance(cost, (list, tuple)):
        cost = cost[0] if cost else None
    if not cost:
        return Unavailable("the back-end's cost analysis is empty")
    return {str(name): float(value) for name, value in cost.items()}


def _serialized(raw: Any, host_callbacks: bool) -> bytes | Unavailable:
    if host_callbacks:
        return Unavailable("the program calls back into this process, so its executable cannot leave it")
    try:
        return bytes(raw.serialize())
    except Exception as e:
        return Unavailable(f"the back-end does not serialize executables: {e}")
