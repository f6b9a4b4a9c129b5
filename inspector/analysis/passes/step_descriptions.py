"""Describes in words how a compiler pass changed the instructions: fused, split, merged, rewrote, renamed, moved, inserted, removed."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from inspector.analysis.diff.text_diff import longest_run
from inspector.analysis.passes.correspondence import Certainty, Correspondence, Fate
from inspector.analysis.passes.side_values import attributes_of
from inspector.analysis.passes.snapshots import SnapshotInstruction, Snapshots
from inspector.hlo.opcodes import COLLECTIVES

Word = Literal["fused", "split", "merged", "rewrote", "renamed", "moved", "inserted", "removed"]
WORDS: tuple[Word, ...] = ("fused", "split", "merged", "rewrote", "renamed", "moved", "inserted", "removed")


@dataclasses.dataclass(frozen=True, slots=True)
class StepEvent:
    """One change that a pass made.

    Attributes:
      word: the kind of change, one of `WORDS`.
      before: names of the affected instructions in the module before the pass.
      after: names of the resulting instructions in the module after the pass; equal to `before` for instructions that
        keep their names.
      certainty: of the match between `before` and `after`; the lowest of all instructions.
      note: further details, such as the property of an instruction that changed, else "".
    """

    word: Word
    before: tuple[str, ...]
    after: tuple[str, ...]
    certainty: Certainty
    note: str = ""

    def __str__(self) -> str:
        names = {"inserted": some(self.after), "removed": some(self.before)}.get(self.word)
        if names is None:
            same = self.before == self.after
            names = some(self.before) if same else f"{some(self.before)} {_JOINED[self.word]} {some(self.after)}"
        return f"{self.word} {names}" + (f": {self.note}" if self.note else "")


@dataclasses.dataclass(frozen=True, slots=True)
class Words:
    """All changes that a pass made.

    Attributes:
      events: the changes, in the order of `WORDS`.
      rewired: number of instructions that changed only in their operands.
      notes: changes of the module as a whole, in words.
    """

    events: tuple[StepEvent, ...]
    rewired: int
    notes: tuple[str, ...]

    def __str__(self) -> str:
        summaries = [_summary(word, [e for e in self.events if e.word == word]) for word in WORDS]
        parts = [part for part in summaries if part] + list(self.notes)
        if self.rewired and not parts:
            noun = "instruction" if self.rewired == 1 else "instructions"
            parts = [f"changed the operands of {self.rewired:,} {noun}"]
        text = "; ".join(parts)
        return text[:1].upper() + text[1:]


def words(snapshots: Snapshots, correspondence: Correspondence, before: int, after: int) -> Words:
    """Describes the changes between two snapshots.

    Args:
      snapshots: all snapshots of the compile.
      correspondence: the correspondence between the two snapshots.
      before: index of the earlier snapshot.
      after: index of the later snapshot.
    """
    reader = _Reader(correspondence)
    events = [*reader.events()]
    old, new = snapshots.state(before), snapshots.state(after)
    notes = ["scheduled the instructions"] if new.is_scheduled and not old.is_scheduled else []
    if old.is_scheduled and new.is_scheduled:
        moved = _out_of_order(list(correspondence.old.places), correspondence.new.places)
        events += [StepEvent("moved", moved, moved, Certainty.KEPT, "in the schedule")] if moved else []
    return Words(tuple(sorted(events, key=lambda e: WORDS.index(e.word))), reader.rewired, tuple(notes))


_JOINED = {"fused": "into", "split": "into", "merged": "into", "rewrote": "as", "renamed": "to", "moved": "as"}
_SHOWN = 4


class _Reader:
    """Derives the events from a correspondence."""

    def __init__(self, correspondence: Correspondence) -> None:
        self._correspondence, self._old, self._new = correspondence, correspondence.old, correspondence.new
        self._fresh = set(correspondence.fresh)
        self._reported: set[str] = set()  # new instructions that an event already includes
        names = (self._old.rows[name].line.op_name for name in correspondence.gone)
        self._gone_operations = {name for name in names if name}
        self._inlined: list[str] = []
        self._inside: dict[str, None] = {}  # fusions that stayed but whose fused instructions changed
        self.rewired = 0

    def events(self) -> Iterator[StepEvent]:
        fused, single = self._sorted_out()
        yield from self._fused(fused)
        yield from self._single(single)
        if self._inlined:
            yield StepEvent("removed", tuple(self._inlined), (), Certainty.EQUAL, "inlined")
        yield from self._altered()
        yield from self._inserted()

    def _sorted_out(self) -> tuple[dict[str, dict[str, Certainty]], list[tuple[str, Fate]]]:
        """Returns the instructions that went into each new fusion, and those that are in no fusion before and after."""
        fused: dict[str, dict[str, Certainty]] = {}
        single = []
        for name in self._correspondence.gone:
            row, fate = self._old.rows[name], self._correspondence.fate(name)
            if row.line.opcode == "parameter":
                continue
            if row.line.opcode == "call":
                self._inlined.append(name)
                continue
            unit = self._old.unit(name)
            if unit != name and unit in self._correspondence.new.places:
                self._inside[unit] = None
            holders = [self._holder(target) for target in fate.targets]
            for holder in filter(None, holders):
                if holder != unit:
                    into = fused.setdefault(holder, {})
                    into[unit] = Certainty.least((into.get(unit, fate.certainty), fate.certainty))
            if unit == name and not any(holders):
                single.append((name, fate))
        for name in self._correspondence.survivors & self._old.outside:
            unit = self._new.unit(name)
            if unit != name:
                fused.setdefault(unit, {})[name] = Certainty.KEPT
        return fused, single

    def _holder(self, target: str) -> str | None:
        """Returns the fusion that a new instruction is or belongs to, None for other instructions."""
        row = self._new.rows.get(target)
        if row is not None and row.line.opcode == "fusion":
            return target if target in self._fresh else None
        unit = self._new.unit(target)
        return None if unit == target else unit

    def _fused(self, fused: dict[str, dict[str, Certainty]]) -> Iterator[StepEvent]:
        into = collections.defaultdict(list)
        for holder, units in fused.items():
            for unit in units:
                into[unit].append(holder)
        split = set()
        for unit, holders in into.items():
            if self._is_fusion(unit) and len(holders) > 1 and unit not in self._new.places:
                split.add(unit)
                self._reported.update(holders)
                least = Certainty.least(fused[h][unit] for h in holders)
                yield StepEvent("split", (unit,), tuple(holders), least)
        for holder, units in fused.items():
            parts = [unit for unit in units if unit not in split]
            self._reported.add(holder)
            if not parts:
                continue
            least = Certainty.least(units[unit] for unit in parts)
            if len(parts) == 1 and self._is_fusion(parts[0]) and holder in self._fresh:
                word: Word = "renamed" if least is Certainty.EQUAL else "rewrote"
                yield StepEvent(word, tuple(parts), (holder,), least)
            else:
                yield StepEvent("fused", tuple(parts), (holder,), least)

    def _is_fusion(self, name: str) -> bool:
        line = self._old.line(name)
        return line is not None and line.opcode == "fusion"

    def _single(self, single: Sequence[tuple[str, Fate]]) -> Iterator[StepEvent]:
        claimed = {target for _, fate in single for target in fate.targets}
        rest = {name for name in self._correspondence.fresh if self._stands_for_none(name) and name not in claimed}
        together: dict[str, list[tuple[str, Fate]]] = {}
        removed: dict[tuple[str, Certainty, str], list[str]] = {}
        for name, fate in single:
            if fate.targets:
                together.setdefault(fate.targets[0], []).append((name, fate))
            else:
                key = self._old.rows[name].line.opcode, fate.certainty, fate.why
                removed.setdefault(key, []).append(name)
        for target, parts in together.items():
            yield self._one(target, parts, rest)
        for (_, certainty, why), names in removed.items():
            yield StepEvent("removed", tuple(names), (), certainty, why)

    def _stands_for_none(self, name: str) -> bool:
        is_reported = name in self._reported or name in self._correspondence.sources
        return name in self._new.outside and not is_reported and self._new.rows[name].line.opcode != "parameter"

    def _beside(self, old: SnapshotInstruction, targets: Sequence[str], rest: set[str]) -> list[str]:
        """Returns the new instructions that the targets use and that match no old instruction; each is returned once."""
        additions: list[str] = []
        waiting = list(targets)
        while waiting:
            row = self._new.rows.get(waiting.pop())
            for operand in row.line.operands if row is not None else ():
                if operand in rest and self._is_for(old, self._new.rows[operand]):
                    rest.remove(operand)
                    additions.append(operand)
                    waiting.append(operand)
        return additions

    def _one(self, target: str, parts: Sequence[tuple[str, Fate]], rest: set[str]) -> StepEvent:
        """Describes the instructions that one target replaces, together with the instructions created for that target."""
        names = tuple(name for name, _ in parts)
        least = Certainty.least(fate.certainty for _, fate in parts)
        old = self._old.rows[names[0]]
        line = self._new.line(target)
        self._reported.add(target)
        same_opcode = line is not None and line.opcode == old.line.opcode
        if target not in self._fresh:
            if same_opcode:
                return StepEvent("merged", names, (target,), least)
            return StepEvent("removed", names, (), least, f"replaced by {target}")
        if len(names) > 1 and line is not None and {self._old.rows[n].line.opcode for n in names} == {line.opcode}:
            return StepEvent("merged", names, (target,), least)
        own = tuple(dict.fromkeys(t for _, fate in parts for t in fate.targets))
        targets = own if least is Certainty.EQUAL else (*own, *self._beside(old, own, rest))
        self._reported.update(targets)
        if len(targets) == 1 and least is Certainty.EQUAL:
            same_place = self._new.rows[target].computation == old.computation
            return StepEvent("renamed" if same_place else "moved", names, targets, least)
        return StepEvent(
            "split" if self._is_split(old, targets) else "rewrote", names, targets, least, self._how(old, targets)
        )

    def _is_for(self, old: SnapshotInstruction, made: SnapshotInstruction) -> bool:
        """Reports whether a new instruction may replace `old`: it does not have the `op_name` of another removed instruction."""
        return made.line.op_name == old.line.op_name or made.line.op_name not in self._gone_operations

    def _is_split(self, old: SnapshotInstruction, targets: Sequence[str]) -> bool:
        opcodes = [self._new.rows[t].line.opcode for t in targets if t in self._new.rows]
        whole = old.line.opcode.removesuffix("-start").removesuffix("-done")
        collectives = sum(opcode.removesuffix("-start") in COLLECTIVES for opcode in opcodes)
        return opcodes.count(old.line.opcode) > 1 or (whole in COLLECTIVES and collectives > 1)

    def _how(self, old: SnapshotInstruction, targets: Sequence[str]) -> str:
        opcodes = [self._new.rows[t].line.opcode for t in targets if t in self._new.rows]
        return f"{old.line.opcode} → {' + '.join(dict.fromkeys(opcodes))}" if opcodes else ""

    def _altered(self) -> Iterator[StepEvent]:
        changes: dict[str, list[str]] = {}
        moved = []
        for name, row in self._old.rows.items():
            new = self._new.rows.get(name)
            if name not in self._correspondence.survivors or new is None or new.number == row.number:
                continue
            if new.computation != row.computation and self._new.unit(name) == name:
                moved.append(name)
                continue
            change = change_of(row, new)
            if change:
                changes.setdefault(change, []).append(name)
            elif name not in self._inside:
                self.rewired += row.line.operands != new.line.operands
        if moved:
            yield StepEvent("moved", tuple(moved), tuple(moved), Certainty.ALTERED, "to another computation")
        inside = tuple(name for name in self._inside if name not in self._reported)
        if inside:
            yield StepEvent("rewrote", inside, inside, Certainty.ALTERED, "fused instructions")
        for change, names in changes.items():
            yield StepEvent("rewrote", tuple(names), tuple(names), Certainty.ALTERED, change)

    def _inserted(self) -> Iterator[StepEvent]:
        made: dict[str, list[str]] = {}
        for name in self._correspondence.fresh:
            if self._stands_for_none(name):
                made.setdefault(self._new.rows[name].line.opcode, []).append(name)
        for opcode, names in made.items():
            yield StepEvent("inserted", (), tuple(names), Certainty.KEPT, f"{len(names):,} {opcode}")


def change_of(old: SnapshotInstruction, new: SnapshotInstruction) -> str:
    """Describes how an instruction changed, apart from its operands; "" if nothing else changed."""
    a, b = old.line, new.line
    if a.opcode != b.opcode:
        return f"{a.opcode} → {b.opcode}"
    if a.array_shape != b.array_shape:
        return f"{a.array_shape} → {b.array_shape}"
    if a.shape != b.shape:
        return "layout"
    if a.literal != b.literal and a.opcode == "constant":
        return "value"
    if a.attributes == b.attributes:
        return ""
    if attributes_of(a.attributes) != attributes_of(b.attributes):
        return "attributes"
    was, now = _keys(a.attributes), _keys(b.attributes)
    named = sorted(was ^ now) or sorted(was & now)
    return ", ".join(named[:2]) if named and not set(named) <= _REFERENCES else ""


_REFERENCES = frozenset({"calls", "to_apply", "condition", "body", "branch_computations", "channel_id"})


def _keys(attributes: str) -> set[str]:
    """Returns the keys of the attributes that name or configure an instruction."""
    keys = (
        "calls",
        "to_apply",
        "backend_config",
        "frontend_attributes",
        "sharding",
        "channel_id",
        "control-predecessors",
    )
    return {key for key in keys if f"{key}=" in attributes}


def _out_of_order(names: Sequence[str], places: dict[str, int]) -> tuple[str, ...]:
    """Returns the names outside the longest subsequence that keeps its order."""
    common = [name for name in names if name in places]
    stays = {*longest_run([places[name] for name in common])}
    return tuple(name for index, name in enumerate(common) if index not in stays)


def some(names: Iterable[str]) -> str:
    """Lists the first few names and counts the others."""
    listed = list(names)
    shown = ", ".join(listed[:_SHOWN])
    return f"{shown} and {len(listed) - _SHOWN:,} more" if len(listed) > _SHOWN else shown


def _summary(word: Word, events: Sequence[StepEvent]) -> str:
    """Summarizes events of one kind, such as `fused 9 into 3` or `inserted 4 (3 copy, 1 bitcast)`."""
    if not events:
        return ""
    before, after = (len({name for names in side for name in names}) for side in _sides(events))
    if word in ("fused", "split", "merged"):
        return f"{word} {before:,} into {after:,}"
    if word == "inserted":
        kinds = sorted((e for e in events), key=lambda e: -len(e.after))
        listed = [e.note for e in kinds[:_SHOWN]]
        rest = sum(len(e.after) for e in kinds[_SHOWN:])
        return f"{word} {after:,} ({', '.join(listed + ([f'{rest:,} other'] if rest else []))})"
    if word == "rewrote":
        notes = collections.Counter({e.note: 0 for e in events})
        for event in events:
            notes[event.note] += len(event.before)
        common = [f"{count:,} {note}" for note, count in notes.most_common(3) if note]
        return f"{word} {before:,}" + (f" ({', '.join(common)})" if common else "")
    return f"{word} {before:,}"


def _sides(events: Iterable[StepEvent]) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    listed = list(events)
    return [e.before for e in listed], [e.after for e in listed]
