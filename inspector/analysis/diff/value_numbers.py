"""Value numbering of a module from both ends: what each node computes, and how its result is used."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Sequence

from inspector.analysis.diff.dataflow import Dataflow
from inspector.analysis.diff.instruction_labels import Labels

UNMATCHED = -1

_OPCODE = 3


class ValueNumbers:
    """The value numbers of one of two modules that are matched.

    Attributes:
      partners: for each row the matched row of the other side, -1 for none.
      shared: for each matched row an identifier that both sides share: the row in the first module.
      values: number of each node, equal for nodes that compute the same from the same values; parameters are identified
        by their numbers.
      uses: number of each node, equal for nodes that are used in the same way up to the result of the region.
      bodies: number of each region, equal for regions that compute the same.
    """

    def __init__(self, flow: Dataflow, labels: Labels, *, is_second: bool) -> None:
        """Numbers all values, without matches."""
        self.flow, self.labels = flow, labels
        self.partners = [UNMATCHED] * len(flow.sources)
        self.shared: Sequence[int] = self.partners if is_second else range(len(self.partners))
        self.values = [0] * len(flow.sources)
        self.uses = [0] * len(flow.sources)
        self.bodies: dict[int, int] = {}
        for region in _callees_first(flow):
            self._hash(region)

    def _hash(self, region: int) -> None:
        flow, values, uses, exact = self.flow, self.values, self.uses, self.labels.exact
        opcodes = self.labels.levels[_OPCODE]
        nodes, root = flow.nodes[region], flow.roots[region]
        for row in nodes:
            called = tuple([self.bodies.get(number, 0) for number in flow.calls.get(row, ())])
            values[row] = hash((exact[row], called, *[values[operand] for operand in flow.operands[row]]))
        for row in reversed(nodes):
            ends = [(opcodes[user], place, uses[user]) for user, place in flow.users[row]]
            ends.sort()
            uses[row] = hash((row == root, *ends))
        last = sorted([values[row] for row in nodes if not flow.users[row]])
        self.bodies[region] = hash((values[root], *last))

    def free(self, rows: Iterable[int]) -> list[int]:
        """Returns the rows without a match."""
        return [row for row in rows if self.partners[row] < 0]


def _callees_first(flow: Dataflow) -> list[int]:
    order: dict[int, None] = {}
    calling: dict[int, list[int]] = collections.defaultdict(list)
    for row, numbers in flow.calls.items():
        calling[flow.regions[row]].extend(numbers)
    for start in flow.nodes:
        waiting = [start]
        while waiting:
            region = waiting[-1]
            needed = [number for number in calling[region] if number not in order and number in flow.nodes]
            if needed and region not in order:
                waiting += needed
            else:
                order.setdefault(waiting.pop())
    return list(order)
