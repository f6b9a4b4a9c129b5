"""Memory use over the schedule, from replaying XLA's heaps.

Before XLA generates code, it simulates a heap per memory space and records each event. Replaying the events gives the live
range of every buffer, and the peak of each memory space.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from inspector.analysis.cost.phases import phases_text
from inspector.analysis.memory.live_ranges import NO_CAPACITY, Curve, Life, Space, steps
from inspector.compilation.memory import SPACE_COLUMNS, cells, space_name
from inspector.compilation.program import Argument
from inspector.errors import ParameterError, Unavailable
from inspector.hlo.buffer_assignment import Allocation, BufferAssignment, HeapEvent, Slot
from inspector.hlo.source import NOWHERE, Origin, library_text, phases
from inspector.platforms import Peak
from inspector.support.notebook import described, short, with_hint
from inspector.support.tables import UNKNOWN, Kind, make_table
from inspector.support.units import format_bytes

if TYPE_CHECKING:
    import pandas as pd

    from inspector.analysis.figures import Picture

_NO_PEAK = Unavailable("the chip was not named")


@dataclasses.dataclass(frozen=True, slots=True)
class Timeline:
    """A program's memory use over its schedule.

    Attributes:
      lives: all buffers with their live ranges.
      spaces: all memory spaces, by name.
      schedule: names of the instructions in execution order.
      curves: for each memory space the bytes of live temporaries, as pairs of a position in the schedule and the maximum
        from there until the next pair's position.
      origins: origins of the instructions, by name.
      is_estimated: whether it follows from the schedule alone, without a buffer assignment: sizes of values instead of
        allocations, and a peak that does not include gaps and further reuse of buffers.
    """

    lives: tuple[Life, ...]
    spaces: Mapping[str, Space]
    schedule: tuple[str, ...]
    curves: Mapping[str, Curve]
    origins: Mapping[str, Origin]
    is_estimated: bool = False

    def alive(self, space: str, position: int | None = None) -> tuple[Life, ...]:
        """Returns the buffers that are live in a memory space at a position of the schedule, the largest first.

        A buffer that lies entirely within another one is omitted, for example an operand whose buffer the result reuses;
        of two buffers at the same place the one that is created later is returned. So the sizes of temporaries sum to the
        live bytes. Thread-local values are omitted, because the peak memory does not include them.

        Args:
          space: name of the memory space.
          position: counted from 0; None for the peak of the temporaries.

        Raises:
          ParameterError: the memory space does not exist.
        """
        if space not in self.spaces:
            raise ParameterError(f"Unknown memory space {short(space)}. This program has {', '.join(self.spaces)}.")
        at = self.peak_position(space) if position is None else position
        here = (
            life
            for life in self.lives
            if life.space == space and life.start <= at <= life.end and life.kind != "thread-local"
        )
        return _without_covered(sorted(here, key=lambda life: (-life.byte_size, -life.start)))

    def peak_position(self, space: str) -> int:
        """Returns the position in the schedule with the most bytes of live temporaries; 0 without temporaries."""
        name = self.spaces[space].peak_instruction
        return self.schedule.index(name) if name else 0

    def origin(self, life: Life) -> Origin:
        """Returns the origin of the instruction whose value a buffer holds."""
        return self.origins.get(life.instruction, NOWHERE)

    def phase(self, life: Life) -> str | None:
        """Returns the part of a differentiated program that a buffer belongs to; None for an argument, or if unknown."""
        return None if life.parameter is not None else phases_text(phases(self.origin(life).op_name))

    def unused_donations(self, arguments: Iterable[Argument]) -> tuple[Argument, ...]:
        """Returns the donated arguments of a program that no output reuses."""
        reused = {life.parameter for life in self.lives if life.kind == "donated"}
        return tuple(a for a in arguments if a.donated and a.parameter is not None and a.parameter not in reused)

    def table(self) -> pd.DataFrame:
        """Returns the live ranges of all buffers as a table; see `buffer_table`."""
        return buffer_table(self)

    def space_table(self) -> pd.DataFrame:
        """Returns the sums and the peaks of all memory spaces as a table; see `Space`."""
        return space_table(self)

    def plot(self) -> Picture:
        """Plots the live temporaries over the schedule."""
        from inspector.analysis.memory.timeline_plot import timeline_plot

        return timeline_plot(self.spaces, self.curves, len(self.schedule), is_estimated=self.is_estimated)

    def __repr__(self) -> str:
        spaces = ", ".join(f"{name} {format_bytes(space.allocated_bytes)}" for name, space in self.spaces.items())
        source = ", estimated from the schedule" if self.is_estimated else ""
        return with_hint(f"<Timeline of {len(self.lives)} buffers{source}: {spaces}>", ".table(), .plot()")

    def _repr_html_(self) -> str:
        return described(repr(self), table=self.table())


def _without_covered(lives: Sequence[Life]) -> tuple[Life, ...]:
    """Returns the buffers that do not lie entirely within an earlier one."""
    buffers: list[Life] = []
    taken: dict[int, list[tuple[int, int]]] = {}
    for life in lives:
        places, end = taken.setdefault(life.allocation, []), life.offset + life.byte_size
        if not any(first <= life.offset and end <= last for first, last in places):
            places.append((life.offset, end))
            buffers.append(life)
    return tuple(buffers)


def timeline(hlo_proto: bytes, platform: str, peak: Peak | Unavailable = _NO_PEAK) -> Timeline:
    """Replays the heaps of a program.

    Args:
      hlo_proto: a serialized `xla.HloProto` with a buffer assignment.
      platform: "cpu", "gpu" or "tpu", for the names of memory spaces.
      peak: the chip's figures, for the capacities.

    Raises:
      ModuleError: `hlo_proto` is not an `xla.HloProto`, or has no buffer assignment.
    """
    assignment = BufferAssignment.from_proto(hlo_proto)
    end = len(assignment.schedule) - 1
    lives = [
        _life(assignment, space_name(platform, a.space), a, _whole(a), 0, end)
        for a in assignment.allocations
        if a.kind != "temporary" and a.slots
    ]
    heaps = [replay for trace in assignment.traces if trace for replay in [_Replay(assignment, trace, platform)]]
    curves: dict[str, Curve] = {}
    for heap in heaps:
        lives += heap.lives
        curves[heap.space] = _together(curves.get(heap.space, ()), tuple(heap.curve))
    numbers = {space_name(platform, a.space): a.space for a in sorted(assignment.allocations, key=lambda a: a.space)}
    return Timeline(
        tuple(lives),
        {
            name: _space(assignment, number, lives, curves.get(name, ()), capacity(name, peak))
            for name, number in numbers.items()
        },
        assignment.schedule,
        {name: steps(curve) for name, curve in curves.items()},
        assignment.origins,
    )


def buffer_table(timeline: Timeline) -> pd.DataFrame:
    """Returns one row per buffer, largest first.

    Columns: `instruction, shape_index, bytes, start, end, space, kind, allocation, offset, parameter, padding_bytes, scope,
    source_file, source_line, phase, library_line`; see `Life`. `phase` is the part of a differentiated program, as in
    `Compiled.instructions`; it is missing for arguments.
    """
    rows = [_row(life, timeline) for life in timeline.lives]
    return make_table(_COLUMNS, rows).sort_values(["bytes", "start"], ascending=[False, True], ignore_index=True)


_COLUMNS: Mapping[str, Kind] = {
    "instruction": "text", "shape_index": "object", "bytes": "int", "start": "int", "end": "int", "space": "text",
    "kind": "text", "allocation": "int", "offset": "int", "parameter": "int", "padding_bytes": "int", "scope": "text",
    "source_file": "text", "source_line": "int", "phase": "text", "library_line": "text",
}  # fmt: skip


def _row(life: Life, timeline: Timeline) -> tuple[object, ...]:
    origin = timeline.origin(life)
    place = (origin.line.file, origin.line.line) if origin.line else (None, None)
    return (*dataclasses.astuple(life), origin.scope, *place, timeline.phase(life), library_text(origin.frames))


def space_table(timeline: Timeline) -> pd.DataFrame:
    """Returns one row per memory space; the columns are the attributes of `Space`, and `allocated_bytes`."""
    rows = [
        (name, space.live_bytes, space.untraced_bytes, space.peak_instruction, space.capacity_bytes, *cells(space))
        for name, space in timeline.spaces.items()
    ]
    return make_table(_SPACE_COLUMNS, rows)


_SPACE_COLUMNS: Mapping[str, Kind] = {
    "space": "text", "live_bytes": "int", "untraced_bytes": "int", "peak_instruction": "text", "capacity_bytes": "int",
    **SPACE_COLUMNS, UNKNOWN: "reasons",
}  # fmt: skip


class _Replay:
    """The replay of one heap."""

    def __init__(self, assignment: BufferAssignment, trace: tuple[HeapEvent, ...], platform: str) -> None:
        placed = {slot.buffer: (a, slot) for a in assignment.allocations for slot in a.slots}
        position = {name: index for index, name in enumerate(assignment.schedule)}
        self.space = next((space_name(platform, placed[e.buffer][0].space) for e in trace if e.buffer in placed), "")
        self.lives: list[Life] = []
        self.curve: list[tuple[int, int]] = [(0, 0)]
        started: dict[int, int] = {}
        occupied: dict[int, _Occupied] = {}
        now = 0
        for event in trace:
            if event.buffer not in placed:
                continue
            allocation, slot = placed[event.buffer]
            heap = occupied.setdefault(allocation.index, _Occupied(allocation))
            if event.kind == "free":
                heap.change(slot, -1)
                self.lives.append(_life(assignment, self.space, allocation, slot, started[event.buffer], now))
            else:
                now = max(now, position.get(slot.instruction, now))
                started[event.buffer] = now
                heap.change(slot, +1)
            self.curve.append((now, sum(each.live_bytes for each in occupied.values())))


class _Occupied:
    """The used part of an allocation; buffers may overlap, for example a result that reuses the buffer of its operand."""

    def __init__(self, allocation: Allocation) -> None:
        ends = {edge for s in allocation.slots for edge in (s.offset, s.offset + s.byte_size)}
        self._edges = np.array(sorted(ends), np.int64)
        self._lengths = np.diff(self._edges)
        self._holders = np.zeros(len(self._lengths), np.int64)
        self.live_bytes = 0

    def change(self, slot: Slot, by: int) -> None:
        """Adds a buffer (`by` = 1) or removes one (`by` = -1)."""
        first, last = np.searchsorted(self._edges, (slot.offset, slot.offset + slot.byte_size))
        holders, lengths = self._holders[first:last], self._lengths[first:last]
        before = int(lengths[holders > 0].sum())
        holders += by
        self.live_bytes += int(lengths[holders > 0].sum()) - before


def _whole(allocation: Allocation) -> Slot:
    """Returns an allocation as one buffer, named after its largest value; other values may share the allocation."""
    largest = max(allocation.slots, key=lambda slot: slot.byte_size)
    return dataclasses.replace(largest, byte_size=allocation.byte_size)


def _life(assignment: BufferAssignment, space: str, allocation: Allocation, slot: Slot, start: int, end: int) -> Life:
    shape = assignment.shapes.get(slot.instruction)
    value = shape.at(slot.shape_index) if shape is not None else None
    is_table = value is None or value.is_tuple  # a table of pointers
    padding = 0 if is_table or value is None else max(0, slot.byte_size - value.byte_size)
    return Life(
        slot.instruction, slot.shape_index, slot.byte_size, start, end, space, allocation.kind, allocation.index,
        slot.offset, allocation.parameter, padding,
    )  # fmt: skip


def _space(
    assignment: BufferAssignment,
    number: int,
    lives: list[Life],
    curve: Curve,
    capacity_bytes: int | Unavailable,
) -> Space:
    here = [a for a in assignment.allocations if a.space == number]

    def of(*kinds: str) -> int:
        return sum(a.byte_size for a in here if a.kind in kinds)

    traced = {(one.allocation, one.instruction, one.shape_index) for one in lives}
    temporaries = [a for a in here if a.kind == "temporary"]
    position, live = max(curve, key=lambda point: point[1], default=(0, 0))
    return Space(
        argument_bytes=of("argument", "donated"),
        output_bytes=of("output", "donated"),
        alias_bytes=of("donated"),
        constant_bytes=of("constant"),
        temp_bytes=of("temporary"),
        thread_local_bytes=of("thread-local"),
        live_bytes=live,
        untraced_bytes=sum(
            s.byte_size for a in temporaries for s in a.slots if (a.index, s.instruction, s.shape_index) not in traced
        ),
        peak_instruction=assignment.schedule[position] if live else "",
        capacity_bytes=capacity_bytes,
    )


def capacity(name: str, peak: Peak | Unavailable) -> int | Unavailable:
    """Returns the capacity of a memory space."""
    known = {} if isinstance(peak, Unavailable) else {"HBM": peak.memory_bytes, "VMEM": peak.vmem_bytes}
    return known.get(name, NO_CAPACITY)


def _together(one: Curve, other: Curve) -> Curve:
    """Returns the sum of two curves."""
    if not one:
        return other
    return tuple(_summed(one, other))


def _summed(one: Curve, other: Curve) -> Iterator[tuple[int, int]]:
    steps = sorted([(p, 0, b) for p, b in one] + [(p, 1, b) for p, b in other], key=lambda step: step[:2])
    current = [0, 0]
    for position, which, live in steps:
        current[which] = live
        yield position, sum(current)
