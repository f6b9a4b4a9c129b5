"""Which instructions of a module are the same but for their names: what holds for one of them holds for all.

A large module repeats a few thousand operations hundreds of thousands of times. What is asked of an instruction alone,
such as what it costs, is asked once for each kind.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from inspector.errors import ModuleError
from inspector.hlo.reading.byte_arrays import ByteRanges, Numbers, Octets
from inspector.hlo.reading.columns import Columns
from inspector.hlo.reading.field_numbers import METADATA, SHAPE
from inspector.support.value_ids import numbered


@dataclasses.dataclass(frozen=True, eq=False)
class Alike:
    """The kinds of instructions of a module.

    Attributes:
      columns: of the module.
      kinds: of each instruction, counted from 0.
      first: the first row of each kind.
      bodies: of each computation that something calls, a number; equal for those with the same kinds of instructions
        that feed each other alike.
    """

    columns: Columns = dataclasses.field(repr=False)
    kinds: Numbers
    first: Numbers
    bodies: Mapping[int, int]

    def attributes(self, without: Collection[int]) -> list[bytes]:
        """What the first of each kind says besides its name, its id and what it refers to, without some fields."""
        said = self.columns.contents.without(without)
        return [said[code] for code in self.columns.codes[self.first].tolist()]

    @property
    def counts(self) -> Numbers:
        """How many instructions there are of each kind."""
        return np.bincount(self.kinds, minlength=len(self.first))


def alike(
    columns: Columns, without: Collection[int] = (), shapes: Numbers | None = None, finer: Alike | None = None
) -> Alike:
    """Sorts instructions by what they are: opcode, shape, attributes, shapes of operands, and what they call.

    Operands count by their shapes and by which of them are the same; computations by their instructions and which
    feeds which.

    Args:
      columns: of the module.
      without: further fields that do not count, by number; names, ids and metadata never do.
      shapes: a number for each of `columns.shapes.values`, equal for those that count as equal; None where none do.
      finer: kinds of the same module by which more counts: only one of each is looked at.

    Raises:
      ModuleError: computations call each other in a circle: the module is damaged.
    """
    rows = np.arange(len(columns)) if finer is None else finer.first
    attributes = columns.contents.without((SHAPE, METADATA, *without))
    numbers = {each: number for number, each in enumerate(dict.fromkeys(attributes))}
    attribute_numbers = np.array([numbers[each] for each in attributes], np.int64)[columns.codes[rows]]
    sizes = _shapes(columns, rows, columns.shapes.codes if shapes is None else shapes[columns.shapes.codes])
    said, _ = numbered(attribute_numbers * (len(rows) + 1) + sizes)
    calling = np.diff(columns.called.offsets)[rows] > 0
    kinds, alone = np.full(len(rows), -1), np.flatnonzero(~calling)
    kinds[alone], firsts = numbered(said[alone])
    first: list[int] = rows[alone[firsts]].tolist()
    bodies = _Bodies(columns, kinds, finer)
    known: dict[tuple[int, tuple[int, ...]], int] = {}
    # Finer kinds are counted in that order too.
    order = _callees_first(columns) if finer is None else np.flatnonzero(calling).tolist()
    for number in order:
        row = int(rows[number])
        key = int(said[number]), bodies.of(columns.callees[row])
        if key not in known:
            known[key] = len(first)
            first.append(row)
        kinds[number] = known[key]
    return Alike(columns, kinds if finer is None else kinds[finer.kinds], np.array(first, np.int64), bodies.numbers)


def _shapes(columns: Columns, rows: Numbers, of_shapes: Numbers) -> Numbers:
    """A number of each row, equal where shape, shapes of operands and which operands are the same are."""
    links = columns.operands
    counts = links.offsets[rows + 1] - links.offsets[rows]
    offsets = np.append(0, np.cumsum(counts))
    owners = np.repeat(np.arange(len(rows)), counts)
    taken = links.rows[np.arange(offsets[-1]) + (links.offsets[rows] - offsets[:-1])[owners]]
    which, first = numbered(owners * (len(columns) + 1) + taken)
    numbers = np.empty((len(taken) + len(rows), 2), np.int32)  # an instruction's own, then its operands'
    own = offsets[:-1] + np.arange(len(rows))
    numbers[own, 0], numbers[own, 1] = of_shapes[rows], -1
    place = np.arange(len(taken)) + owners + 1
    numbers[place, 0], numbers[place, 1] = of_shapes[taken], first[which] - offsets[owners]
    codes, _ = Octets([numbers.tobytes()]).distinct([ByteRanges(own * 8, (counts + 1) * 8)])
    return codes


_PLACE_BYTES = np.dtype(np.int32).itemsize


class _Bodies:
    """Numbers of computations, equal for equal ones; of those whose instructions have their kinds.

    Attributes:
      numbers: those that were asked for.
    """

    def __init__(self, columns: Columns, kinds: Numbers, finer: Alike | None) -> None:
        self._kinds = kinds
        self._finer = finer
        self._known: dict[tuple[bytes, bytes, int], int] = {}
        self._first: list[int] = columns.first.tolist()
        links = columns.operands
        self._links: list[int] = links.offsets[columns.first].tolist()
        self._feeding = (links.rows - columns.first[columns.in_computation[links.rows]]).astype(np.int32).tobytes()
        self._roots: list[int] = (columns.roots - columns.first[:-1]).tolist()
        self.numbers: dict[int, int] = {}

    def of(self, computations: Sequence[int]) -> tuple[int, ...]:
        return tuple(map(self._of, computations))

    def _of(self, computation: int) -> int:
        if computation not in self.numbers:
            key = self._key(computation)
            self.numbers[computation] = self._known.setdefault(key, len(self._known))
        return self.numbers[computation]

    def _key(self, computation: int) -> tuple[bytes, bytes, int]:
        first, last = self._first[computation : computation + 2]
        begin, end = self._links[computation : computation + 2]
        kinds = self._kinds[first:last] if self._finer is None else self._kinds[self._finer.kinds[first:last]]
        return kinds.tobytes(), self._feeding[_PLACE_BYTES * begin : _PLACE_BYTES * end], self._roots[computation]


def _callees_first(columns: Columns) -> Iterator[int]:
    """The rows that call others, what is in a callee before its caller."""
    calling = columns.calling
    begun, finished = set[int](), set[int]()
    for start in range(len(calling)):
        waiting = [start]
        while waiting:
            computation = waiting[-1]
            if computation in finished:
                waiting.pop()
                continue
            needed = [c for row in calling[computation] for c in columns.callees[row] if c not in finished]
            if not needed:
                finished.add(waiting.pop())
                yield from calling[computation]
                continue
            if computation in begun:
                name = columns.computation_names[computation]
                raise ModuleError(f"Computation {name} calls itself: the module is damaged.")
            begun.add(computation)
            waiting += needed
