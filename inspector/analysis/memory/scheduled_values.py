"""Live ranges of the values of a scheduled module without a buffer assignment.

The schedule determines when each value is created and when it is last used. Values that XLA keeps in one buffer in any
case, such as those that a loop carries, are one value here. XLA can also reuse the buffer of an operand that is not used
again, which is not known without the assignment. So the peak is an estimate.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from inspector.analysis.memory.arrays import Arrays, Value, buffer_numbers, expanded
from inspector.analysis.memory.live_ranges import Curve, Life, Space
from inspector.analysis.memory.overwriting import overwritten
from inspector.analysis.memory.timeline import Timeline, capacity
from inspector.compilation.memory import space_name
from inspector.errors import Unavailable
from inspector.hlo.buffer_assignment import flattened
from inspector.hlo.module import Module
from inspector.hlo.reading.byte_arrays import Numbers
from inspector.platforms import Peak

_NAMING = frozenset({"tuple", "get-tuple-element", "bitcast", "opt-barrier", "domain", "add-dependency", "parameter"})
_SMALLEST_PART = 100
"""Buffers below this part of the largest one are not joined with results of their size: their number does not change the sum."""


def is_scheduled(module: Module) -> bool:
    """Reports whether a module has a schedule."""
    return bool(module.columns.module.HasField("schedule"))


def scheduled_timeline(module: Module, platform: str, peak: Peak | Unavailable) -> Timeline:
    """Returns the live ranges of the values of a scheduled module.

    Args:
      module: a module with a schedule.
      platform: "cpu", "gpu" or "tpu", for the names of memory spaces.
      peak: the chip's figures, for the capacities.
    """
    buffers = _Buffers(module)
    lives = tuple(buffers.lives(platform))
    names = sorted({life.space for life in lives}, key=lambda name: name != space_name(platform, 0))
    curves = {name: _curve(lives, name, len(buffers.order)) for name in names}
    schedule = tuple(map(module.columns.names.__getitem__, buffers.order.tolist()))
    spaces = {
        name: _space([life for life in lives if life.space == name], curves[name], schedule, capacity(name, peak))
        for name in names
    }
    return Timeline(lives, spaces, schedule, curves, module.origins(), is_estimated=True)


def buffers_of(module: Module) -> tuple[list[Buffer], int]:
    """Returns the buffers of a scheduled module, and the number of instructions that are executed in order.

    An operand whose last use computes a result of its size element by element ends before the result starts: XLA keeps both in one buffer.
    Donated arguments and their results are two buffers.
    """
    buffers = _Buffers(module, joins_donated=False)
    buffers.overwrite()
    return buffers.found(), len(buffers.order)


@dataclasses.dataclass(slots=True)
class Buffer:
    """Values that share a buffer.

    Attributes:
      start, end: positions in the schedule: where it is created, and where it is last used.
      first: the first value.
      byte_size: size in bytes.
      space: number of the memory space.
      parameter: number of the argument that it holds; None for other buffers.
      outputs: numbers of the results that it holds.
      is_constant: whether it holds a constant.
    """

    start: int
    end: int
    first: Value
    byte_size: int
    space: int
    parameter: int | None = None
    outputs: set[int] = dataclasses.field(default_factory=set)
    is_constant: bool = False

    @property
    def kind(self) -> str:
        if self.parameter is not None:
            return "donated" if self.outputs else "argument"
        if self.outputs:
            return "output"
        return "constant" if self.is_constant else "temporary"


class _Buffers:
    """The buffers of all values of a scheduled module.

    Attributes:
      order: rows of the instructions in the order of execution.
    """

    def __init__(self, module: Module, *, joins_donated: bool = True) -> None:
        self._module, columns = module, module.columns
        rows = [module.rows_by_name[name] for name in flattened(module)]
        once = [*dict.fromkeys(rows)]  # a computation may be called several times
        self.order: Numbers = np.array(rows, np.int64)
        self._arrays = arrays = Arrays(module, np.array(once, np.int64))
        counts, created = arrays.of_rows(self.order)
        shared = buffer_numbers(arrays, once, joins_donated=joins_donated)
        numbers, first = np.unique(shared[created], return_index=True)
        first.sort()  # in the order in which they are created
        self._first = created[first]
        renumbered = np.empty(len(arrays), np.int64)
        renumbered[shared[self._first]] = np.arange(len(numbers))
        self._of = renumbered[shared]
        self._start = np.repeat(np.arange(len(rows)), counts)[first]
        self._end = self._start.copy()
        self._sizes, self._spaces = np.zeros(len(numbers), np.int64), np.zeros(len(numbers), np.int64)
        np.maximum.at(self._sizes, self._of, arrays.sizes)
        np.maximum.at(self._spaces, self._of, arrays.spaces)
        reading = np.flatnonzero(~columns.opcode_is(_NAMING.__contains__)[self.order])
        positions, operands = self._operands(reading)
        counts, read = arrays.of_rows(operands)
        np.maximum.at(self._end, self._of[read], np.repeat(positions, counts))
        self._parameters = {
            int(number): int(each.parameter_number or 0)
            for each in module.entry.parameters
            for number in self._of[arrays.of(each.row)]
        }

    def _operands(self, positions: Numbers) -> tuple[Numbers, Numbers]:
        """Returns the rows of the operands of instructions, each with the position of the instruction."""
        offsets, rows = self._module.columns.operands.offsets, self.order[positions]
        counts = offsets[rows + 1] - offsets[rows]
        operands = self._module.columns.operands.rows[expanded(offsets[rows], counts)]
        return np.repeat(positions, counts), operands

    def overwrite(self) -> None:
        """Ends the live ranges of operands just before the operations that may overwrite them."""
        positions, operands = self._operands(np.arange(len(self.order)))
        arrays = self._arrays.single(operands)
        positions, buffers = positions[arrays >= 0], self._of[arrays[arrays >= 0]]
        least = self._sizes.max(initial=0) // _SMALLEST_PART
        is_last = (self._end[buffers] == positions) & (self._sizes[buffers] > least)
        for position in np.unique(positions[is_last]).tolist():
            taken = set[int]()
            for operand, result in overwritten(self._module.at(int(self.order[position])), self._arrays):
                reused, made = int(self._of[operand]), int(self._of[result])
                if reused == made or not self._end[reused] == position == self._start[made]:
                    continue
                if reused not in self._parameters:
                    if result in taken:
                        continue
                    taken.add(result)
                self._end[reused] -= 1

    def found(self) -> list[Buffer]:
        """Returns the buffers in the order in which they are created."""
        columns, arrays = self._module.columns, self._arrays
        rows = self.order[self._start].tolist()
        found = [
            Buffer(start, end, (row, arrays.index(first, row)), size, space, self._parameters.get(number))
            for number, (start, end, row, first, size, space) in enumerate(zip(
                self._start.tolist(), self._end.tolist(), rows, self._first.tolist(), self._sizes.tolist(), self._spaces.tolist(),
                strict=True,
            ))
        ]  # fmt: skip
        for row in np.unique(self.order[columns.opcode_is("constant".__eq__)[self.order]]).tolist():
            for array in arrays.of(row):
                found[self._of[array]].is_constant = True
        root = self._module.entry.root
        for array in arrays.of(root.row):
            index = arrays.index(array, root.row)
            found[self._of[array]].outputs.add(index[0] if index else 0)
        return found

    def lives(self, platform: str) -> Iterator[Life]:
        """Yields the live ranges."""
        last = len(self.order) - 1
        for number, buffer in enumerate(self.found()):
            if not buffer.byte_size:  # a token
                continue
            row, index = buffer.first
            is_temporary = buffer.kind == "temporary"
            yield Life(
                self._module.at(row).name,
                index,
                buffer.byte_size,
                buffer.start if is_temporary else 0,
                buffer.end if is_temporary else last,
                space_name(platform, buffer.space),
                buffer.kind,
                number,
                0,
                buffer.parameter,
            )


def _curve(lives: Sequence[Life], space: str, count: int) -> Curve:
    """Returns the bytes of live temporaries, as pairs of a position and the bytes from there on."""
    changes = np.zeros(count + 1, np.int64)
    for life in lives:
        if life.space == space and life.kind == "temporary":
            changes[life.start] += life.byte_size
            changes[life.end + 1] -= life.byte_size
    live = np.cumsum(changes[:-1]).tolist()
    return tuple(next(points) for _, points in itertools.groupby(enumerate(live), key=lambda point: point[1]))


def _space(lives: Sequence[Life], curve: Curve, schedule: Sequence[str], capacity_bytes: int | Unavailable) -> Space:
    sums: collections.Counter[str] = collections.Counter()
    for life in lives:
        sums[life.kind] += life.byte_size
    position, live = max(curve, key=lambda point: point[1], default=(0, 0))
    return Space(
        argument_bytes=sums["argument"] + sums["donated"],
        output_bytes=sums["output"] + sums["donated"],
        alias_bytes=sums["donated"],
        constant_bytes=sums["constant"],
        temp_bytes=live,
        live_bytes=live,
        peak_instruction=schedule[position] if live else "",
        capacity_bytes=capacity_bytes,
    )
