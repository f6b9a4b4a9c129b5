"""Instructions that only one of two matched modules has."""

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
      row: its row in that module.
      extra_count: number of further instructions that belong to it, such as those of a loop's body.
      twin: the matched row that computes the same; None if there is none.
    """

    row: int
    extra_count: int
    twin: int | None


class ModuleSide:
    """One of two modules, with the instructions that are already reported.

    Attributes:
      is_after: whether it is the second module.
      flow, partners, values, bodies: as in `Matching`.
      regions: the matched regions.
      reported: rows that a reported change includes.
    """

    def __init__(self, matching: Matching, *, is_after: bool) -> None:
        """Starts without reported rows."""
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
        self.reported: set[int] = set()

    @functools.cached_property
    def _known(self) -> dict[tuple[int, int], int]:
        """Maps regions and values to matched rows."""
        flow, partners = self.flow, self.partners
        rows = (row for nodes in flow.nodes.values() for row in nodes if partners[row] >= 0)
        return {(flow.regions[row], self.values[row]): row for row in rows}

    def take(self, region: int) -> int:
        """Marks the unmatched rows of a region and of the regions that it calls as reported. Returns their number."""
        waiting, seen, count = [region], {region}, len(self.reported)
        while waiting:
            for row in self.rows_of(waiting.pop()):
                if self.partners[row] < 0:
                    self.reported.add(row)
                new = {*self.flow.calls.get(row, ())} - seen
                seen |= new
                waiting += new
        return len(self.reported) - count

    def take_group(self, group: int) -> int:
        """Marks the unmatched rows of a fusion or call as reported. Returns their number."""
        count = len(self.reported)
        self.reported.update(row for row in self.rows_of(self.flow.opened[group]) if self.partners[row] < 0)
        return len(self.reported) - count

    def rows_of(self, computation: int) -> Iterator[int]:
        """Yields the rows of a computation and of all fusions in it."""
        waiting = [computation]
        while waiting:
            for row in self.flow.module.computations[waiting.pop()].rows:
                yield row
                if row in self.flow.opened:
                    waiting.append(self.flow.opened[row])

    def alone(self) -> Iterator[Alone]:
        """Yields the nodes that only this side has; nodes of an unmatched region are counted with its caller."""
        flow, reported = self.flow, self.reported
        for region in flow.nodes:
            if region not in self.regions and self.bodies[region] in self._other_bodies:
                reported.update(self.rows_of(region))  # an additional copy of a region that the other side has too
        # The entry computation comes first, so that the instructions of a loop's body are counted with the loop.
        for row in [row for region in reversed(flow.nodes) for row in flow.nodes[region]]:
            if self.partners[row] < 0 and row not in reported:
                reported.add(row)
                if self._is_of_other_tuple(row):
                    continue
                extra_count = sum(self.take(region) for region in flow.calls.get(row, ()) if region not in self.regions)
                yield Alone(row, extra_count, self._known.get((flow.regions[row], self.values[row])))

    def _is_of_other_tuple(self, row: int) -> bool:
        """Reports whether a row extracts an element of a tuple whose number of elements changed; the tuple reports that."""
        if self.flow.opcodes[row] != "get-tuple-element":
            return False
        made = self.flow.operands[row][0]
        other = self.partners[made]
        return other >= 0 and self._elements(self.flow, made) != self._elements(self._other, other)

    @staticmethod
    def _elements(flow: Dataflow, row: int) -> int:
        return len(flow.module.at(row).shape.tuple_shapes)

    def plumbing_alone(self, touched: set[int]) -> Iterator[Alone]:
        """Yields unmatched plumbing that no reported change explains.

        Args:
          touched: fusions and calls with a reported change inside.
        """
        flow = self.flow
        nodes = {row for rows in flow.nodes.values() for row in rows}
        rest = {row for row, other in enumerate(self.partners) if other < 0} - nodes - self.reported
        following = _following(flow, rest, self.reported, touched)
        for row in sorted(rest - following):
            self.reported.add(row)
            yield Alone(row, 0, None)


def _following(flow: Dataflow, rest: set[int], reported: set[int], touched: set[int]) -> set[int]:
    """Returns the plumbing that is connected to a reported row or is in a fusion or call with a reported change."""
    users, connected = flow.module.columns.users, set[int]()
    new = {row for row in rest if flow.groups[row] in touched}
    known = reported | new
    while True:
        connected |= new
        new = {
            row
            for row in rest - connected
            if not known.isdisjoint((*flow.taken(row), *users.of(row), flow.groups[row], flow.sources[row]))
        }
        if not new:
            return connected
        known |= new
