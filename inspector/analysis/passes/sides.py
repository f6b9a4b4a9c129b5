"""`SnapshotSide`: one of two compared snapshots, with the instructions that only it has and the fusions around them."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np

from inspector.analysis.passes.snapshots import SnapshotInstruction, Snapshots
from inspector.hlo.text_line import InstructionLine

ELEMENT = "#"
"""Separates an instruction from the number of one of its elements; newer texts write `%tuple.1#0`."""

_CALLERS = frozenset({"fusion", "call"})
_DEEPEST = 64  # fusions in fusions, parameters of parameters


def holder_of(operand: str) -> str:
    """Returns the instruction that an operand names, or of which it names an element."""
    return operand.partition(ELEMENT)[0]


class SnapshotSide:
    """The instructions that only one of two modules has, with the bodies of its fusions and calls.

    Attributes:
      rows: the instructions by name, in the order of the text.
      fusions: maps each computation that a fusion of the module calls to the fusion's name.
      roots: maps each computation to the name of its root, if the root is among the rows.
      outside: names of the rows that are in no fusion.
    """

    def __init__(self, snapshots: Snapshots, text: int, places: Iterable[int], orphans: Iterable[str] = ()) -> None:
        """Reads the lines at these places, and whole computations that the other module does not call."""
        self._snapshots, self._text = snapshots, text
        self.places = snapshots.places(text)
        self.rows: dict[str, SnapshotInstruction] = {row.line.name: row for row in snapshots.rows(text, places)}
        self.fusions = snapshots.fusions(text)
        self._callers: dict[str, list[str]] = {}
        self._branches: dict[str, list[str]] = {}
        self._read_bodies(_Bodies(snapshots, text), frozenset(orphans))
        self.roots = {row.computation: name for name, row in self.rows.items() if row.line.is_root}
        self.outside = frozenset(name for name, row in self.rows.items() if row.computation not in self.fusions)
        self._canonical: dict[str, str] = {}
        self._settled: Collection[str] = ()

    def settle(self, names: Collection[str]) -> None:
        """Marks instructions that the other module has too, so that `canonical` does not look into them."""
        self._settled = names

    def line(self, name: str) -> InstructionLine | None:
        """Returns an instruction of the module, also one that the other module has too; None if there is none."""
        if name in self.rows:
            return self.rows[name].line
        place = self.places.get(name)
        row = None if place is None else next(self._snapshots.rows(self._text, (place,)), None)
        return None if row is None else row.line

    def _read_bodies(self, bodies: _Bodies, orphans: Collection[str]) -> None:
        waiting = list(self.rows.values())
        while waiting:
            row = waiting.pop()
            is_body = row.line.opcode in _CALLERS
            for number, called in enumerate(row.line.called):
                if not is_body and called not in orphans:
                    continue
                is_read = called in self._callers or called in self._branches
                if is_body:
                    self._callers.setdefault(called, []).append(row.line.name)
                else:
                    self._branches.setdefault(called, []).extend(_taken(row.line, number))
                for inner in () if is_read else bodies.of(called):
                    if inner.line.name not in self.rows:
                        self.rows[inner.line.name] = inner
                        waiting.append(inner)

    @functools.cached_property
    def users(self) -> Mapping[str, Sequence[str]]:
        """Maps each instruction to the rows that use it."""
        users: dict[str, list[str]] = {}
        for name, row in self.rows.items():
            for operand in dict.fromkeys(map(holder_of, row.line.operands)):
                users.setdefault(operand, []).append(name)
        return users

    def unit(self, name: str) -> str:
        """Returns the outermost fusion around an instruction, or the instruction itself."""
        for _ in range(_DEEPEST):
            row = self.rows.get(name)
            holder = self.fusions.get(row.computation) if row is not None else None
            if holder is None:
                return name
            name = holder
        return name

    def canonical(self, name: str) -> str:
        """Returns the instruction that computes a value: the root of a fusion or call, the operand passed for a parameter."""
        if name not in self._canonical:
            current = name
            for _ in range(_DEEPEST):
                behind = self._behind(current)
                if behind is None:
                    break
                current = behind
            self._canonical[name] = current
        return self._canonical[name]

    def _behind(self, name: str) -> str | None:
        whole, is_element, index = name.partition(ELEMENT)
        if is_element:
            return None if whole in self._settled else self._element(whole, index)
        row = self.rows.get(name)
        if row is None:
            return None
        line = row.line
        if name in self._settled and line.opcode != "parameter":
            return None
        if line.opcode == "parameter":
            branches = self._branches.get(row.computation, ())
            if len(branches) == 1:
                return branches[0]
            callers = self._callers.get(row.computation, ())
            passed = self.rows[callers[0]].line.operands if len(callers) == 1 else ()
            number = int(line.literal) if line.literal.isdecimal() else len(passed)
            return passed[number] if number < len(passed) else None
        if line.opcode in _CALLERS and line.called:
            root = self.roots.get(line.called[0])
            return None if root is None or self.rows[root].line.opcode == "tuple" else root
        if line.opcode == "get-tuple-element" and line.operands:
            return self._element(line.operands[0], line.attributes.partition("index=")[2].partition(",")[0])
        return None

    def _element(self, whole: str, index: str) -> str | None:
        row = self.rows.get(self.canonical(whole))
        if row is not None and row.line.opcode in _CALLERS and row.line.called:
            row = self.rows.get(self.roots.get(row.line.called[0], ""))
        if row is None or row.line.opcode != "tuple" or not index.isdecimal():
            return None
        return row.line.operands[int(index)] if int(index) < len(row.line.operands) else None


def _taken(line: InstructionLine, number: int) -> tuple[str, ...]:
    """Returns the operand passed to a called branch or loop body, as a tuple of at most one.

    Args:
      line: the calling instruction.
      number: position of the computation among those that it calls.
    """
    place = {"conditional": number + 1, "while": 0}.get(line.opcode, len(line.operands))
    return line.operands[place : place + 1]


class _Bodies:
    """The instructions of one module by computation."""

    def __init__(self, snapshots: Snapshots, text: int) -> None:
        self._snapshots, self._text = snapshots, text
        headers = snapshots.state(text).headers
        starts = np.flatnonzero(np.diff(headers, prepend=-2))
        ends = [*starts[1:].tolist(), len(headers)]
        named = (
            (snapshots.computation(int(headers[start])), (start, end))
            for start, end in zip(starts.tolist(), ends, strict=True)
        )
        self._ranges = dict(named)

    def of(self, computation: str) -> Iterator[SnapshotInstruction]:
        start, end = self._ranges.get(computation, (0, 0))
        return self._snapshots.rows(self._text, range(start, end))
