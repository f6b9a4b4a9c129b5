"""Groups instructions of a module into kinds that are equal except for names. Results for one apply to all of its kind.

A large module repeats a few thousand operations hundreds of thousands of times. Properties of a single instruction, such
as its cost, are computed once per kind.
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
      columns: the columns of the module.
      kinds: the kind of each instruction, from 0.
      first: the first row of each kind.
      bodies: a number for each called computation, equal for computations with the same kinds of instructions and the same
        data flow between them.
    """

    columns: Columns = dataclasses.field(repr=False)
    kinds: Numbers
    first: Numbers
    bodies: Mapping[int, int]

    def attributes(self, without: Collection[int]) -> list[bytes]:
        """Returns the contents of the first instruction of each kind, except name, id, links and the given fields."""
        contents = self.columns.contents.without(without)
        return [contents[code] for code in self.columns.codes[self.first].tolist()]

    @property
    def counts(self) -> Numbers:
        """Number of instructions of each kind."""
        return np.bincount(self.kinds, minlength=len(self.first))


def alike(
    columns: Columns, without: Collection[int] = (), shapes: Numbers | None = None, finer: Alike | None = None
) -> Alike:
    """Groups instructions by opcode, shape, attributes, operand shapes and called computations.

    Operands are compared by their shapes and by which of them are the same. Computations are compared by their instructions
    and the data flow between them.

    Args:
      columns: the columns of the module.
      without: numbers of further fields to ignore. Names, ids and metadata are always ignored.
      shapes: a number for each of `columns.shapes.values`, equal for shapes that count as equal; None to compare shapes
        exactly.
      finer: a finer grouping of the same module. Only one instruction of each of its kinds is examined.

    Raises:
      ModuleError: computations call each other recursively, because the module is damaged.
    """
    rows = np.arange(len(columns)) if finer is None else finer.first
    attributes = columns.contents.without((SHAPE, METADATA, *without))
    numbers = {each: number for number, each in enumerate(dict.fromkeys(attributes))}
    attribute_numbers = np.array([numbers[each] for each in attributes], np.int64)[columns.codes[rows]]
    sizes = _shapes(columns, rows, columns.shapes.codes if shapes is None else shapes[columns.shapes.codes])
    own, _ = numbered(attribute_numbers * (len(rows) + 1) + sizes)
    calling = np.diff(columns.called.offsets)[rows] > 0
    kinds, alone = np.full(len(rows), -1), np.flatnonzero(~calling)
    kinds[alone], firsts = numbered(own[alone])
    first: list[int] = rows[alone[firsts]].tolist()
    bodies = _Bodies(columns, kinds, finer)
    known: dict[tuple[int, tuple[int, ...]], int] = {}
    # Finer kinds are already in this order.
    order = _callees_first(columns) if finer is None else np.flatnonzero(calling).tolist()
    for number in order:
        row = int(rows[number])
        key = int(own[number]), bodies.of(columns.callees[row])
        if key not in known:
            known[key] = len(first)
            first.append(row)
        kinds[number] = known[key]
    return Alike(columns, kinds if finer is None else kinds[finer.kinds], np.array(first, np.int64), bodies.numbers)


def _shapes(columns: Columns, rows: Numbers, of_shapes: Numbers) -> Numbers:
    """Returns a number for each row, equal for equal shapes, equal operand shapes and equal identities among operands."""
    links = columns.operands
    counts = links.offsets[rows + 1] - links.offsets[rows]
    offsets = np.append(0, np.cumsum(counts))
    owners = np.repeat(np.arange(len(rows)), counts)
    taken = links.rows[np.arange(offsets[-1]) + (links.offsets[rows] - offsets[:-1])[owners]]
    which, first = numbered(owners * (len(columns) + 1) + taken)
    numbers = np.empty((len(taken) + len(rows), 2), np.int32)  # the instruction's shape, then those of its operands
    own = offsets[:-1] + np.arange(len(rows))
    numbers[own, 0], numbers[own, 1] = of_shapes[rows], -1
    place = np.arange(len(taken)) + owners + 1
    numbers[place, 0], numbers[place, 1] = of_shapes[taken], first[which] - offsets[owners]
    codes, _ = Octets([numbers.tobytes()]).distinct([ByteRanges(own * 8, (counts + 1) * 8)])
    return codes


_PLACE_BYTES = np.dtype(np.int32).itemsize


class _Bodies:
    """Numbers computations so that equal ones have equal numbers. Their instructions must have kinds already.

    Attributes:
      numbers: the numbers computed so far, by computation.
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
    """Yields the rows that call computations, rows in callees before their callers."""
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
