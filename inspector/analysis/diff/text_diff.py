"""Differences between two texts, line by line, and between two modules, ignoring names.

Option sets lead to different numbers in instruction names, so a line diff of two HLO texts overstates the
change. `instruction_changes` compares the computed operations, without names and metadata.
"""

from __future__ import annotations

import bisect
import collections
import dataclasses
import difflib
from collections.abc import Hashable, Sequence
from typing import cast

from inspector.analysis.diff.instruction_labels import CONFIGURING, NAMING
from inspector.hlo.devices.canonical_forms import kind_attributes
from inspector.hlo.module import Computation, Module

Hunk = tuple[int, int, int, int]

# difflib is quadratic; a larger gap without unique lines becomes a single hunk.
_DIFFLIB_CELLS = 1_000_000


def line_hunks(before: Sequence[Hashable], after: Sequence[Hashable]) -> tuple[Hunk, ...]:
    """Compares two texts, given as lines or as keys that represent lines.

    Uses patience diff: lines that are unique on both sides are anchors, the gaps between them are split again, and
    small gaps without anchors are passed to difflib.

    Returns:
      `(a0, a1, b0, b1)`: lines a0 to a1 (exclusive) of `before` became b0 to b1 of `after`.
    """
    numbers: dict[Hashable, int] = {}
    a = [numbers.setdefault(line, len(numbers)) for line in before]
    b = [numbers.setdefault(line, len(numbers)) for line in after]
    matches = sorted(_matches(a, b))
    hunks = []
    a_end = b_end = 0
    for i, j in [*matches, (len(a), len(b))]:
        if i > a_end or j > b_end:
            hunks.append((a_end, i, b_end, j))
        a_end, b_end = i + 1, j + 1
    return tuple(hunks)


def _matches(a: Sequence[int], b: Sequence[int]) -> list[tuple[int, int]]:
    """Returns pairs of equal lines, unordered; each line occurs at most once, and no two pairs cross."""
    matches: list[tuple[int, int]] = []
    gaps = [(0, len(a), 0, len(b))]
    while gaps:
        a0, a1, b0, b1 = gaps.pop()
        while a0 < a1 and b0 < b1 and a[a0] == b[b0]:
            matches.append((a0, b0))
            a0, b0 = a0 + 1, b0 + 1
        while a0 < a1 and b0 < b1 and a[a1 - 1] == b[b1 - 1]:
            a1, b1 = a1 - 1, b1 - 1
            matches.append((a1, b1))
        if a0 == a1 or b0 == b1:
            continue
        anchors = _anchors(a, b, a0, a1, b0, b1)
        if not anchors:
            matches += _difflib_matches(a, b, a0, a1, b0, b1)
            continue
        for i, j in anchors:
            matches.append((i, j))
            gaps.append((a0, i, b0, j))
            a0, b0 = i + 1, j + 1
        gaps.append((a0, a1, b0, b1))
    return matches


def _anchors(a: Sequence[int], b: Sequence[int], a0: int, a1: int, b0: int, b1: int) -> list[tuple[int, int]]:
    """Returns the longest increasing subsequence of lines that are unique on both sides."""
    count_a, count_b = collections.Counter(a[a0:a1]), collections.Counter(b[b0:b1])
    place_in_b = {b[j]: j for j in range(b0, b1) if count_b[b[j]] == 1}
    pairs = [(i, place_in_b[a[i]]) for i in range(a0, a1) if count_a[a[i]] == 1 and a[i] in place_in_b]
    return [pairs[index] for index in longest_run([j for _, j in pairs])]


def longest_run(numbers: Sequence[int]) -> list[int]:
    """Returns the positions of a longest increasing subsequence of distinct numbers."""
    tails: list[int] = []
    tail_places: list[int] = []
    previous: list[int] = []
    for place, number in enumerate(numbers):
        position = bisect.bisect_left(tails, number)
        tails[position : position + 1] = [number]
        tail_places[position : position + 1] = [place]
        previous.append(tail_places[position - 1] if position else -1)
    run = []
    place = tail_places[-1] if tail_places else -1
    while place >= 0:
        run.append(place)
        place = previous[place]
    return run[::-1]


def _difflib_matches(a: Sequence[int], b: Sequence[int], a0: int, a1: int, b0: int, b1: int) -> list[tuple[int, int]]:
    if (a1 - a0) * (b1 - b0) > _DIFFLIB_CELLS:
        return []
    blocks = difflib.SequenceMatcher(None, a[a0:a1], b[b0:b1], autojunk=False).get_matching_blocks()
    return [(a0 + m.a + k, b0 + m.b + k) for m in blocks for k in range(m.size)]


@dataclasses.dataclass(frozen=True, slots=True)
class InstructionChanges:
    """The differences between the instructions of two modules, ignoring names and metadata.

    Attributes:
      only_before: number of instructions that `after` does not have, by opcode.
      only_after: number of instructions that `before` does not have, by opcode.
      common: number of instructions that both have.
    """

    only_before: collections.Counter[str]
    only_after: collections.Counter[str]
    common: int

    @property
    def same(self) -> bool:
        """Reports whether both modules have the same instructions."""
        return not self.only_before and not self.only_after

    def __str__(self) -> str:
        if self.same:
            return f"the same {self.common:,} instructions"
        parts = [
            f"{sum(opcodes.values()):,} only in {where} ({_listed(opcodes)})"
            for where, opcodes in (("the baseline", self.only_before), ("the variant", self.only_after))
            if opcodes
        ]
        return f"{'; '.join(parts)}; {self.common:,} in both"


def instruction_changes(
    before: collections.Counter[Hashable], after: collections.Counter[Hashable]
) -> InstructionChanges:
    """Compares two modules by their `instruction_multiset`."""
    only_before, only_after = before - after, after - before
    return InstructionChanges(
        only_before=_by_opcode(only_before), only_after=_by_opcode(only_after), common=(before & after).total()
    )


def instruction_multiset(module: Module) -> collections.Counter[Hashable]:
    """Counts the instructions by what they compute: opcode, shapes, attributes and called computations, without names."""
    keys, counts = _Keys(module), collections.Counter[Hashable]()
    for kind, count in enumerate(module.alike.counts.tolist()):
        counts[keys.of(kind)] += count
    return counts


class _Keys:
    """Keys of the instructions of one module, equal for instructions of any module that compute the same."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._attributes = kind_attributes(module, (*NAMING, *CONFIGURING))
        self._kinds: list[int] = module.alike.kinds.tolist()
        self._keys: dict[int, tuple[Hashable, ...]] = {}
        self._bodies: dict[int, int] = {}

    def of(self, kind: int) -> tuple[Hashable, ...]:
        """Returns the key of a kind of instructions."""
        if kind not in self._keys:
            instruction, shapes = self._module.at(int(self._module.alike.first[kind])), self._module.columns.shapes
            operands = tuple(shapes.at(operand.row) for operand in instruction.operands)
            called = tuple(map(self._body, instruction.called_computations))
            has_channel = instruction.channel_id is not None
            self._keys[kind] = instruction.opcode, self._attributes[kind], has_channel, operands, called
        return self._keys[kind]

    def _body(self, computation: Computation) -> int:
        """Returns the fingerprint of a computation: its instructions and the dataflow between them."""
        if computation.number not in self._bodies:
            rows, operands = computation.rows, self._module.columns.operands
            feeding = operands.rows[operands.offsets[rows.start] : operands.offsets[rows.stop]] - rows.start
            keys = tuple(self.of(self._kinds[row]) for row in rows)
            root = computation.root.row - rows.start
            self._bodies[computation.number] = hash((keys, feeding.tobytes(), root))
        return self._bodies[computation.number]


def _by_opcode(keys: collections.Counter[Hashable]) -> collections.Counter[str]:
    counts: collections.Counter[str] = collections.Counter()
    for key, count in keys.items():
        opcode, *_ = cast(tuple[Hashable, ...], key)
        counts[str(opcode)] += count
    return counts


def _listed(opcodes: collections.Counter[str]) -> str:
    common = opcodes.most_common(4)
    rest = opcodes.total() - sum(count for _, count in common)
    return ", ".join([f"{count:,} {opcode}" for opcode, count in common] + ([f"{rest:,} other"] if rest else []))
