"""Aligns the texts of two modules by their matched instructions, not by names and order."""

from __future__ import annotations

import collections
import dataclasses
import functools
import re

from inspector.analysis.diff.module_diff import Diff
from inspector.analysis.diff.text_diff import Hunk
from inspector.hlo.text import DisplayText

_WITH_SIGN, _WITHOUT_SIGN = re.compile(r"(?<=%)[\w.\-]+"), re.compile(r"(?<![\w.\-=%])[A-Za-z_][\w.\-]*(?![\w.\-(=])")
_NONE = -1


@dataclasses.dataclass(frozen=True, slots=True)
class Aligned:
    """The replacements that turn the second text into the first, in the second's order and with its names.

    Attributes:
      hunks: lines a0 to a1 (exclusive) of the first text became b0 to b1 of the second.
      removed: the lines of the first text in hunks, in order, with the second text's names for matched instructions.
      following: indices of the hunks without a change of their own: they only use the result of another hunk.
      lines: for each change the line of the second text that shows it, -1 for none.
    """

    hunks: tuple[Hunk, ...]
    removed: tuple[str, ...]
    following: tuple[int, ...]
    lines: tuple[int, ...]


def aligned(diff: Diff, before: DisplayText, after: DisplayText) -> Aligned:
    """Aligns the texts of two modules.

    Args:
      diff: the differences between the modules.
      before: the first module's text.
      after: the second module's text.
    """
    return _Texts(diff, before, after).aligned()


class _Texts:
    """Two texts, their lines and the matches between these."""

    def __init__(self, diff: Diff, before: DisplayText, after: DisplayText) -> None:
        self._diff = diff
        self._ours, self._theirs = before.text.split("\n"), after.text.split("\n")
        self._of_ours, self._of_theirs = _by_name(before), _by_name(after)
        self._before, self._after = before, after
        self._changed_rows = (
            {i.row for c in diff.changes for i in c.before},
            {i.row for c in diff.changes for i in c.after},
        )
        self._places: dict[int, int] = {}  # of removed lines, in the second text

    def aligned(self) -> Aligned:
        partners = self._partners()
        taken = {line for line in partners if line >= 0}
        gone: dict[int, list[str]] = collections.defaultdict(list)
        changed: dict[int, str] = {}
        at = 0
        for number, line in enumerate(partners):
            if line >= 0:
                at = line + 1
                text = self._renamed(self._ours[number]) if self._may_differ(number, line) else self._theirs[line]
                if text != self._theirs[line]:
                    changed[line] = text
            elif self._ours[number]:
                gone[at].append(self._renamed(self._ours[number]))
                self._places[number] = at
        return self._hunks(taken, gone, changed)

    def _partners(self) -> list[int]:
        """Returns for each line of the first text the matched line of the second, -1 for none."""
        columns, other = self._diff.before.columns, self._diff.after.columns
        rows = {name: row for row, name in enumerate(columns.names)}
        partners: list[int] = self._diff.partners.tolist()
        numbers = {name: number for number, name in enumerate(columns.computation_names)}
        ends = self._ends(self._before), self._ends(self._after)
        matches = []
        for number, (name, computation) in enumerate(
            zip(self._before.instruction_names, self._before.computation_names, strict=True)
        ):
            if name is not None:
                row = partners[rows[name]]
                matches.append(self._of_theirs.get(other.names[row], _NONE) if row >= 0 else _NONE)
            elif computation is not None:
                pair = self._diff.computations.get(numbers.get(computation, _NONE), _NONE)
                there = ends[1].get(other.computation_names[pair]) if pair >= 0 else None
                matches.append(there[number != ends[0][computation][0]] if there else _NONE)
            else:
                matches.append(0 if number == 0 else _NONE)
        return matches

    @staticmethod
    def _ends(text: DisplayText) -> dict[str, tuple[int, int]]:
        """Maps each computation to its first and last line."""
        spans: dict[str, tuple[int, int]] = {}
        for number, name in enumerate(text.computation_names):
            if name is not None:
                spans[name] = spans.get(name, (number, number))[0], number
        return spans

    def _may_differ(self, number: int, line: int) -> bool:
        """Reports whether two matched lines may differ in more than names."""
        name = self._before.instruction_names[number]
        if name is None:
            return number == 0 and self._is_other_heading()
        x, y = self._rows[0][name], self._rows[1][str(self._after.instruction_names[line])]
        return x in self._changed_rows[0] or y in self._changed_rows[1] or self._is_rewired(x, y)

    def _is_other_heading(self) -> bool:
        """Reports whether the first lines of the modules differ in more than the name."""
        ours, theirs = (text[0].partition(",")[2] for text in (self._ours, self._theirs))
        return ours != theirs

    def _is_rewired(self, x: int, y: int) -> bool:
        partners = self._diff.partners
        ours, theirs = self._diff.before.columns.operands.of(x), self._diff.after.columns.operands.of(y)
        return [int(partners[row]) for row in ours] != theirs

    @functools.cached_property
    def _rows(self) -> tuple[dict[str, int], dict[str, int]]:
        ours, theirs = (
            {name: row for row, name in enumerate(module.columns.names)}
            for module in (self._diff.before, self._diff.after)
        )
        return ours, theirs

    @functools.cached_property
    def _names(self) -> dict[str, str]:
        """Maps names of the first module to the names of the second for matched instructions and computations."""
        columns, other = self._diff.before.columns, self._diff.after.columns
        pairs = enumerate(self._diff.partners.tolist())
        names = {columns.names[x]: other.names[y] for x, y in pairs if y >= 0}
        for number, pair in self._diff.computations.items():
            names[columns.computation_names[number]] = other.computation_names[pair]
        return names

    def _renamed(self, line: str) -> str:
        pattern = _WITH_SIGN if "%" in line else _WITHOUT_SIGN
        return pattern.sub(lambda match: self._names.get(match[0], match[0]), line)

    def _hunks(self, taken: set[int], gone: dict[int, list[str]], changed: dict[int, str]) -> Aligned:
        hunks: list[Hunk] = []
        removed: list[str] = []
        following: list[int] = []
        a, count = 0, len(self._theirs)
        begun: tuple[int, int] | None = None
        is_reported = False
        for line in range(count + 1):
            went = gone.get(line, [])
            is_new = line < count and bool(self._theirs[line]) and line not in taken
            is_other = is_new or line in changed
            if begun is None and (went or is_other):
                begun, is_reported = (a, line), False
            removed += went
            a += len(went)
            is_reported |= bool(went) or is_new or (is_other and self._is_reported(line))
            if begun is not None and not is_other:
                hunks.append((begun[0], a, begun[1], line))
                following += [] if is_reported else [len(hunks) - 1]
                begun = None
            removed += [changed[line]] if line in changed else []
            a += not is_new
        return Aligned(tuple(hunks), tuple(removed), tuple(following), self._lines_of_changes())

    def _is_reported(self, line: int) -> bool:
        name = self._after.instruction_names[line] if line < len(self._theirs) else None
        return line == 0 or (name is not None and self._rows[1][name] in self._changed_rows[1])

    def _lines_of_changes(self) -> tuple[int, ...]:
        line_numbers = []
        for change in self._diff.changes:
            partners = {int(self._diff.partners[i.row]) for i in change.before}
            both_first = sorted(change.after, key=lambda i: i.row not in partners)
            lines = [self._of_theirs.get(i.name, _NONE) for i in both_first]
            lines += [self._places.get(self._of_ours.get(i.name, _NONE), _NONE) for i in change.before]
            line_numbers.append(next((line for line in lines if line >= 0), 0 if not lines else _NONE))
        return tuple(line_numbers)


def _by_name(text: DisplayText) -> dict[str, int]:
    return {name: number for number, name in enumerate(text.instruction_names) if name is not None}
