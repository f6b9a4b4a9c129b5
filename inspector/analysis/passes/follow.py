"""`follow`: the history of instructions through all compiler passes, from their origin to the compiled program.

Each step names the pass, its change, and the certainty of the match.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from inspector.analysis.passes.correspondence import Certainty, Correspondence
from inspector.analysis.passes.sides import holder_of
from inspector.analysis.passes.snapshots import SnapshotInstruction, Snapshots, steps
from inspector.analysis.passes.step_descriptions import StepEvent, Words, change_of, some, words
from inspector.compilation.records.passes import Pass, Passes
from inspector.errors import ParameterError
from inspector.hlo.frame_tables import read_frames
from inspector.hlo.source import Frame, merged_names
from inspector.support.tables import Kind, Tabular, make_table

if TYPE_CHECKING:
    import pandas as pd

MOST_FOLLOWED = 64
"""Maximum number of instructions that are followed at once; one source line may produce thousands."""


@dataclasses.dataclass(frozen=True, slots=True)
class Touch:
    """The change that one pass made to the followed instructions.

    Attributes:
      index: index of the pass; None for instructions that exist before all passes.
      pipeline, name: of the pass, "" if there is none.
      word: the kind of change: one of `WORDS`, "rewired" for instructions of which only the operands changed, "given" for
        instructions that exist before all passes.
      text: the affected instructions and the details of the change.
      before, after: names of the instructions in the modules before and after the pass.
      certainty: of the match between `before` and `after`.
    """

    index: int | None
    pipeline: str
    name: str
    word: str
    text: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    certainty: Certainty

    def __str__(self) -> str:
        where = "at the start" if self.index is None else f"{self.index} {self.name}"
        evidence = "" if self.certainty is Certainty.KEPT else f" [{self.certainty}]"
        word = "" if self.word == "rewired" else f"{self.word} "
        return f"{where}: {word}{self.text}{evidence}"


@dataclasses.dataclass(frozen=True, slots=True)
class Following(Tabular):
    """The history of the followed instructions.

    Attributes:
      what: description of the followed instructions.
      touches: the changes by passes, in order.
      first, last: names of the instructions before the passes and in the compiled program; () if they did not exist yet, or
        were removed.
      fate: the final state, in words.
      certainty: the lowest certainty of all steps.
      note: omitted instructions, or "".
    """

    what: str
    touches: tuple[Touch, ...]
    first: tuple[str, ...]
    last: tuple[str, ...]
    fate: str
    certainty: Certainty
    note: str = ""

    def table(self) -> pd.DataFrame:
        """Returns one row per pass that changed the instructions: `index, pipeline, name, word, text, before, after, certainty`."""
        rows = [
            (t.index, t.pipeline, t.name, t.word, t.text, list(t.before), list(t.after), str(t.certainty))
            for t in self.touches
        ]
        return make_table(_COLUMNS, rows)

    def __str__(self) -> str:
        return "\n".join([f"{self.what}: {self.fate}", *(f"  {touch}" for touch in self.touches)])

    def __repr__(self) -> str:
        return f"<Following {self.what}: touched by {len(self.touches)} passes, {self.fate}>"


_COLUMNS: Mapping[str, Kind] = {
    "index": "int", "pipeline": "text", "name": "text", "word": "text", "text": "text", "before": "object",
    "after": "object", "certainty": "text",
}  # fmt: skip


class History:
    """All passes of one compile with the changes that each made.

    Comparisons of snapshots are cached; the cache is bounded.
    """

    def __init__(self, passes: Passes, operations: Callable[[], frozenset[str]] = frozenset) -> None:
        """Reads the snapshots' lines.

        Args:
          passes: the recorded passes.
          operations: returns the op_names in the compiled program; none if they are unknown.

        Raises:
          ParameterError: no passes were recorded.
        """
        if not len(passes):
            raise ParameterError("No passes were recorded, so there is nothing to compare or follow.")
        self.passes, self._operations = passes, operations
        self.snapshots = Snapshots(passes[0].texts)
        self.steps = steps(passes)
        self._known: dict[tuple[int, int], tuple[Correspondence, Words]] = {}
        self._row_count = 0

    def compared(self, before: int, after: int) -> tuple[Correspondence, Words]:
        """Returns the matched instructions of two snapshots, by index, and the changes between them."""
        key = before, after
        if key not in self._known:
            correspondence = Correspondence(self.snapshots, before, after)
            self._known[key] = correspondence, words(self.snapshots, correspondence, before, after)
            self._row_count += len(correspondence.old.rows) + len(correspondence.new.rows)
            while self._row_count > _MOST_ROWS and len(self._known) > 1:
                dropped, _ = self._known.pop(next(iter(self._known)))
                self._row_count -= len(dropped.old.rows) + len(dropped.new.rows)
        return self._known[key]

    def follow(self, names: Sequence[str], place: int, what: str) -> Following:
        """Follows instructions through all passes.

        Args:
          names: names in the module after the first `place` steps.
          place: number of `steps`; 0 for the module before all passes.
          what: description of the instructions, for the result.
        """
        note = ""
        if len(names) > MOST_FOLLOWED:
            note = f"Only the first {MOST_FOLLOWED} of {len(names):,} instructions are followed."
            names = names[:MOST_FOLLOWED]
        back, first, born = self._backward(names, place)
        forth, last = self._forward(names, place)
        touches = (*reversed(back), *forth)
        least = Certainty.least(touch.certainty for touch in touches)
        if last:
            fate = f"in the compiled program as {self._named(last)}"
        else:
            fate, last, least = self._end(names, place, () if born else first, forth[-1])
        if not born:
            origin = Touch(None, "", "", "given", f"as {some(first)}", (), tuple(first), Certainty.KEPT)
            touches = (origin, *touches)
        return Following(what, touches, () if born else tuple(first), tuple(last), fate, least, note)

    def _forward(self, names: Sequence[str], place: int) -> tuple[list[Touch], list[str]]:
        touches: list[Touch] = []
        now = list(names)
        for step in self.steps[place:]:
            if not now:
                break
            correspondence, description = self.compared(step.before_index, step.after_index)
            touched, now = _Along(step, correspondence, description).forward(now)
            touches += touched
        return touches, now

    def _backward(self, names: Sequence[str], place: int) -> tuple[list[Touch], list[str], bool]:
        touches: list[Touch] = []
        now = list(names)
        for step in reversed(self.steps[:place]):
            correspondence, description = self.compared(step.before_index, step.after_index)
            touched, before = _Along(step, correspondence, description).backward(now)
            touches += reversed(touched)
            if not before:
                return touches, now, True
            now = before[:MOST_FOLLOWED]
        return touches, now, False

    def _end(
        self, names: Sequence[str], place: int, first: Sequence[str], death: Touch
    ) -> tuple[str, list[str], Certainty]:
        """Returns the fate of instructions without a match in later modules, their names in the compiled program, and the certainty.

        If the compiled program has instructions of the same operation, they are not reported as gone: a pass may have
        rewritten them in a way that comparing the modules before and after it does not reveal.

        Args:
          names: names in the module after the first `place` steps.
          place: number of steps.
          first: names of the instructions before all passes.
          death: the change by the last pass that had them.
        """
        where = f"pass {death.index} {death.name}"
        kinds = self._kinds(self.text_at(place), names)
        same = [name for name in self._final if self._final[name].keys() & kinds.keys()]
        if not same and (carried := kinds.keys() & self._carried):
            fate = f"{death.word} by {where}, {death.text}; the compiled program still names {some(sorted(carried))}"
            return fate, [], Certainty.LOST
        if not same:
            return f"gone since {where}: {death.word} {death.text}", [], death.certainty
        alike = [name for name in same if any(self._final[name].get(each) == kind for each, kind in kinds.items())]
        others = self._others(kinds) - {*first} if alike else set()
        if others:
            taken = {name for other in [*others][:MOST_FOLLOWED] for name in self._forward([other], 0)[1]}
            alike = [name for name in alike if name not in taken]
        if alike:
            fate = (
                f"in the compiled program as {self._named(alike)}, matched by op_name: no steps are known after {where}"
            )
            return fate, alike, Certainty.GUESSED if others else Certainty.NAMED
        which = some(sorted(kinds))
        fate = f"{death.word} by {where}, {death.text}; the compiled program computes {which} in {self._named(same)}"
        return fate, [], Certainty.LOST

    def _kinds(self, text: int, names: Iterable[str]) -> dict[str, str]:
        """Maps the name stacks of instructions to their kinds of work."""
        places = self.snapshots.places(text)
        rows = self.snapshots.rows(text, (places[name] for name in names if name in places))
        return {row.line.op_name: _work(row.line.opcode) for row in rows if row.line.op_name}

    def _others(self, kinds: Mapping[str, str]) -> set[str]:
        """Returns the instructions before all passes that do the same work for the same operations."""
        return {row.line.name for row in self._first_rows() if kinds.get(row.line.op_name) == _work(row.line.opcode)}

    @functools.cached_property
    def _final(self) -> Mapping[str, Mapping[str, str]]:
        """Maps each instruction of the compiled program to its operations and its kind of work."""
        text = self.text_at(len(self.steps))
        rows = self.snapshots.rows(text, range(len(self.snapshots.state(text).numbers)))
        return {
            row.line.name: dict.fromkeys((row.line.op_name, *merged_names(row.line.op_name)), _work(row.line.opcode))
            for row in rows
            if row.line.op_name and row.line.opcode != "parameter"
        }

    @functools.cached_property
    def _carried(self) -> frozenset[str]:
        """The operations that the compiled program names, also in tuple elements, which texts of passes can leave out."""
        return self._operations()

    def _named(self, last: Sequence[str]) -> str:
        """Lists instructions of the compiled program with the fusions that contain them."""
        text = self.text_at(len(self.steps))
        state, places = self.snapshots.fusions(text), self.snapshots.places(text)
        rows = self.snapshots.rows(text, (places[name] for name in last if name in places))
        labels = [
            f"{row.line.name} in {state[row.computation]}" if row.computation in state else row.line.name
            for row in rows
        ]
        return some(labels)

    # ------------------------------------------------------------------ starting points

    def text_at(self, place: int) -> int:
        """Returns the index of the module's text after `place` steps."""
        return self.passes[0].before_index if place == 0 else self.steps[place - 1].after_index

    def place_after(self, index: int | None) -> int:
        """Counts the steps up to and including a pass, or the pass that contains it; None counts all steps, -1 none."""
        return len(self.steps) if index is None else sum(step.index - step.inner <= index for step in self.steps)

    def place_of(self, name: str) -> int:
        """Returns the last place at which the module has an instruction in a computation that runs.

        Raises:
          ParameterError: no snapshot has the instruction.
        """
        numbers = [number for number, known in enumerate(self.snapshots.names) if known == name]
        places = [
            place
            for place in range(len(self.steps), -1, -1)
            if numbers and np.isin(self.passes[0].texts.order(self.text_at(place)), numbers).any()
        ]
        if places:
            return next((place for place in places if self.snapshots.is_live(self.text_at(place), numbers)), places[0])
        near = difflib.get_close_matches(name, {known for known in self.snapshots.names if known}, n=3)
        hint = f" Did you mean {', '.join(near)}?" if near else ""
        raise ParameterError(f"No module of this compile, before or after any pass, has an instruction {name!r}.{hint}")

    def of_operation(self, op_name: str) -> list[str]:
        """Returns the instructions before all passes with an `op_name`, merged instructions included."""
        return [
            row.line.name
            for row in self._first_rows()
            if op_name == row.line.op_name or op_name in merged_names(row.line.op_name)
        ]

    def of_line(self, is_there: Callable[[str, int], bool]) -> list[str]:
        """Returns the instructions before all passes that come from a Python line.

        If the line is never the innermost frame, returns all instructions of the calls that it makes.

        Args:
          is_there: reports whether a file name and a line number are the line.
        """
        frames = self.frames()
        names: dict[bool, list[str]] = {True: [], False: []}
        for row in self._first_rows():
            stack = frames.get(row.line.frame, ())
            depth = next((i for i, frame in enumerate(stack) if is_there(frame.file, frame.line)), None)
            if depth is not None:
                names[depth == 0].append(row.line.name)
        return names[True] or names[False]

    def frames(self) -> Mapping[int, tuple[Frame, ...]]:
        """Returns the Python stacks of the module before all passes."""
        order = self.passes[0].texts.order(self.text_at(0)).tolist()
        return read_frames(self.snapshots.lines[number] for number in order)

    def _first_rows(self) -> Iterator[SnapshotInstruction]:
        text = self.text_at(0)
        return self.snapshots.rows(text, range(len(self.snapshots.state(text).numbers)))


_MOST_ROWS = 300_000


class _Along:
    """Follows names through one pass."""

    def __init__(self, step: Pass, correspondence: Correspondence, description: Words) -> None:
        self._step, self._correspondence = step, correspondence
        self._made: dict[str, StepEvent] = {}
        self._done: dict[str, StepEvent] = {}
        for event in description.events:
            if event.before != event.after:
                self._made.update(dict.fromkeys(event.after, event))
                for name in event.before:
                    self._done.setdefault(name, event)

    def forward(self, names: Sequence[str]) -> tuple[list[Touch], list[str]]:
        touches: dict[str, Touch] = {}
        now: dict[str, None] = {}
        for name in names:
            if name not in self._correspondence.old.rows:
                now[name] = None
                continue
            fate = self._correspondence.fate(name)
            event = self._done.get(name) or self._done.get(self._correspondence.old.unit(name))
            is_removed = event is not None and event.word == "removed"
            targets = [] if is_removed else self._heart(name, fate.targets, event)
            now.update(dict.fromkeys(targets))
            if targets == [name]:
                touch = self._altered(name)
                if touch is not None:
                    touches[name] = touch
            else:
                touch = self._changed(name, targets, event)
                touches.setdefault(touch.text, touch)
        return list(touches.values()), list(now)

    def backward(self, names: Sequence[str]) -> tuple[list[Touch], list[str]]:
        touches: dict[str, Touch] = {}
        before: dict[str, None] = {}
        for name in names:
            if self._correspondence.had_old(name):
                before[name] = None
                touch = self._altered(name)
                if touch is not None:
                    touches[name] = touch
                continue
            sources = self._sources(name)
            event = self._made.get(name) or self._made.get(self._correspondence.new.unit(name))
            before.update(dict.fromkeys(sources))
            touch = self._born(name, sources, event)
            touches.setdefault(touch.text, touch)
        return list(touches.values()), list(before)

    def _sources(self, name: str) -> list[str]:
        """Returns the instructions that a new instruction was made from; for a fusion all instructions fused into it."""
        sources = dict.fromkeys(self._correspondence.sources.get(name, ()))
        unit = self._correspondence.new.unit(name)
        if not sources and unit != name and self._correspondence.new.canonical(unit) == name:
            sources = dict.fromkeys(self._correspondence.sources.get(unit, ()))  # a fusion stands for its root
        event = self._made.get(name)
        if event is not None:
            sources.update(
                dict.fromkeys(
                    n for n in event.before if self._correspondence.had_old(n) or n in self._correspondence.old.places
                )
            )
        return list(sources)

    def _heart(self, name: str, targets: Sequence[str], event: StepEvent | None) -> list[str]:
        """Returns those of the targets of an instruction that do its work."""
        opcode = _base(self._correspondence.old.rows[name].line.opcode)
        made = event.after if event is not None and event.word in ("rewrote", "split") and name in event.before else ()
        same = [
            n for n in made if (line := self._correspondence.new.line(n)) is not None and _base(line.opcode) == opcode
        ]
        return list(dict.fromkeys(map(holder_of, same or targets)))  # newer texts have no name for an element

    def _altered(self, name: str) -> Touch | None:
        old, new = self._correspondence.old.rows.get(name), self._correspondence.new.rows.get(name)
        if old is None or new is None or old.number == new.number:
            return None
        change, event = change_of(old, new), self._done.get(name)
        if event is not None and event.word == "fused":
            return self._changed(name, (name,), event)
        if change:
            word, text = "rewrote", f"{name}: {change}"
        elif old.computation != new.computation:
            word, text = "moved", f"{name} to {new.computation}"
        else:
            swapped = [
                f"{b} instead of {a}" for a, b in zip(old.line.operands, new.line.operands, strict=False) if a != b
            ]
            if not swapped:  # only metadata or the name of a called computation changed
                return None
            word, text = "rewired", f"{name} uses {some(swapped)}"
        return self._touch(word, text, (name,), (name,), Certainty.ALTERED)

    def _changed(self, name: str, targets: Sequence[str], event: StepEvent | None) -> Touch:
        """Describes the change of an instruction that does not keep its name."""
        fate = self._correspondence.fate(name)
        before, after = (name,), tuple(targets)
        if event is None:
            text = f"{name} as {some(targets)}" if targets else f"{name}: {fate.why}"
            return self._touch("rewrote" if targets else "removed", text, before, after, fate.certainty)
        if event.word == "fused":
            holders = dict.fromkeys(map(self._correspondence.new.unit, targets))
            inside = [target for target in targets if target not in holders and target != name]
            others = len(event.before) - 1
            text = f"{name} into {some(holders)}{f' as {some(inside)}' if inside else ''}"
            text += f", with {others:,} other{'s' * (others > 1)}" if others and len(holders) == 1 else ""
        elif event.word == "removed":
            text = f"{name}: {fate.why or event.note}" if len(event.before) > 1 else str(event).partition(" ")[2]
        else:
            text = str(event).partition(" ")[2]
        return self._touch(event.word, text, before, after, fate.certainty)

    def _born(self, name: str, sources: Sequence[str], event: StepEvent | None) -> Touch:
        """Describes the origin of a new instruction."""
        if not sources:
            return self._touch("inserted", name, (), (name,), Certainty.KEPT)
        certainty = Certainty.least(self._correspondence.fate(source).certainty for source in sources)
        text = str(event).partition(" ")[2] if event is not None else f"{some(sources)} as {name}"
        word = event.word if event is not None else "rewrote"
        return self._touch(word, text, tuple(sources), (name,), certainty)

    def _touch(
        self, word: str, text: str, before: tuple[str, ...], after: tuple[str, ...], certainty: Certainty
    ) -> Touch:
        step = self._step
        return Touch(step.index, step.pipeline, step.name, word, text, before, after, certainty)


def _work(opcode: str) -> str:
    """Returns the kind of work of an opcode; several opcodes may share one, since TPUs use convolutions for dots."""
    return "dot" if opcode == "convolution" else _base(opcode)


def _base(opcode: str) -> str:
    return opcode.removesuffix("-start").removesuffix("-done")
