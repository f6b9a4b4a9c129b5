"""`SnapshotSide`: one of two modules between passes that are compared: the lines that it has alone, and what they are in."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np

from inspector.analysis.passes.snapshots import SnapshotInstruction, Snapshots
from inspector.hlo.text_line import InstructionLine

ELEMENT = "#"
"""Between an instruction and the number of one of its elements, as newer texts write `%tuple.1#0`."""

_CALLERS = frozenset({"fusion", "call"})
_DEEPEST = 64  # fusions in fusions, parameters of parameters


def holder_of(operand: str) -> str:
    """The instruction that an operand is, or is an element of."""
    return operand.partition(ELEMENT)[0]


class SnapshotSide:
    """What one of the two modules has alone, with the bodies of the fusions and calls among it.

    Attributes:
      rows: by name, in the order of the text.
      fusions: of each computation that a fusion of the module calls, the fusion's name.
      roots: of each computation the name of its root, where that is among the rows.
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
        """Takes instructions for themselves, whatever is in them: the other module has them too."""
        self._settled = names

    def line(self, name: str) -> InstructionLine | None:
        """An instruction of the module, whether the other one has it too or not."""
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
        """Of each instruction the rows that use it."""
        found: dict[str, list[str]] = {}
        for name, row in self.rows.items():
            for operand in dict.fromkeys(map(holder_of, row.line.operands)):
                found.setdefault(operand, []).append(name)
        return found

    def unit(self, name: str) -> str:
        """The outermost fusion that an instruction is in, or itself."""
        for _ in range(_DEEPEST):
            row = self.rows.get(name)
            holder = self.fusions.get(row.computation) if row is not None else None
            if holder is None:
                return name
            name = holder
        return name

    def canonical(self, name: str) -> str:
        """The instruction that computes a value: of a fusion or call its root, of a parameter within what is passed."""
        if name not in self._canonical:
            found = name
            for _ in range(_DEEPEST):
                behind = self._behind(found)
                if behind is None:
                    break
                found = behind
            self._canonical[name] = found
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
    """The operand that a branch or a loop's body has as its parameter, by its place among those that are called."""
    place = {"conditional": number + 1, "while": 0}.get(line.opcode, len(line.operands))
    return line.operands[place : place + 1]


class _Bodies:
    """The rows of whole computations of one module."""

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
