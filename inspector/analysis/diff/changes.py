"""`changes`: the differences between two matched modules, each reported once and by kind.

A change is reported where it occurs; its consequences are not. Examples of consequences: users that take a new
instruction, the additional parameter of a fusion that grew, the new tuple that a loop passes to its body.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from inspector.analysis.diff.altered_instructions import Aspect, module_aspects, respelled, respelled_modules
from inspector.analysis.diff.dataflow import Dataflow
from inspector.analysis.diff.matched_pairs import Pairs, distinct
from inspector.analysis.diff.matching import Matching
from inspector.analysis.diff.regrouped_fusions import Regrouped, regrouped
from inspector.analysis.diff.unmatched_instructions import Alone, ModuleSide
from inspector.hlo.devices.canonical_forms import spelled_rows
from inspector.hlo.module import Instruction

Kind = Literal[
    "split", "merged", "regrouped", "grown", "shrunk", "formed", "dissolved", "appeared", "gone", "rewritten",
    "altered", "moved", "duplicated", "deduplicated", "configured", "respelled",
]  # fmt: skip

KINDS: Mapping[Kind, str] = {
    "split": "a fusion or call was split into several",
    "merged": "several fusions or calls were merged into one",
    "regrouped": "instructions moved from one fusion or call to another",
    "grown": "instructions moved into a fusion or call",
    "shrunk": "instructions moved out of a fusion or call",
    "formed": "separate instructions were joined into a new fusion or call",
    "dissolved": "a fusion or call was broken up into separate instructions",
    "appeared": "only the second module has it",
    "gone": "only the first module has it",
    "rewritten": "replaced by another operation",
    "altered": "the same operation with another shape, attribute, operand or called computation",
    "moved": "the same operation in another computation",
    "duplicated": "an additional copy of a computation that both modules have",
    "deduplicated": "one copy fewer of a computation that both modules have",
    "configured": "only the frontend attributes or the backend config differ",
}
"""Kinds of changes with their meanings, the most informative first."""


_MOST_COUNTS = 6  # more counts are shown as their sum


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """One difference.

    Attributes:
      kind: one of `KINDS`.
      before, after: the affected instructions of either module, the most informative first; () for none.
      aspects: the properties that differ, where applicable.
      held: numbers of further instructions of either module that appeared or disappeared with them, such as those of a
        fusion or a loop's body.
      words: further details, or "".
    """

    kind: Kind
    before: tuple[Instruction, ...]
    after: tuple[Instruction, ...]
    aspects: tuple[Aspect, ...] = ()
    held: tuple[int, int] = (0, 0)
    words: str = ""

    @property
    def opcode(self) -> str:
        """Returns the opcode of the affected instruction; "" for the module itself."""
        instructions = self.before or self.after
        return instructions[0].opcode if instructions else ""

    @property
    def what(self) -> str:
        """Describes the difference in words; "" if there is nothing to add to the kind."""
        extra = [f"with {count:,} more" for count in self.held if count]
        return "; ".join(filter(None, [*map(str, self.aspects), self.words, *extra]))

    @property
    def respects(self) -> str:
        """Lists the names of the properties that differ, such as "layout, dimensions"."""
        return ", ".join(dict.fromkeys(aspect.name for aspect in self.aspects))

    @property
    def count(self) -> int:
        """Returns the number of affected instructions in both modules."""
        return len(self.before) + len(self.after) + sum(self.held)


def changes(matching: Matching) -> tuple[Change, ...]:
    """Returns the differences between two modules, by kind and in the second module's order; empty for the same program."""
    differences = [*_of_modules(matching), *_Changes(matching).all()]
    order = {kind: number for number, kind in enumerate(KINDS)}
    return tuple(sorted(differences, key=lambda change: order[change.kind]))


def respellings(matching: Matching) -> tuple[Change, ...]:
    """Returns matched instructions whose replica groups, source-target pairs or shardings are written differently and mean the same.

    These are not changes: their kind, "respelled", is not among `KINDS`.
    """
    before, after = matching.before.module, matching.after.module
    differences = []
    if of_module := respelled_modules(before, after):
        differences.append(Change("respelled", (), (), of_module))
    for x in spelled_rows(before):
        ours = before.at(x)
        theirs = after.at(matching.to_after[x]) if matching.to_after[x] >= 0 else None
        if theirs is not None and (aspects := respelled(ours, theirs)):
            differences.append(Change("respelled", (ours,), (theirs,), aspects))
    return tuple(differences)


def _of_modules(matching: Matching) -> Iterator[Change]:
    aspects = module_aspects(matching.before.module, matching.after.module)
    if aspects:
        yield Change("altered", (), (), aspects)


class _Changes:
    """Collects the changes between two modules, each once."""

    def __init__(self, matching: Matching) -> None:
        self._matching = matching
        self._pairs = Pairs(matching)
        self._before, self._after = (ModuleSide(matching, is_after=is_after) for is_after in (False, True))

    def all(self) -> Iterator[Change]:
        """Yields every change once; changes that explain others come before these."""
        m = self._matching
        yield from map(self._of_groups, regrouped(m))
        yield from filter(None, [self._of_pair(x, y) for x, y in enumerate(m.to_after) if y >= 0])
        yield from self._results()
        yield from self._asynchronous()
        sides = self._before, self._after
        for side in sides:
            yield from [self._of_one(side, each) for each in side.alone()]
        for side, touched in zip(sides, self._touched(), strict=True):
            yield from [self._of_one(side, each) for each in side.plumbing_alone(touched)]

    def _change(self, kind: Kind, before: Iterable[int], after: Iterable[int], **details: Any) -> Change:
        """Makes a change of some rows and marks these as reported."""
        ours, theirs = tuple(before), tuple(after)
        self._before.reported.update(ours)
        self._after.reported.update(theirs)
        a, b = self._matching.before.module, self._matching.after.module
        return Change(kind, tuple(map(a.at, ours)), tuple(map(b.at, theirs)), **details)

    def _of_groups(self, regrouped: Regrouped) -> Change:
        extra = 0, 0
        if regrouped.how in ("appeared", "gone"):
            extra = (
                sum(map(self._before.take_group, regrouped.before)),
                sum(map(self._after.take_group, regrouped.after)),
            )
        return self._change(regrouped.how, regrouped.before, regrouped.after, held=extra, words=_group_words(regrouped))

    def _of_pair(self, x: int, y: int) -> Change | None:
        m = self._matching
        aspects = self._pairs.aspects(x, y)
        is_moved = m.before.sources[x] == x and m.regions.get(m.before.regions[x]) != m.after.regions[y]
        if not aspects and not is_moved:
            is_reported = x in self._before.reported or y in self._after.reported
            notes = () if is_reported else self._pairs.notes(x, y)
            return self._change("configured", (x,), (y,), aspects=notes) if notes else None
        for a, b in self._pairs.other_calls(x, y):
            self._before.take(a)
            self._after.take(b)
        if is_moved:
            names = _region_name(m.before, x), _region_name(m.after, y)
            where = Aspect("computation", names[0], distinct(*names))
            return self._change("moved", (x,), (y,), aspects=(where, *aspects))
        is_other = any(aspect.name == "opcode" for aspect in aspects)
        return self._change("rewritten" if is_other else "altered", (x,), (y,), aspects=aspects)

    def _results(self) -> Iterator[Change]:
        """Yields computations that return a different value, one that was computed before too."""
        m = self._matching
        for region, other in m.regions.items():
            x, y = m.before.roots[region], m.after.roots[other]
            if not self._pairs.is_same_value(x, y):
                names = m.before.module.columns.names[x], m.after.module.columns.names[y]
                aspect = Aspect("result", names[0], distinct(*names))
                yield self._change("altered", (x,), (y,), aspects=(aspect,))

    def _asynchronous(self) -> Iterator[Change]:
        """Yields operations that became asynchronous (a start and a done instruction) or synchronous."""
        m = self._matching
        for x, started in _started(m.before, m.to_after, m.after, m.to_before):
            yield self._change("rewritten", (x,), started, words="became asynchronous")
        for y, started in _started(m.after, m.to_before, m.before, m.to_after):
            yield self._change("rewritten", started, (y,), words="became synchronous")

    def _of_one(self, side: ModuleSide, node: Alone) -> Change:
        kinds: tuple[Kind, Kind] = ("appeared", "duplicated") if side.is_after else ("gone", "deduplicated")
        words = "" if node.twin is None else f"computes the same as {side.flow.module.columns.names[node.twin]}"
        if side.is_after:
            return self._change(kinds[node.twin is not None], (), (node.row,), held=(0, node.extra_count), words=words)
        return self._change(kinds[node.twin is not None], (node.row,), (), held=(node.extra_count, 0), words=words)

    def _touched(self) -> tuple[set[int], set[int]]:
        """Returns the fusions and calls of either side that have a reported change inside, or whose match has one."""
        m = self._matching
        ours, theirs = (
            {side.flow.groups[row] for row in side.reported if side.flow.groups[row] >= 0}
            for side in (self._before, self._after)
        )
        return ours | {m.to_before[group] for group in theirs}, theirs | {m.to_after[group] for group in ours}


def _group_words(regrouped: Regrouped) -> str:
    counts = " + ".join(f"{count:,}" for count in regrouped.counts)
    if len(regrouped.counts) > _MOST_COUNTS:
        counts = f"{sum(regrouped.counts):,}"
    return f"{counts} instruction{'s' if regrouped.counts != (1,) else ''}" if counts else ""


def _region_name(flow: Dataflow, row: int) -> str:
    return str(flow.module.columns.computation_names[flow.regions[row]])


def _started(
    flow: Dataflow, partners: list[int], other: Dataflow, other_partners: list[int]
) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yields the synchronous operations of a flow with the start and done instructions that replace them in the other."""
    waiting: dict[tuple[str, tuple[int, ...]], int] = {}
    for rows in flow.nodes.values():
        for row in rows:
            if partners[row] < 0:
                waiting[flow.opcodes[row], tuple(partners[o] for o in flow.operands[row])] = row
    for rows in other.nodes.values() if waiting else ():
        for row in rows:
            opcode = other.opcodes[row]
            if other_partners[row] < 0 and opcode.endswith("-start"):
                match = waiting.pop((opcode.removesuffix("-start"), other.operands[row]), None)
                if match is not None:
                    done = (user for user, _ in other.users[row] if other.opcodes[user].endswith("-done"))
                    yield match, (row, *(user for user in done if other_partners[user] < 0))
