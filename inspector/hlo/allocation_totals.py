"""Totals of a buffer assignment: bytes by memory space and by kind of allocation.

XLA writes an assignment as a proto (`xla.BufferAssignmentProto`), or as text if it dumps only text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypedDict

from inspector.toolchain.schema import installed_schema

_TEXT = b"BufferAssignment:"  # prefix of the text form


class SpaceBytes(TypedDict):
    """Totals of one memory space, in bytes. A donated argument counts as argument, output and alias."""

    argument_bytes: int
    output_bytes: int
    alias_bytes: int
    constant_bytes: int
    temp_bytes: int
    thread_local_bytes: int


def assigned_bytes(data: bytes) -> dict[int, SpaceBytes]:
    """Returns the totals of an assignment, by XLA's number of the memory space.

    Args:
      data: a serialized `xla.BufferAssignmentProto`, or XLA's text of an assignment.
    """
    allocations = _in_text(data.decode()) if data.startswith(_TEXT) else _in_proto(data)
    totals: dict[int, SpaceBytes] = {}
    for space, size, kinds in allocations:
        sums: Any = totals.setdefault(space, SpaceBytes(
            argument_bytes=0, output_bytes=0, alias_bytes=0, constant_bytes=0, temp_bytes=0, thread_local_bytes=0,
        ))  # fmt: skip
        for kind in kinds:
            sums[f"{kind}_bytes"] += size
    return totals


def assignment_in(hlo_proto: bytes) -> bytes:
    """Returns the serialized `xla.BufferAssignmentProto` in a serialized `xla.HloProto`."""
    message: Any = installed_schema().message("xla.HloProto")
    assignment: bytes = message.FromString(hlo_proto).buffer_assignment.SerializeToString()
    return assignment


def _in_proto(data: bytes) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    message: Any = installed_schema().message("xla.BufferAssignmentProto")
    for one in message.FromString(data).buffer_allocations:
        kinds = _kinds(one.is_entry_computation_parameter, one.maybe_live_out, one.is_constant, one.is_thread_local)
        yield one.color, one.size, kinds


def _in_text(text: str) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """Parses lines such as `allocation 16: size 8, color 2, preallocated-temp:` (`BufferAllocation::ToString`)."""
    for line in text.split("\n"):
        if not line.startswith("allocation "):
            continue
        words = [word.rstrip(":") for word in line.partition(": ")[2].split(", ")]
        numbers = dict(word.split(" ") for word in words if word.startswith(("size ", "color ")))
        is_argument = any(word.startswith("parameter ") for word in words)
        kinds = _kinds(is_argument, "maybe-live-out" in words, "constant" in words, "thread-local" in words)
        yield int(numbers.get("color", 0)), int(numbers["size"]), kinds


def _kinds(is_argument: bool, is_output: bool, is_constant: bool, is_thread_local: bool) -> tuple[str, ...]:
    """Returns the kinds of an allocation, as in `CompiledMemoryStats::PopulateBufferStatsFromAllocations`."""
    if is_argument and is_output:
        return ("argument", "output", "alias")
    if is_argument:
        return ("argument",)
    if is_output:
        return ("output",)
    if is_constant:
        return ("constant",)
    return ("thread_local",) if is_thread_local else ("temp",)
