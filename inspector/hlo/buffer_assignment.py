"""Totals of an `xla.BufferAssignmentProto`, counted as XLA counts them (`CompiledMemoryStats`)."""

from __future__ import annotations

import collections
from typing import Any

from inspector.hlo.schema import Schema, installed_schema

_HOST = 5  # the memory space of host buffers (xla/layout.h, Layout::kHostMemorySpace)


def assigned_bytes(data: bytes, schema: Schema | None = None) -> dict[str, int]:
    """Bytes of arguments, outputs, aliases of both, and temporaries; for the device and as `host_*`.

    Args:
      data: a serialized `xla.BufferAssignmentProto`.
      schema: message classes; the installed jaxlib's by default.
    """
    message: Any = (schema or installed_schema()).message("xla.BufferAssignmentProto")
    totals: collections.Counter[str] = collections.Counter()
    for allocation in message.FromString(data).buffer_allocations:
        prefix = "host_" if allocation.color == _HOST else ""
        for kind in _kinds(allocation):
            totals[f"{prefix}{kind}_bytes"] += allocation.size
    names = ("argument_bytes", "output_bytes", "alias_bytes", "temp_bytes")
    return {prefix + name: totals[prefix + name] for prefix in ("", "host_") for name in names}


def _kinds(allocation: Any) -> tuple[str, ...]:
    """What an allocation counts as (`CompiledMemoryStats::PopulateBufferStatsFromAllocations`)."""
    is_argument, is_output = allocation.is_entry_computation_parameter, allocation.maybe_live_out
    if is_argument and is_output:
        return ("argument", "output", "alias")
    if is_argument:
        return ("argument",)
    if is_output:
        return ("output",)
    return () if allocation.is_thread_local or allocation.is_constant else ("temp",)
