"""`Snapshots`: the modules between compiler passes, as lists of lines. Lines that several modules share are parsed once.

Passes keep the names of instructions that they do not change, and a snapshot shares most lines with the one before it.
So two modules are compared by the few lines that only one of them has.
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
      line: its parsed line.
      computation: name of the computation that contains it.
      number: index of its line among all distinct lines.
    """

    line: InstructionLine
    computation: str
    number: int


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class State:
    """A module between two passes.

    Attributes:
      numbers: the displayed lines, by index; tables of files and frames and repeated blank lines are omitted.
      headers: for each displayed line the index of its computation's header line, -1 outside of computations.
      has: for each distinct line whether it is displayed.
      is_scheduled: whether the instructions are listed in execution order.
    """

    numbers: Ints
    headers: Ints
    has: npt.NDArray[np.bool_]
    is_scheduled: bool


class Snapshots:
    """The snapshots of one compile; see the module docstring."""

    def __init__(self, texts: Texts) -> None:
        """Reads the distinct lines; snapshots are read on demand."""
        self._texts = texts
        self.lines = texts.distinct()
        self._kinds = np.array([_kind(line) for line in self.lines], np.int8)
        self._rows: dict[int, InstructionLine | None] = {}
        self._states: dict[int, State] = {}

    def state(self, text: int) -> State:
        """Returns the module of a snapshot, by its index.

        Raises:
          ModuleError: the snapshot comes from a damaged file.
        """
        if text not in self._states:
            while len(self._states) >= _HELD:
                del self._states[next(iter(self._states))]
            self._states[text] = self._read_state(text)
        return self._states[text]

    def _read_state(self, text: int) -> State:
        order = self._texts.order(text)
        if len(order) and not 0 <= order.min() <= order.max() < len(self.lines):
            raise ModuleError(
                f"A recorded text refers to line {order.max()}, but only {len(self.lines)} lines were recorded. Compile again."
            )
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
        mask = ~(blank & np.concatenate(([True], blank[:-1])))
        has = np.zeros(len(self.lines), np.bool_)
        has[numbers] = True
        scheduled = any("is_scheduled=true" in self.lines[n] for n in order[kinds == _MODULE].tolist())
        return State(numbers[mask], headers[mask], has, scheduled)

    @functools.cached_property
    def _callers(self) -> dict[str, list[int]]:
        """Maps each computation to the distinct lines that call it."""
        callers: dict[str, list[int]] = {}
        for number, line in enumerate(self.lines):
            row = self.read(number) if line.startswith(" ") and _CALLING.search(line) else None
            for called in row.called if row is not None else ():
                callers.setdefault(called, []).append(number)
        return callers

    def is_live(self, text: int, numbers: Iterable[int]) -> bool:
        """Reports whether a module has one of some lines in a computation that runs: the entry computation or its callees."""
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
        """Returns the computations that both modules have but only the first module calls.

        A pass that inlines a computation leaves the original behind, for a later pass to remove.
        """
        old, new = self.state(before), self.state(after)
        changed = old.numbers[~new.has[old.numbers]]
        present = {self.computation(header) for header in np.unique(new.headers).tolist()}
        waiting = [*self._called_by(changed.tolist())]
        orphans: dict[str, None] = {}
        while waiting:
            name = waiting.pop()
            if name in orphans or name not in present:
                continue
            callers = np.isin(new.numbers, self._callers.get(name, ()))
            if all(self.computation(header) in orphans for header in new.headers[callers].tolist()):
                orphans[name] = None
                inside = [
                    number
                    for number, at in zip(old.numbers.tolist(), old.headers.tolist(), strict=True)
                    if self.computation(at) == name
                ]
                waiting += self._called_by(inside)
        return tuple(orphans)

    def _called_by(self, numbers: Iterable[int]) -> Iterator[str]:
        for number in numbers:
            if _CALLING.search(self.lines[number]):
                row = self.read(number)
                yield from row.called if row is not None else ()

    def fusions(self, text: int) -> dict[str, str]:
        """Maps each computation that a fusion of a module calls to the fusion's name."""
        numbers = self.state(text).numbers
        rows = (self.read(n) for n in numbers[self._calls[numbers]].tolist())
        return {called: row.name for row in rows if row is not None for called in row.called}

    @functools.cached_property
    def _calls(self) -> npt.NDArray[np.bool_]:
        return np.array([" fusion(" in line and "calls=%" in line for line in self.lines])

    @functools.cached_property
    def names(self) -> list[str | None]:
        """Returns for each distinct line the name that it defines, or None."""
        return [defined_name(line) if line.startswith(" ") else None for line in self.lines]

    def read(self, number: int) -> InstructionLine | None:
        """Parses a line; None if it defines no instruction."""
        if number not in self._rows:
            if len(self._rows) >= _HELD_ROWS:
                self._rows.clear()
            self._rows[number] = read_line(self.lines[number])
        return self._rows[number]

    def shown(self, number: int) -> str:
        """Returns a line without metadata."""
        return parts_of(self.lines[number])[0]

    def rows(self, text: int, places: Iterable[int]) -> Iterator[SnapshotInstruction]:
        """Yields the instructions at some places of a module, in order."""
        state = self.state(text)
        for place in places:
            number, header = int(state.numbers[place]), int(state.headers[place])
            line = self.read(number) if header != _OUTSIDE else None
            if line is not None:
                yield SnapshotInstruction(line, self.computation(header), number)

    def computation(self, header: int) -> str:
        """Returns the name of a computation, by the index of its header line; "" outside of computations."""
        return header_name(self.lines[header]) if header != _OUTSIDE else ""

    def places(self, text: int) -> dict[str, int]:
        """Maps the instructions of a module to the places that define them, by name."""
        numbers = self.state(text).numbers.tolist()
        return {name: place for place, n in enumerate(numbers) if (name := self.names[n]) is not None}

    def differing(self, before: int, after: int) -> tuple[Ints, Ints]:
        """Returns the places of the lines that only one of two modules has, for either module."""
        old, new = self.state(before), self.state(after)
        return np.flatnonzero(~new.has[old.numbers]), np.flatnonzero(~old.has[new.numbers])


_CALLING = re.compile(r"\), .*?(?:calls|to_apply|body|condition|_computations?|select|scatter)=\{?%")
_HELD = 4  # cached states; enough to walk through all passes, with 30 bytes per line each
_HELD_ROWS = 50_000  # cached lines, about 600 bytes each


def steps(passes: Passes) -> tuple[Pass, ...]:
    """Returns the passes that changed the module themselves, so that each starts from the module that the previous one left.

    If the passes within a pass account for all of its changes, the outer pass is omitted; otherwise the inner passes are.
    """
    chain: list[Pass] = []
    for each in passes:
        inner: list[Pass] = []
        while chain and chain[-1].index >= each.index - each.inner:
            inner.insert(0, chain.pop())
        chain += inner if _adds_up(inner, each) else [each] if each.changed else []
    return tuple(chain)


def _adds_up(inner: Sequence[Pass], whole: Pass) -> bool:
    """Reports whether the inner passes lead from the module before a pass to the module after it."""
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
