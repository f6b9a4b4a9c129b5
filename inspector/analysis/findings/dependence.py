"""The instructions of a computation on which others depend: all of them, or marked ones.

Sets are bits of integers, so that one pass over a computation answers for all marked instructions. A loop, a call or a fusion is
one instruction. Control dependences do not count: XLA adds them for its schedule.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence

from inspector.hlo.module import Computation, Instruction


def needed(values: Iterable[Instruction]) -> set[Instruction]:
    """Returns values of a computation, and all instructions that they depend on."""
    waiting = [*values]
    seen = set(waiting)
    while waiting:
        new = set(waiting.pop().operands) - seen
        seen |= new
        waiting += new
    return seen


class Dependence:
    """The dependences of a computation on marked instructions.

    Attributes:
      computation: the computation.
      marked: the rows of the marked instructions, in the module's order.
    """

    def __init__(self, computation: Computation, marked: Sequence[int]) -> None:
        """Stores the marked instructions. Operands are followed on first use, once."""
        self.computation, self.marked = computation, sorted(set(marked))
        self._first = computation.rows.start
        self._bits = {row: 1 << number for number, row in enumerate(self.marked)}
        self._operands = computation.module.columns.operands.lists(computation.rows)

    @functools.cached_property
    def _behind(self) -> list[int]:
        """The marked instructions that each instruction is or depends on."""
        first, bits = self._first, self._bits
        found: list[int] = []
        for row, operands in enumerate(self._operands, first):
            behind = bits.get(row, 0)
            for operand in operands:
                behind |= found[operand - first]
            found.append(behind)
        return found

    @functools.cached_property
    def _ahead(self) -> list[int]:
        """The marked instructions that each instruction is or that depend on it."""
        first = self._first
        found = [self._bits.get(row, 0) for row in self.computation.rows]
        for number in range(len(found) - 1, -1, -1):
            if found[number]:
                for operand in self._operands[number]:
                    found[operand - first] |= found[number]
        return found

    def is_independent(self, instruction: Instruction, marked: Instruction) -> bool:
        """Reports whether an instruction of the computation is neither before nor after a marked one."""
        number = instruction.row - self._first
        return not (self._behind[number] | self._ahead[number]) & self._bits[marked.row]

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
