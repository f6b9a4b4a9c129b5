"""What only one of two matched modules has."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator

from inspector.analysis.diff.dataflow import Dataflow
from inspector.analysis.diff.matching import Matching


@dataclasses.dataclass(frozen=True, slots=True)
class Alone:
    """An instruction that only one module has.

    Attributes:
      row: of that module.
      held: how many more go with it, such as those of a loop's body.
      twin: the matched row that computes the same; None where nothing does.
    """

    row: int
    held: int
    twin: int | None


class ModuleSide:
    """One of two modules, and what is told of it.

    Attributes:
      is_after: whether it is the second.
      flow, partners, values, bodies: as in `Matching`.
      regions: those that are matched.
      told: the rows that a change is about, or that go with one.
    """

    def __init__(self, matching: Matching, *, is_after: bool) -> None:
        """Tells nothing yet."""
        m = matching
        self.is_after = is_after
        self.flow, self.partners, self.values, self.bodies = (
            (m.after, m.to_before, m.values_after, m.bodies_after)
            if is_after
            else (m.before, m.to_after, m.values_before, m.bodies_before)
        )
        self.regions = {*(m.regions.values() if is_after else m.regions)}
        self._other = m.before if is_after else m.after
        self._other_bodies = {*(m.bodies_before if is_after else m.bodies_after).values()}
        self.told: set[int] = set()

    @functools.cached_property
    def _known(self) -> dict[tuple[int, int], int]:
        """What is matched, by region and value."""
        flow, partners = self.flow, self.partners
        rows = (row for nodes in flow.nodes.values() for row in nodes if partners[row] >= 0)
        return {(flow.regions[row], self.values[row]): row for row in rows}

    def take(self, region: int) -> int:
        """Tells all that only this side has in a region and in those that it calls; how many that is."""
        waiting, seen, count = [region], {region}, len(self.told)
        while waiting:
            for row in self.rows_of(waiting.pop()):
                if self.partners[row] < 0:
                    self.told.add(row)
                new = {*self.flow.calls.get(row, ())} - seen
                seen |= new
                waiting += new
        return len(self.told) - count

    def take_group(self, group: int) -> int:
        """The same of a fusion or call."""
        count = len(self.told)
        self.told.update(row for row in self.rows_of(self.flow.opened[group]) if self.partners[row] < 0)
        return len(self.told) - count

    def rows_of(self, computation: int) -> Iterator[int]:
        """The rows of a computation with those of all fusions in it."""
        waiting = [computation]
        while waiting:
            for row in self.flow.module.computations[waiting.pop()].rows:
                yield row
                if row in self.flow.opened:
                    waiting.append(self.flow.opened[row])

    def alone(self) -> Iterator[Alone]:
        """The nodes that only this side has; what is in a region that only it has goes with what calls it."""
        flow, told = self.flow, self.told
        for region in flow.nodes:
            if region not in self.regions and self.bodies[region] in self._other_bodies:
                told.update(self.rows_of(region))  # one more copy of what the other side has too
        # The entry computation first, so that what a loop's body has goes with the loop.
        for row in [row for region in reversed(flow.nodes) for row in flow.nodes[region]]:
            if self.partners[row] < 0 and row not in told:
                told.add(row)
                if self._is_of_other_tuple(row):
                    continue
                held = sum(self.take(region) for region in flow.calls.get(row, ()) if region not in self.regions)
                yield Alone(row, held, self._known.get((flow.regions[row], self.values[row])))

    def _is_of_other_tuple(self, row: int) -> bool:
        """Whether it takes an element of a tuple that has more of them here, or fewer, which is told of that."""
        if self.flow.opcodes[row] != "get-tuple-element":
            return False
        made = self.flow.operands[row][0]
        other = self.partners[made]
        return other >= 0 and self._elements(self.flow, made) != self._elements(self._other, other)

    @staticmethod
    def _elements(flow: Dataflow, row: int) -> int:
        return len(flow.module.at(row).shape.tuple_shapes)

    def plumbing_alone(self, touched: set[int]) -> Iterator[Alone]:
        """What only hands on values, where nothing that is told explains it.

        Args:
          touched: fusions and calls in which something is told.
        """
        flow = self.flow
        nodes = {row for rows in flow.nodes.values() for row in rows}
        rest = {row for row, other in enumerate(self.partners) if other < 0} - nodes - self.told
        following = _following(flow, rest, self.told, touched)
        for row in sorted(rest - following):
            self.told.add(row)
            yield Alone(row, 0, None)


def _following(flow: Dataflow, rest: set[int], told: set[int], touched: set[int]) -> set[int]:
    """Of what hands on values that which touches something that is told, or stands in a fusion where something is."""
    users, found = flow.module.columns.users, set[int]()
    new = {row for row in rest if flow.groups[row] in touched}
    known = told | new
    while True:
        found |= new
        new = {
            row
            for row in rest - found
            if not known.isdisjoint((*flow.taken(row), *users.of(row), flow.groups[row], flow.sources[row]))
        }
        if not new:
            return found
        known |= new
