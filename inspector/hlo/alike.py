"""Which instructions of a module are the same but for their names: what holds for one of them holds for all.

A large module repeats a few thousand operations hundreds of thousands of times. What is asked of an instruction alone,
such as what it costs, is asked once for each kind.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Iterator

import numpy as np
import numpy.typing as npt

from inspector.errors import ModuleError
from inspector.hlo.columns import (
    CALLED_COMPUTATION_IDS,
    CONTROL_PREDECESSOR_IDS,
    ID,
    METADATA,
    NAME,
    OPERAND_IDS,
    SHAPE,
    Columns,
)
from inspector.hlo.fields import Numbers

_NAMING = (NAME, ID, SHAPE, METADATA, OPERAND_IDS, CONTROL_PREDECESSOR_IDS, CALLED_COMPUTATION_IDS)


@dataclasses.dataclass(frozen=True, slots=True)
class Alike:
    """The kinds of instructions of a module.

    Attributes:
      kinds: of each instruction, counted from 0.
      first: the first row of each kind.
    """

    kinds: Numbers
    first: Numbers

    @property
    def counts(self) -> Numbers:
        """How many instructions there are of each kind."""
        return np.bincount(self.kinds, minlength=len(self.first))


def alike(columns: Columns, without: Collection[int] = (), shapes: Numbers | None = None) -> Alike:
    """Sorts instructions by what they are: opcode, shape, attributes, shapes of operands, and what they call.

    Operands count by their shapes and by which of them are the same; computations by their instructions and which
    feeds which.

    Args:
      columns: of the module.
      without: further fields that do not count, by number; names, ids and metadata never do.
      shapes: a number for each of `columns.shapes.values`, equal for those that count as equal; None where none do.

    Raises:
      ModuleError: computations call each other in a circle, or some that there are not: the module is damaged.
    """
    known: dict[tuple[bytes, bytes, tuple[int, ...]], int] = {}
    of_shapes = columns.shapes.codes if shapes is None else shapes[columns.shapes.codes]
    first: list[int] = []
    kinds = np.zeros(len(columns), np.int64)
    bodies = _Bodies(columns, kinds)
    attributes, sizes = columns.fields.without((*_NAMING, *without)), _shapes(columns, of_shapes)
    called = columns.called
    has_calls = np.diff(called.offsets) > 0
    plain: Iterator[tuple[int, tuple[int, ...]]] = ((row, ()) for row in np.flatnonzero(~has_calls).tolist())
    calling = ((row, bodies.of(called.of(row))) for row in _callees_first(columns, has_calls))
    for row, body in itertools.chain(plain, calling):
        key = attributes[row], sizes[row], body
        kind = known.get(key)
        if kind is None:
            kind = known[key] = len(first)
            first.append(row)
        kinds[row] = kind
    return Alike(kinds, np.array(first, np.int64))


def _shapes(columns: Columns, of_shapes: Numbers) -> list[bytes]:
    """Of each instruction, its shape, those of its operands and which operands are the same."""
    links = columns.operands
    owners = links.from_rows
    _, first, which = np.unique(owners * (len(columns) + 1) + links.rows, return_index=True, return_inverse=True)
    numbers = np.empty((len(links.rows) + len(columns), 2), np.int32)  # an instruction's own, then its operands'
    own = links.offsets[:-1] + np.arange(len(columns))
    numbers[own] = np.stack([of_shapes, own * 0 - 1], axis=1)
    place = np.arange(len(links.rows)) + owners + 1
    numbers[place] = np.stack([of_shapes[links.rows], first[which] - links.offsets[owners]], axis=1)
    data = numbers.tobytes()
    spans = [*(own * 8).tolist(), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(spans)]


class _Bodies:
    """Numbers of computations, equal for equal ones; of those whose instructions have their kinds."""

    def __init__(self, columns: Columns, kinds: Numbers) -> None:
        self._columns = columns
        self._kinds = kinds
        self._known: dict[tuple[bytes, ...], int] = {}
        self._numbers: dict[int, int] = {}

    def of(self, computations: list[int]) -> tuple[int, ...]:
        return tuple(map(self._of, computations))

    def _of(self, computation: int) -> int:
        if computation not in self._numbers:
            key = self._key(computation)
            self._numbers[computation] = self._known.setdefault(key, len(self._known))
        return self._numbers[computation]

    def _key(self, computation: int) -> tuple[bytes, ...]:
        columns = self._columns
        first, last = columns.first[computation : computation + 2].tolist()
        links = columns.operands
        feeding = links.rows[links.offsets[first] : links.offsets[last]] - first
        root = columns.roots[computation] - first
        return self._kinds[first:last].tobytes(), feeding.tobytes(), root.tobytes()


def _callees_first(columns: Columns, has_calls: npt.NDArray[np.bool_]) -> Iterator[int]:
    """The rows that call, those in what they call before them."""
    calling: list[list[int]] = [[] for _ in columns.computations]
    for row in np.flatnonzero(has_calls).tolist():
        calling[columns.in_computation[row]].append(row)
    begun, finished = set[int](), set[int]()
    for start in range(len(calling)):
        waiting = [start]
        while waiting:
            computation = waiting[-1]
            if computation in finished:
                waiting.pop()
                continue
            needed = [c for row in calling[computation] for c in columns.called.of(row) if c not in finished]
            if not needed:
                finished.add(waiting.pop())
                yield from calling[computation]
                continue
            if computation in begun or min(needed) < 0:
                raise ModuleError(
                    f"Computation {columns.computation_names[computation]} calls itself, or one that there is not: the"
                    " module is damaged."
                )
            begun.add(computation)
            waiting += needed
