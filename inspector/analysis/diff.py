"""What differs between two texts, line by line, and between two modules, whatever their names.

Instruction names renumber between option sets, so a line diff of two HLO texts overstates the
change; `instruction_changes` compares what instructions compute, names and metadata left out.
"""

from __future__ import annotations

import bisect
import collections
import dataclasses
import difflib
from collections.abc import Hashable, Sequence
from typing import cast

from inspector.hlo.module import Computation, Instruction, Module

Hunk = tuple[int, int, int, int]

# difflib is quadratic; larger gaps without a unique line stand as one hunk.
_DIFFLIB_CELLS = 1_000_000


def line_hunks(before: Sequence[str], after: Sequence[str]) -> tuple[Hunk, ...]:
    """Where two texts differ.

    Patience diff: lines that are unique on both sides anchor, the gaps are split again, and small
    gaps without anchors go to difflib.

    Returns:
      `(a0, a1, b0, b1)`: lines a0 to a1 (exclusive) of `before` became b0 to b1 of `after`.
    """
    numbers: dict[str, int] = {}
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
    """Pairs of equal lines, in no order; each line at most once, no two pairs crossing."""
    found: list[tuple[int, int]] = []
    gaps = [(0, len(a), 0, len(b))]
    while gaps:
        a0, a1, b0, b1 = gaps.pop()
        while a0 < a1 and b0 < b1 and a[a0] == b[b0]:
            found.append((a0, b0))
            a0, b0 = a0 + 1, b0 + 1
        while a0 < a1 and b0 < b1 and a[a1 - 1] == b[b1 - 1]:
            a1, b1 = a1 - 1, b1 - 1
            found.append((a1, b1))
        if a0 == a1 or b0 == b1:
            continue
        anchors = _anchors(a, b, a0, a1, b0, b1)
        if not anchors:
            found += _difflib_matches(a, b, a0, a1, b0, b1)
            continue
        for i, j in anchors:
            found.append((i, j))
            gaps.append((a0, i, b0, j))
            a0, b0 = i + 1, j + 1
        gaps.append((a0, a1, b0, b1))
    return found


def _anchors(a: Sequence[int], b: Sequence[int], a0: int, a1: int, b0: int, b1: int) -> list[tuple[int, int]]:
    """The longest increasing run of lines that are unique on both sides."""
    count_a, count_b = collections.Counter(a[a0:a1]), collections.Counter(b[b0:b1])
    place_in_b = {b[j]: j for j in range(b0, b1) if count_b[b[j]] == 1}
    pairs = [(i, place_in_b[a[i]]) for i in range(a0, a1) if count_a[a[i]] == 1 and a[i] in place_in_b]
    tails: list[int] = []
    tail_pairs: list[int] = []
    previous: list[int] = []
    for index, (_, j) in enumerate(pairs):
        position = bisect.bisect_left(tails, j)
        tails[position : position + 1] = [j]
        tail_pairs[position : position + 1] = [index]
        previous.append(tail_pairs[position - 1] if position else -1)
    run = []
    index = tail_pairs[-1] if tail_pairs else -1
    while index >= 0:
        run.append(pairs[index])
        index = previous[index]
    return run[::-1]


def _difflib_matches(a: Sequence[int], b: Sequence[int], a0: int, a1: int, b0: int, b1: int) -> list[tuple[int, int]]:
    if (a1 - a0) * (b1 - b0) > _DIFFLIB_CELLS:
        return []
    blocks = difflib.SequenceMatcher(None, a[a0:a1], b[b0:b1], autojunk=False).get_matching_blocks()
    return [(a0 + m.a + k, b0 + m.b + k) for m in blocks for k in range(m.size)]


@dataclasses.dataclass(frozen=True, slots=True)
class InstructionChanges:
    """How the instructions of two modules differ, names and metadata apart.

    Attributes:
      only_before: opcode to number of instructions that `after` does not have.
      only_after: opcode to number of instructions that `before` does not have.
      common: instructions that both have.
    """

    only_before: collections.Counter[str]
    only_after: collections.Counter[str]
    common: int

    @property
    def same(self) -> bool:
        """Whether both modules have the same instructions."""
        return not self.only_before and not self.only_after

    def __str__(self) -> str:
        return self.words()

    def words(self, before: str = "the baseline") -> str:
        """A line; `before` names what the variant is compared with."""
        if self.same:
            return f"the same {self.common:,} instructions"
        parts = [
            f"{sum(opcodes.values()):,} only in {where} ({_listed(opcodes)})"
            for where, opcodes in ((before, self.only_before), ("the variant", self.only_after))
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
    """What the instructions compute: opcode, shapes and attributes, bodies included, names left out."""
    bodies: dict[int, int] = {}
    counts: collections.Counter[Hashable] = collections.Counter()
    for computation in module.computations:
        keys = [_key(instruction, bodies) for instruction in computation.instructions]
        bodies[computation.id] = _body(computation, keys)
        counts.update(keys)
    return counts


def _key(instruction: Instruction, bodies: dict[int, int]) -> tuple[Hashable, ...]:
    proto = instruction.proto
    attributes = type(proto)()
    attributes.CopyFrom(proto)
    for field in _NAMES:
        attributes.ClearField(field)
    called = tuple(bodies.get(i, 0) for i in proto.called_computation_ids)
    by_id = instruction.computation.instruction_by_id
    operands = tuple(by_id(i).proto.shape.SerializeToString(deterministic=True) for i in proto.operand_ids)
    return instruction.opcode, attributes.SerializeToString(deterministic=True), operands, called


def _body(computation: Computation, keys: Sequence[Hashable]) -> int:
    """A computation's fingerprint: its instructions, and which feeds which."""
    position = {instruction.proto.id: n for n, instruction in enumerate(computation.instructions)}
    wiring = tuple(tuple(position[i] for i in ins.proto.operand_ids) for ins in computation.instructions)
    return hash((tuple(keys), wiring, position[computation.proto.root_id]))


# Fields of HloInstructionProto that name or place an instruction rather than say what it computes.
_NAMES = (
    "name", "id", "metadata", "operand_ids", "control_predecessor_ids", "called_computation_ids",
    "backend_config", "channel_id", "frontend_attributes", "original_value",
)  # fmt: skip


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
