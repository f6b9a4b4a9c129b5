"""`BufferAssignment`: the memory location of every value of a program, and the order in which its heaps were filled.

Read from an `xla.HloProto` with heap traces, such as `*after_optimizations.hlo.pb`. `analysis/memory/timeline.py` replays
it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from google.protobuf.message import DecodeError

from inspector.errors import ModuleError
from inspector.hlo.module import Computation, Module
from inspector.hlo.shape import Shape
from inspector.hlo.source import Origin
from inspector.toolchain.schema import Schema, installed_schema

Kind = Literal["argument", "output", "donated", "constant", "thread-local", "temporary"]


@dataclasses.dataclass(frozen=True, slots=True)
class Slot:
    """A logical buffer in an allocation.

    Attributes:
      buffer: id of the logical buffer.
      instruction: name of the instruction that produces its value.
      shape_index: index of the leaf in that value; () for an array.
      offset, byte_size: position and size in the allocation, in bytes.
    """

    buffer: int
    instruction: str
    shape_index: tuple[int, ...]
    offset: int
    byte_size: int


@dataclasses.dataclass(frozen=True, slots=True)
class Allocation:
    """An allocation of memory.

    Attributes:
      index: number in the assignment.
      byte_size: size in bytes.
      space: XLA's number of the memory space.
      kind: kind of allocation; "donated" is an argument that an output reuses.
      slots: logical buffers in it, at any time.
      parameter: number of the entry computation's parameter that it holds; None for other allocations.
    """

    index: int
    byte_size: int
    space: int
    kind: Kind
    slots: tuple[Slot, ...]
    parameter: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class HeapEvent:
    """An event in the heap trace.

    Attributes:
      kind: kind of event; "share" places `buffer` in the memory of `shared`.
      buffer, shared: ids of logical buffers.
    """

    kind: Literal["alloc", "free", "share"]
    buffer: int
    shared: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class BufferAssignment:
    """The memory of a program.

    Attributes:
      allocations: allocations by index.
      traces: for each heap, its events in schedule order.
      schedule: names of the instructions in execution order. Instructions of a loop's condition and body come before the
        loop.
      origins: source locations of these instructions, by name.
      shapes: shapes of their values, by name.
    """

    allocations: tuple[Allocation, ...]
    traces: tuple[tuple[HeapEvent, ...], ...]
    schedule: tuple[str, ...]
    origins: Mapping[str, Origin]
    shapes: Mapping[str, Shape] = dataclasses.field(default_factory=dict)

    @classmethod
    def from_proto(cls, data: bytes, schema: Schema | None = None) -> BufferAssignment:
        """Reads a serialized `xla.HloProto`.

        Args:
          data: a proto with `hlo_module` and `buffer_assignment`.
          schema: message classes; those of the installed jaxlib by default.

        Raises:
          ModuleError: the bytes are not such a proto, or it has no buffer assignment.
        """
        module = Module.from_proto(data, schema)
        try:
            proto: Any = (schema or installed_schema()).message("xla.HloProto").FromString(data)
        except DecodeError as e:
            raise ModuleError(f"The {len(data)} bytes of module {module.name} are damaged: {e}.") from None
        assignment = proto.buffer_assignment
        if not assignment.buffer_allocations:
            raise ModuleError(
                f"The {len(data)} bytes of module {module.name} have no buffer assignment. XLA writes one to"
                " *after_optimizations.hlo.pb if it dumps protos (xla_dump_hlo_as_proto)."
            )
        names = dict(zip(module.columns.ids.tolist(), module.columns.names, strict=True))
        defined = {
            b.id: (_instruction_name(b, names), tuple(b.defined_at.shape_index)) for b in assignment.logical_buffers
        }
        return cls(
            tuple(_allocation(a, defined) for a in assignment.buffer_allocations),
            tuple(tuple(_events(trace)) for trace in assignment.heap_simulator_traces),
            tuple(flattened(module)),
            module.origins(),
            dict(
                zip(
                    module.columns.names, map(module.known_shapes.__getitem__, module.columns.shapes.codes), strict=True
                )
            ),
        )


def _allocation(proto: Any, defined: dict[int, tuple[str, tuple[int, ...]]]) -> Allocation:
    slots = tuple(
        Slot(a.logical_buffer_id, *defined[a.logical_buffer_id], int(a.offset), int(a.size))
        for a in proto.assigned
        if a.logical_buffer_id in defined
    )
    parameter = int(proto.parameter_number) if proto.is_entry_computation_parameter else None
    return Allocation(int(proto.index), int(proto.size), int(proto.color), _kind(proto), slots, parameter)


def _kind(proto: Any) -> Kind:
    """Returns the kind, with the precedence of `CompiledMemoryStats::PopulateBufferStatsFromAllocations`."""
    if proto.is_entry_computation_parameter:
        return "donated" if proto.maybe_live_out else "argument"
    if proto.maybe_live_out:
        return "output"
    if proto.is_constant:
        return "constant"
    return "thread-local" if proto.is_thread_local else "temporary"


def _instruction_name(buffer: Any, names: dict[int, str]) -> str:
    place = buffer.defined_at
    return str(place.instruction_name) or names.get(place.instruction_id, f"instruction {place.instruction_id}")


def _events(trace: Any) -> Iterator[HeapEvent]:
    kinds: dict[int, Literal["alloc", "free", "share"]] = {0: "alloc", 1: "free", 2: "share"}  # xla/service/hlo.proto
    for event in trace.events:
        yield HeapEvent(kinds[event.kind], int(event.buffer_id), int(event.share_with_canonical_id))


def flattened(module: Module) -> Iterator[str]:
    """Yields instruction names in XLA's order for live ranges (`HloLiveRange::FlattenSchedule`)."""

    def visit(computation: Computation) -> Iterator[str]:
        for instruction in computation.schedule:
            if instruction.opcode in _CONTROL_FLOW:
                called = instruction.called_computations
                for each in reversed(called) if instruction.opcode == "while" else called:  # the condition first
                    yield from visit(each)
            yield instruction.name

    return visit(module.entry)


_CONTROL_FLOW = frozenset({"while", "call", "conditional", "async-start"})
