"""`Snapshots`: the modules between compiler passes, by lines. What many have in common is read once.

Passes keep the names of instructions that they leave alone, and a snapshot shares most lines with the one before it, so
two modules are told apart by the few lines that only one of them has.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from inspector.compilation.records.passes import Pass, Passes
from inspector.compilation.records.texts import Texts
from inspector.errors import ModuleError
from inspector.hlo.text import defined_name, header_name, is_header
from inspector.hlo.text_line import InstructionLine, parts_of, read_line

Ints = npt.NDArray[np.int64]

_OTHER, _INSTRUCTION, _HEADER, _END, _BLANK, _MODULE = range(6)
_OUTSIDE = -1


@dataclasses.dataclass(frozen=True, slots=True)
class SnapshotInstruction:
    """An instruction of one module.

    Attributes:
      line: what its line says.
      computation: the name of the one that it is in.
      number: of its line among all distinct ones.
    """

    line: InstructionLine
    computation: str
    number: int


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class State:
    """A module between two passes.

    Attributes:
      numbers: of the lines that are shown: without tables of files and frames, and doubled blank lines.
      headers: for each of these the line number of its computation's header, -1 outside of all.
      has: for each distinct line whether it is one of these.
      is_scheduled: whether the order of the instructions is that in which they run.
    """

    numbers: Ints
    headers: Ints
    has: npt.NDArray[np.bool_]
    is_scheduled: bool


class Snapshots:
    """Of one compile; see the module."""

    def __init__(self, texts: Texts) -> None:
        """Reads the distinct lines; a snapshot is read when it is asked for."""
        self._texts = texts
        self.lines = texts.distinct()
        self._kinds = np.array([_kind(line) for line in self.lines], np.int8)
        self._rows: dict[int, InstructionLine | None] = {}
        self._states: dict[int, State] = {}

    def state(self, text: int) -> State:
        """The module of a snapshot, by its index.

        Raises:
          ModuleError: it was read from a damaged file.
        """
        if text not in self._states:
            while len(self._states) >= _HELD:
                del self._states[next(iter(self._states))]
            self._states[text] = self._read_state(text)
        return self._states[text]

    def _read_state(self, text: int) -> State:
        order = self._texts.order(text)
        if len(order) and not 0 <= order.min() <= order.max() < len(self.lines):
            raise ModuleError(f"A recorded text has line {order.max()} of {len(self.lines)}. Compile again.")
        kinds = self._kinds[order]
        places = np.arange(len(order))
        opened = np.maximum.accumulate(np.where(kinds == _HEADER, places, -1))
        ended = np.maximum.accumulate(np.where(kinds == _END, places, -1))
        within = (opened >= 0) & ((ended < opened) | (ended == places))
        shown = within | (kinds == _MODULE)
        is_blank = (kinds == _BLANK) & ~within
        numbers = order[shown | is_blank]
        headers = np.where(within, order[np.maximum(opened, 0)], _OUTSIDE)[shown | is_blank]
        blank = is_blank[shown | is_blank]
        kept = ~(blank & np.concatenate(([True], blank[:-1])))
        has = np.zeros(len(self.lines), np.bool_)
        has[numbers] = True
        scheduled = any("is_scheduled=true" in self.lines[n] for n in order[kinds == _MODULE].tolist())
        return State(numbers[kept], headers[kept], has, scheduled)

    @functools.cached_property
    def _callers(self) -> dict[str, list[int]]:
        """Maps each computation to the distinct lines that call it."""
        found: dict[str, list[int]] = {}
        for number, line in enumerate(self.lines):
            row = self.read(number) if line.startswith(" ") and _CALLING.search(line) else None
            for called in row.called if row is not None else ():
                found.setdefault(called, []).append(number)
        return found

    def is_live(self, text: int, numbers: Iterable[int]) -> bool:
        """Reports whether a module has one of some lines in a computation that runs: the entry, or one that is called from there."""
        state = self.state(text)
        waiting = [*np.unique(state.headers[np.isin(state.numbers, [*numbers])]).tolist()]
        seen = set(waiting)
        while waiting:
            header = waiting.pop()
            if header == _OUTSIDE or self.lines[header].startswith("ENTRY"):
                return True
            callers = np.isin(state.numbers, self._callers.get(self.computation(header), ()))
            above = set(np.unique(state.headers[callers]).tolist()) - seen
            seen |= above
            waiting += above
        return False

    def orphans(self, before: int, after: int) -> tuple[str, ...]:
        """Computations that both of two modules have and that only the first one calls.

        A pass that copies a computation to where it was called leaves the original behind, for a later pass to remove.
        """
        old, new = self.state(before), self.state(after)
        changed = old.numbers[~new.has[old.numbers]]
        present = {self.computation(header) for header in np.unique(new.headers).tolist()}
        waiting = [*self._called_by(changed.tolist())]
        found: dict[str, None] = {}
        while waiting:
            name = waiting.pop()
            if name in found or name not in present:
                continue
            callers = np.isin(new.numbers, self._callers.get(name, ()))
            if all(self.computation(header) in found for header in new.headers[callers].tolist()):
                found[name] = None
                inside = [
                    number
                    for number, at in zip(old.numbers.tolist(), old.headers.tolist(), strict=True)
                    if self.computation(at) == name
                ]
                waiting += self._called_by(inside)
        return tuple(found)

    def _called_by(self, numbers: Iterable[int]) -> Iterator[str]:
        for number in numbers:
            if _CALLING.search(self.lines[number]):
                row = self.read(number)
                yield from row.called if row is not None else ()

    def fusions(self, text: int) -> dict[str, str]:
        """Of each computation that a fusion of a module calls, the fusion's name."""
        numbers = self.state(text).numbers
        rows = (self.read(n) for n in numbers[self._calls[numbers]].tolist())
        return {called: row.name for row in rows if row is not None for called in row.called}

    @functools.cached_property
    def _calls(self) -> npt.NDArray[np.bool_]:
        return np.array([" fusion(" in line and "calls=%" in line for line in self.lines])

    @functools.cached_property
    def names(self) -> list[str | None]:
        """Of each distinct line what it defines, or None."""
        return [defined_name(line) if line.startswith(" ") else None for line in self.lines]

    def read(self, number: int) -> InstructionLine | None:
        """What a line says; None of one that defines nothing."""
        if number not in self._rows:
            if len(self._rows) >= _HELD_ROWS:
                self._rows.clear()
            self._rows[number] = read_line(self.lines[number])
        return self._rows[number]

    def shown(self, number: int) -> str:
        """A line without metadata."""
        return parts_of(self.lines[number])[0]

    def rows(self, text: int, places: Iterable[int]) -> Iterator[SnapshotInstruction]:
        """The instructions at some places of a module, in order."""
        state = self.state(text)
        for place in places:
            number, header = int(state.numbers[place]), int(state.headers[place])
            line = self.read(number) if header != _OUTSIDE else None
            if line is not None:
                yield SnapshotInstruction(line, self.computation(header), number)

    def computation(self, header: int) -> str:
        """The name of a computation, by its header's line number; "" outside of all."""
        return header_name(self.lines[header]) if header != _OUTSIDE else ""

    def places(self, text: int) -> dict[str, int]:
        """Where a module defines its instructions, by name."""
        numbers = self.state(text).numbers.tolist()
        return {name: place for place, n in enumerate(numbers) if (name := self.names[n]) is not None}

    def differing(self, before: int, after: int) -> tuple[Ints, Ints]:
        """The places of the lines that only one of two modules has."""
        old, new = self.state(before), self.state(after)
        return np.flatnonzero(~new.has[old.numbers]), np.flatnonzero(~old.has[new.numbers])


_CALLING = re.compile(r"\), .*?(?:calls|to_apply|body|condition|_computations?|select|scatter)=\{?%")
_HELD = 4  # so many states are enough to walk along all passes; each has 30 bytes a line
_HELD_ROWS = 50_000  # some 600 bytes each


def steps(passes: Passes) -> tuple[Pass, ...]:
    """The passes that changed the module themselves, each from where the one before left it.

    Left out are passes that did no more than the passes within them, and passes within one that did more than that.
    """
    found: list[Pass] = []
    for each in passes:
        inner: list[Pass] = []
        while found and found[-1].index >= each.index - each.inner:
            inner.insert(0, found.pop())
        found += inner if _adds_up(inner, each) else [each] if each.changed else []
    return tuple(found)


def _adds_up(inner: Sequence[Pass], whole: Pass) -> bool:
    """Reports whether the passes within one lead from the module before it to the module after it."""
    text = whole.before_index
    for each in inner:
        if each.is_part or each.before_index != text:
            return False
        text = each.after_index
    return text == whole.after_index


def _kind(line: str) -> int:
    if line.startswith(" "):
        return _INSTRUCTION
    if not line:
        return _BLANK
    if line.startswith("}"):
        return _END
    if line.startswith("HloModule"):
        return _MODULE
    return _HEADER if is_header(line) else _OTHER
