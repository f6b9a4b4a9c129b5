"""The marked instructions that other instructions of their computation depend on.

Sets are bits of integers, so that one pass over a computation answers for all marked instructions. A loop, a call or a fusion is
one instruction. Control dependences do not count: XLA adds them for its schedule.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from inspector.hlo.module import Computation, Instruction


class Dependence:
    """The dependences of a computation on marked instructions.

    Attributes:
      computation: the computation.
      marked: the rows of the marked instructions, in the module's order.
    """

    def __init__(self, computation: Computation, marked: Sequence[int]) -> None:
        """Follows operands through the computation, once."""
        self.computation, self.marked = computation, sorted(set(marked))
        self._first = computation.rows.start
        self._bits = {row: 1 << number for number, row in enumerate(self.marked)}
        self._operands = computation.module.columns.operands.lists(computation.rows)
        self._behind = self._followed()

    def _followed(self) -> list[int]:
        """Returns the marked instructions that each instruction is or depends on."""
        first, bits = self._first, self._bits
        found: list[int] = []
        for row, operands in enumerate(self._operands, first):
            behind = bits.get(row, 0)
            for operand in operands:
                behind |= found[operand - first]
            found.append(behind)
        return found

    def levels(self, members: Sequence[Instruction]) -> list[list[Instruction]]:
        """Returns marked instructions in levels: those of a level do not depend on each other, only on those of earlier levels."""
        level_of: dict[int, int] = {}
        levels: list[list[Instruction]] = []
        bits = sum(self._bits[each.row] for each in members)
        for member in sorted(members, key=lambda each: each.row):
            behind = self._behind[member.row - self._first] & bits & ~self._bits[member.row]
            level = max((level_of[number] for number in _numbers(behind)), default=-1) + 1
            level_of[self._bits[member.row].bit_length() - 1] = level
            if level == len(levels):
                levels.append([])
            levels[level].append(member)
        return levels


def _numbers(bits: int) -> Iterator[int]:
    """Yields the positions of the bits that are set."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest
