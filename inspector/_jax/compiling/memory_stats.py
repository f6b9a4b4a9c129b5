"""`CompiledMemoryStats`: jaxlib's class of that name as a value, with the same fields on every jaxlib."""

from __future__ import annotations

import dataclasses
from typing import Any

from inspector.errors import Unavailable


@dataclasses.dataclass(frozen=True, slots=True)
class CompiledMemoryStats:
    """Bytes on one device for one execution, as XLA counts them. `Compiled.memory` has the same numbers under inspector's names.

    Attributes:
      generated_code_size_in_bytes: machine code; 0 on the CPU.
      argument_size_in_bytes, output_size_in_bytes: parameters and results.
      alias_size_in_bytes: outputs that reuse an argument, included in both of the above.
      temp_size_in_bytes: temporaries.
      peak_memory_in_bytes: XLA's own peak; on the CPU it excludes temporaries.
      host_*: the same in host memory, for devices with separate memory.
      indefinite_allocations, total_allocation_bytes, peak_unpadded_heap_bytes: since jaxlib 0.12.
      serialized_buffer_assignment_proto: an `xla.BufferAssignmentProto`; filled on the CPU only.
    """

    generated_code_size_in_bytes: int | Unavailable
    argument_size_in_bytes: int | Unavailable
    output_size_in_bytes: int | Unavailable
    alias_size_in_bytes: int | Unavailable
    temp_size_in_bytes: int | Unavailable
    host_generated_code_size_in_bytes: int | Unavailable
    host_argument_size_in_bytes: int | Unavailable
    host_output_size_in_bytes: int | Unavailable
    host_alias_size_in_bytes: int | Unavailable
    host_temp_size_in_bytes: int | Unavailable
    peak_memory_in_bytes: int | Unavailable
    indefinite_allocations: int | Unavailable
    total_allocation_bytes: int | Unavailable
    peak_unpadded_heap_bytes: int | Unavailable
    serialized_buffer_assignment_proto: bytes | Unavailable = dataclasses.field(repr=False)
    text: str = dataclasses.field(repr=False, compare=False)

    def __str__(self) -> str:
        return self.text


def memory_stats(raw: Any) -> CompiledMemoryStats:
    """Converts jaxlib's object to a value."""
    names = [f.name for f in dataclasses.fields(CompiledMemoryStats) if f.name != "text"]
    return CompiledMemoryStats(**{name: _attribute(raw, name) for name in names}, text=str(raw))


def _attribute(raw: Any, name: str) -> Any:
    return getattr(raw, name, Unavailable(f"this jaxlib has no {name}", "Update jaxlib."))
