"""Differences between two matched instructions: opcode, shape, attributes, operands and called computations."""

from __future__ import annotations

import functools

from inspector.analysis.diff.altered_instructions import Aspect, altered, configured
from inspector.analysis.diff.matching import Matching

Aspects = tuple[Aspect, ...]


class Pairs:
    """The matched pairs of two modules. `x` is a row of the first module, `y` its match in the second."""

    def __init__(self, matching: Matching) -> None:
        """Stores a matching; pairs are compared on demand."""
        self._matching = matching
        self._names = tuple(flow.module.columns.names for flow in (matching.before, matching.after))
        self._own: dict[tuple[int, int], Aspects] = {}
        self._noted: dict[tuple[int, int], Aspects] = {}

    def aspects(self, x: int, y: int) -> Aspects:
        """Returns the differences, without consequences of other changes, such as a different parameter number."""
        m = self._matching
        own = self._own_aspects(x, y)
        if m.before.sources[x] != x or m.after.sources[y] != y:
            own = tuple(aspect for aspect in own if not _is_handed_on(aspect))
            return (*own, *self._order(x, y))
        if own and self._is_carried(x, y):
            own = tuple(aspect for aspect in own if not (aspect.is_of_shape or aspect.name == "tuple index"))
        return (*own, *self._operands(x, y), *self._calls(x, y), *self._order(x, y))

    def notes(self, x: int, y: int) -> Aspects:
        """Returns the differences in backend config and frontend attributes; cached by label."""
        m = self._matching
        key = m.labels_before.notes[x], m.labels_after.notes[y]
        if key[0] == key[1]:
            return ()
        if key not in self._noted:
            self._noted[key] = configured(m.before.module.at(x), m.after.module.at(y))
        return self._noted[key]

    def is_same_value(self, o: int, p: int) -> bool:
        """Reports whether two values are matched, computed in the same way, or reported themselves as new, gone or moved."""
        m = self._matching
        here, there = m.to_after[o], m.to_before[p]
        if here == p or here < 0 or there < 0:
            return True
        if m.after.regions[here] != m.after.regions[p] or m.before.regions[there] != m.before.regions[o]:
            return True
        return m.values_after[here] == m.values_after[p] or m.values_before[there] == m.values_before[o]

    def other_calls(self, x: int, y: int) -> list[tuple[int, int]]:
        """Returns the pairs of called regions that differ."""
        m = self._matching
        ours, theirs = m.before.calls.get(x, ()), m.after.calls.get(y, ())
        return [
            (a, b)
            for a, b in zip(ours, theirs, strict=False)
            if m.regions.get(a) != b and m.bodies_before.get(a) != m.bodies_after.get(b)
        ]

    def _own_aspects(self, x: int, y: int) -> Aspects:
        """Returns the differences in opcode, shape and attributes; cached by label."""
        m = self._matching
        key = m.labels_before.exact[x], m.labels_after.exact[y]
        if key[0] == key[1]:
            return ()
        if key not in self._own:
            self._own[key] = altered(m.before.module.at(x), m.after.module.at(y))
        return self._own[key]

    def _is_carried(self, x: int, y: int) -> bool:
        """Reports whether they are the initial values of a loop or parts of its body tuple, whose changes the loop reports."""
        m = self._matching
        opcode, region = m.before.opcodes[x], m.before.regions[x]
        if opcode == "get-tuple-element":
            tuples = m.before.taken(x)[0], m.after.taken(y)[0]
            return any(aspect.name == "elements" for aspect in self._own_aspects(*tuples))
        if opcode == "parameter" or x == m.before.roots[region]:
            callers = self._callers.get(region, [])
        else:  # the initial values of a loop
            callers = [user for user, _ in m.before.users[x] if opcode == "tuple" and m.before.opcodes[user] == "while"]
        callers = [row for row in callers if m.to_after[row] >= 0]
        return any(aspect.is_of_shape for row in callers for aspect in self._own_aspects(row, m.to_after[row]))

    @functools.cached_property
    def _callers(self) -> dict[int, list[int]]:
        callers: dict[int, list[int]] = {}
        for row, numbers in self._matching.before.calls.items():
            for number in numbers:
                callers.setdefault(number, []).append(row)
        return callers

    def _operands(self, x: int, y: int) -> Aspects:
        """Returns the operands that differ although both modules have the old and the new operand."""
        m = self._matching
        ours, theirs = m.before.operands[x], m.after.operands[y]
        if len(ours) != len(theirs):  # the shape of a tuple shows this already
            return () if m.before.opcodes[x] == "tuple" else (Aspect("operands", str(len(ours)), str(len(theirs))),)
        other = [n for n, (o, p) in enumerate(zip(ours, theirs, strict=True)) if not self.is_same_value(o, p)]
        before, after = [self._names[0][ours[n]] for n in other], [self._names[1][theirs[n]] for n in other]
        if any(one == another for one, another in zip(before, after, strict=True)):
            after = [self._names[0][m.to_before[theirs[n]]] for n in other]  # different instructions with equal names
        if len(other) == 2 and [m.to_after[ours[n]] for n in other] == [theirs[n] for n in reversed(other)]:
            return (Aspect("operands", ", ".join(before), ", ".join(after)),)
        return tuple(Aspect(f"operand {n}", *names) for n, *names in zip(other, before, after, strict=True))

    def _calls(self, x: int, y: int) -> Aspects:
        m = self._matching
        names, names_after = (flow.module.columns.computation_names for flow in (m.before, m.after))
        aspects = tuple(
            Aspect("called computation", names[a], distinct(names[a], names_after[b]))
            for a, b in self.other_calls(x, y)
        )
        ours, theirs = (len(flow.calls.get(row, ())) for flow, row in ((m.before, x), (m.after, y)))
        return aspects if ours == theirs else (*aspects, Aspect("called computations", str(ours), str(theirs)))

    def _order(self, x: int, y: int) -> Aspects:
        """Returns the differences in control predecessors."""
        m = self._matching
        ours, theirs = (flow.module.columns.predecessors.of(row) for flow, row in ((m.before, x), (m.after, y)))
        if not ours and not theirs:
            return ()
        gone = [self._names[0][row] for row in ours if m.to_after[row] >= 0 and m.to_after[row] not in theirs]
        new = [self._names[1][row] for row in theirs if m.to_before[row] >= 0 and m.to_before[row] not in ours]
        before, after = ", ".join(gone), ", ".join(new)
        return (Aspect("runs after", before, distinct(before, after)),) if gone or new else ()


def distinct(before: str, after: str) -> str:
    """Returns the name of an object in the second module, marked if a different object has this name in the first."""
    return f"{after} (a different one)" if before == after else after


def _is_handed_on(aspect: Aspect) -> bool:
    """Reports whether a difference concerns only the passed-on value or its position."""
    return aspect.is_of_shape or aspect.name in ("tuple index", "parameter number")
