"""`match`: matches the instructions of two modules by what they compute and how the result is used.

Names, order and fusion are ignored. Values are matched from both ends: values computed in the same way from the same
parameters, and values used in the same way for the same result. From these anchors, users and operands of matched values
at the same positions are matched too, first if their labels are exactly equal, then with progressively weaker labels
(`analysis/diff/instruction_labels.py`). Computations are matched by the instructions that call them.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias, TypeVar

from inspector.analysis.diff.dataflow import Dataflow
from inspector.analysis.diff.instruction_labels import Labels, labels
from inspector.analysis.diff.passthrough_matching import match_plumbing
from inspector.analysis.diff.tuple_elements import count, element_pairs
from inspector.analysis.diff.value_numbers import ValueNumbers
from inspector.hlo.module import Module

Rows: TypeAlias = Sequence[int]

T = TypeVar("T")

_EXACT = 0
_MOST_ALIKE = 64  # candidates that are compared

# Opcodes that occur in many places and are weak evidence for a match.
_COMMON = frozenset({
    "bitcast", "broadcast", "constant", "convert", "copy", "get-tuple-element", "iota", "parameter", "reshape",
    "transpose", "tuple",
})  # fmt: skip


@dataclasses.dataclass(frozen=True, eq=False)
class Matching:
    """The matched rows and regions of two modules.

    Attributes:
      before, after: the modules.
      labels_before, labels_after: the labels of their instructions.
      to_after: for each row of `before` the matched row of `after`, -1 for none.
      to_before: the inverse.
      regions: maps matched regions of `before` to those of `after`, by number; see `Dataflow`.
      values_before, values_after: value number of each node, equal for nodes that compute the same from the same values.
      bodies_before, bodies_after: number of each region, equal for regions that compute the same.
    """

    before: Dataflow
    after: Dataflow
    labels_before: Labels
    labels_after: Labels
    to_after: list[int]
    to_before: list[int]
    regions: Mapping[int, int]
    values_before: list[int]
    values_after: list[int]
    bodies_before: Mapping[int, int]
    bodies_after: Mapping[int, int]


def match(before: Module, after: Module) -> Matching:
    """Matches two modules; swapping the modules gives the same pairs.

    Raises:
      ModuleError: a module is damaged.
    """
    is_turned = after.columns.data < before.columns.data  # equal candidates are tried in order
    first, second = (after, before) if is_turned else (before, after)
    ours, theirs = labels(first, second)
    sides = ValueNumbers(Dataflow(first), ours, is_second=False), ValueNumbers(Dataflow(second), theirs, is_second=True)
    matcher = _Matcher(*sides)
    matcher.run()
    a, b = sides[::-1] if is_turned else sides
    regions = {b: a for a, b in matcher.regions.items()} if is_turned else matcher.regions
    return Matching(
        a.flow, b.flow, a.labels, b.labels, a.partners, b.partners, regions, a.values, b.values, a.bodies, b.bodies
    )


class _Matcher:
    """The state of matching two sides."""

    def __init__(self, a: ValueNumbers, b: ValueNumbers) -> None:
        self.a, self.b = a, b
        self.regions: dict[int, int] = {}
        self._taken: set[int] = set()  # regions of `b`
        self._level = _EXACT
        self._elements: list[tuple[int, int]] = []  # elements of matched loops
        self._new: list[tuple[int, int]] = []  # pairs whose operands must still be matched
        self._seen: collections.deque[tuple[int, int]] = collections.deque()  # pairs whose users must still be matched
        self._same: collections.deque[tuple[int, int]] = collections.deque()  # regions that compute the same
        self._unlike: collections.deque[tuple[int, int]] = collections.deque()

    def run(self) -> None:
        """Matches regions, starting from the entry computation, then instructions that moved to another region."""
        a, b = self.a, self.b
        entry = a.flow.module.entry.number, b.flow.module.entry.number
        self._unlike.append(entry)
        while self._same or self._unlike:
            pair = self._same.popleft() if self._same else self._unlike.popleft()
            if pair[0] not in self.regions and pair[1] not in self._taken:
                self.regions[pair[0]] = pair[1]
                self._taken.add(pair[1])
                self._match_regions(*pair)
            if not self._same and not self._unlike:
                self._same.extend(self._left())
        self._match_moved()
        match_plumbing(self.a.flow, self.b.flow, self.a.partners, self.b.partners)

    def _left(self) -> list[tuple[int, int]]:
        """Returns unmatched regions that compute the same."""
        ours = [region for region in self.a.flow.nodes if region not in self.regions]
        theirs = {self.b.bodies[region]: region for region in self.b.flow.nodes if region not in self._taken}
        return [(region, theirs[self.a.bodies[region]]) for region in ours if self.a.bodies[region] in theirs]

    def pair(self, x: int, y: int) -> None:
        """Records a match between two unmatched nodes."""
        a, b = self.a, self.b
        a.partners[x], b.partners[y] = y, x
        self._new.append((x, y))
        if a.flow.opcodes[x] == b.flow.opcodes[y] == "while" and count(a, x) != count(b, y):
            self._elements.extend(element_pairs(a, x, b, y))
        for region, other in zip(a.flow.calls.get(x, ()), b.flow.calls.get(y, ()), strict=False):
            is_same = a.bodies.get(region) == b.bodies.get(other)
            (self._same if is_same else self._unlike).append((region, other))

    def _match_regions(self, region: int, other: int) -> None:
        a, b = self.a, self.b
        ours, theirs = a.flow.nodes[region], b.flow.nodes[other]
        self._level = _EXACT
        self._match_parameters(ours, theirs)
        self._match_elements(region)
        roots = a.flow.roots[region], b.flow.roots[other]
        for level in range(len(a.labels.levels)):
            self._level = level
            x, y = roots
            if self._is_open(x, y) and self._is_alike(x, y):
                self.pair(x, y)
            ours, theirs = a.free(ours), b.free(theirs)
            if not ours or not theirs:
                break
            self._match_anchors(ours, theirs)
            self._follow()
            self._match_neighbors(ours, theirs)
            if level == _EXACT:
                self._match_rest(ours, theirs)
        self._match_origins(a.free(ours), b.free(theirs))
        self._match_rewritten(a.free(ours), b.free(theirs))
        self._match_labels(a.flow.nodes[region], b.flow.nodes[other])

    def _match_parameters(self, ours: Rows, theirs: Rows) -> None:
        """Matches parameters by number; if the numbers mean different parameters, first by JAX's paths of the arguments."""
        mine, its = _parameters(self.a.flow, ours), _parameters(self.b.flow, theirs)
        of_a, of_b = self._level_labels
        if {n: of_a[x] for n, x in mine.items()} != {n: of_b[y] for n, y in its.items()}:
            paths, others = (
                {row: flow.module.at(row).op_name for row in rows.values()}
                for flow, rows in ((self.a.flow, mine), (self.b.flow, its))
            )
            named = [x for x, path in paths.items() if path]
            for x, y in _alone(named, others, paths.__getitem__, others.__getitem__):
                self.pair(x, y)
        for number in mine.keys() & its.keys():
            if self._is_open(mine[number], its[number]):
                self.pair(mine[number], its[number])

    def _match_elements(self, region: int) -> None:
        """Matches instructions that extract the same elements of a loop's tuple, at any position in the tuple."""
        for x, y in self._elements:
            if self.a.flow.regions[x] == region and self._is_open(x, y):
                self.pair(x, y)

    def _match_anchors(self, ours: Rows, theirs: Rows) -> None:
        """Matches unique nodes: by what they compute, by how they are used, by both."""
        a, b = self.a, self.b
        is_exact = self._level == _EXACT
        values = a.values if is_exact else self._values(a, ours)
        others = b.values if is_exact else self._values(b, theirs)
        of_a, of_b = a.labels.levels[self._level], b.labels.levels[self._level]
        self._match_unique(ours, theirs, values.__getitem__, others.__getitem__)
        self._match_unique(ours, theirs, lambda x: (of_a[x], a.uses[x]), lambda y: (of_b[y], b.uses[y]))
        self._match_unique(ours, theirs, lambda x: (values[x], a.uses[x]), lambda y: (others[y], b.uses[y]))

    def _values(self, side: ValueNumbers, rows: Rows) -> dict[int, int]:
        """Maps nodes to what they compute from matched values, with the labels of the current level."""
        values: dict[int, int] = {}
        numbers, partners, shared = side.labels.levels[self._level], side.partners, side.shared

        def value(row: int) -> Hashable:
            known = values.get(row)
            if known is None:
                known = ~shared[row] if partners[row] >= 0 else 0
            return known

        for row in rows:
            values[row] = hash((numbers[row], *map(value, side.flow.operands[row])))
        return values

    def _match_unique(
        self,
        ours: Rows,
        theirs: Rows,
        key: Callable[[int], Hashable],
        other_key: Callable[[int], Hashable],
        *,
        is_moved: bool = False,
    ) -> int:
        """Matches nodes whose keys are unique on both sides. Returns the number of new pairs."""
        count = 0
        for x, y in _alone(self.a.free(ours), self.b.free(theirs), key, other_key):
            if self._is_alike(x, y) and not (is_moved and self._is_near(x, y)):
                self.pair(x, y)
                count += 1
        return count

    def _follow(self) -> None:
        """Extends new matches to their operands as far as possible, then to their users."""
        while self._new or self._seen:
            if self._new:
                x, y = self._new.pop()
                self._seen.append((x, y))
                self._match_operands(x, y)
            else:
                self._match_users(*self._seen.popleft())

    def _match_operands(self, x: int, y: int) -> None:
        ours, theirs = self.a.flow.operands[x], self.b.flow.operands[y]
        if len(ours) == len(theirs):
            for o, p in zip(ours, theirs, strict=True):
                if self._is_open(o, p) and self._is_alike(o, p):
                    self.pair(o, p)
        else:  # for example a tuple with an additional element
            of_a, of_b = self._level_labels
            self._match_unique([*dict.fromkeys(ours)], [*dict.fromkeys(theirs)], of_a.__getitem__, of_b.__getitem__)

    def _match_users(self, x: int, y: int) -> None:
        if self._elements and self.a.flow.opcodes[x] == "while":
            self._match_elements(self.a.flow.regions[x])
        ours, theirs = self.a.flow.users[x], self.b.flow.users[y]
        of_a, of_b = self._level_labels
        mine = (use for use in ours if self.a.partners[use[0]] < 0)
        its = (use for use in theirs if self.b.partners[use[0]] < 0)
        for (x, _), (y, _) in _alone(mine, its, lambda use: (of_a[use[0]], use[1]), lambda use: (of_b[use[0]], use[1])):
            if self._is_open(x, y):
                self.pair(x, y)

    def _match_neighbors(self, ours: Rows, theirs: Rows) -> None:
        """Matches nodes with the same matched neighbors at the same positions; several equal ones in sequence."""
        while True:
            ours, theirs = self.a.free(ours), self.b.free(theirs)
            mine, its = self._around(self.a, ours), self._around(self.b, theirs)
            if self._match_unique([*mine], [*its], mine.__getitem__, its.__getitem__):
                self._follow()
                continue
            if not self._match_one_of_several(mine, its):
                return

    def _match_one_of_several(self, mine: Mapping[int, Hashable], its: Mapping[int, Hashable]) -> bool:
        groups: dict[Hashable, list[int]] = collections.defaultdict(list)
        for y, key in its.items():
            groups[key].append(y)
        matched = False
        for x in reversed([*mine]):  # users before operands: users determine their operands
            if self.a.partners[x] < 0 and self._pair_with_best(x, groups, mine[x]):
                matched = True
        return matched

    def _pair_with_best(self, x: int, groups: dict[Hashable, list[int]], key: Hashable) -> bool:
        """Matches a node with the most similar one of a group, and extends the match."""
        others = self.b.free(groups.get(key, ()))
        if not others:
            return False
        groups[key] = others
        self.pair(x, self._best(x, others))
        self._follow()
        return True

    def _best(self, x: int, others: Sequence[int]) -> int:
        """Returns the candidate that is most similar to a node: in its value, then in its uses."""
        a, b = self.a, self.b
        likeness = lambda y: (a.values[x] == b.values[y], a.uses[x] == b.uses[y])  # noqa: E731
        return max(reversed(others[-_MOST_ALIKE:]), key=likeness)

    def _around(self, side: ValueNumbers, rows: Rows) -> dict[int, Hashable]:
        """Maps nodes to their labels and their matched neighbors with positions; nodes without such neighbors are omitted."""
        numbers, flow, partners, shared = side.labels.levels[self._level], side.flow, side.partners, side.shared
        neighbors: dict[int, Hashable] = {}
        for row in rows:
            near = [(place, shared[each]) for place, each in enumerate(flow.operands[row]) if partners[each] >= 0]
            uses = [(~place, shared[each]) for each, place in flow.users[row] if partners[each] >= 0]
            if near or uses:
                uses.sort()
                neighbors[row] = numbers[row], *near, *uses
        return neighbors

    def _match_rest(self, ours: Rows, theirs: Rows) -> None:
        """Matches nodes that compute the same, regardless of their uses."""
        groups: dict[Hashable, list[int]] = collections.defaultdict(list)
        for y in self.b.free(theirs):
            groups[self.b.values[y]].append(y)
        for x in reversed(self.a.free(ours)):
            if self.a.partners[x] < 0:
                self._pair_with_best(x, groups, self.a.values[x])

    def _match_labels(self, ours: Rows, theirs: Rows) -> None:
        """Matches nodes whose labels are unique in their regions, even if all their neighbors differ."""
        a, b = self.a, self.b
        mine, its = (
            [row for row in rows if s.flow.opcodes[row] not in _COMMON] for s, rows in ((a, ours), (b, theirs))
        )
        of_a, of_b = a.labels.exact, b.labels.exact
        for x, y in [*_alone(mine, its, of_a.__getitem__, of_b.__getitem__)]:
            if self._is_open(x, y):
                self.pair(x, y)
                self._follow()

    def _match_origins(self, ours: Rows, theirs: Rows) -> None:
        """Matches nodes that are the only results of the same operation of the program, such as a dot on two platforms."""
        sides = []
        for flow, rows in ((self.a.flow, ours), (self.b.flow, theirs)):
            names = {row: flow.module.at(row).op_name for row in rows if flow.opcodes[row] not in _COMMON}
            sides.append({row: name for row, name in names.items() if name})
        mine, its = sides
        opcodes, others = self._level_labels
        self._match_unique([*mine], [*its], lambda x: (opcodes[x], mine[x]), lambda y: (others[y], its[y]))
        self._follow()
        for x, y in _alone(self.a.free(mine), self.b.free(its), mine.__getitem__, its.__getitem__):
            self.pair(x, y)
        self._new.clear()

    def _match_rewritten(self, ours: Rows, theirs: Rows) -> None:
        """Matches nodes that replace others: they have the same operands and the same users."""
        mine, its = self._between(self.a, ours), self._between(self.b, theirs)
        for x, y in _alone(mine, its, mine.__getitem__, its.__getitem__):
            self.pair(x, y)
        self._new.clear()  # equal neighbors are matched already

    def _between(self, side: ValueNumbers, rows: Rows) -> dict[int, Hashable]:
        """Maps nodes to their operands and users; nodes with an unmatched neighbor are omitted."""
        flow, partners, shared = side.flow, side.partners, side.shared
        neighbors: dict[int, Hashable] = {}
        for row in rows:
            near, uses = {*flow.operands[row]}, flow.users[row]
            is_root = row == flow.roots[flow.regions[row]]
            if (uses or is_root) and all(partners[each] >= 0 for each in (*near, *(user for user, _ in uses))):
                ends = frozenset((shared[user], place) for user, place in uses)
                neighbors[row] = frozenset(shared[each] for each in near), ends, is_root
        return neighbors

    def _match_moved(self) -> None:
        """Matches nodes that moved to another region: nodes that compute the same, or whose labels are unique."""
        a, b = self.a, self.b
        self._level = _EXACT
        of_a, of_b = self._level_labels
        ours, theirs = (side.free(_movable(side.flow)) for side in (a, b))
        if not ours or not theirs:
            return
        self._match_unique(ours, theirs, a.values.__getitem__, b.values.__getitem__)
        self._follow()
        ours = [row for row in ours if a.flow.opcodes[row] not in _COMMON]
        theirs = [row for row in theirs if b.flow.opcodes[row] not in _COMMON]
        self._match_unique(ours, theirs, of_a.__getitem__, of_b.__getitem__, is_moved=True)
        self._follow()

    def _is_near(self, x: int, y: int) -> bool:
        """Reports whether two nodes are in matched regions."""
        return self.regions.get(self.a.flow.regions[x]) == self.b.flow.regions[y]

    @property
    def _level_labels(self) -> tuple[list[int], list[int]]:
        return self.a.labels.levels[self._level], self.b.labels.levels[self._level]

    def _is_open(self, x: int, y: int) -> bool:
        return self.a.partners[x] < 0 and self.b.partners[y] < 0

    def _is_alike(self, x: int, y: int) -> bool:
        of_a, of_b = self._level_labels
        return of_a[x] == of_b[y]


def _alone(
    ours: Iterable[T], theirs: Iterable[T], key: Callable[[T], Hashable], other_key: Callable[[T], Hashable]
) -> Iterator[tuple[T, T]]:
    """Yields pairs of items whose keys are unique on both sides."""
    mine = _unique(ours, key)
    its = _unique(theirs, other_key) if mine else {}
    for value, x in mine.items():
        y = its.get(value)
        if x is not None and y is not None:
            yield x, y


def _unique(items: Iterable[T], key: Callable[[T], Hashable]) -> dict[Hashable, T | None]:
    """Maps keys to items; None for a key that several items share."""
    unique: dict[Hashable, T | None] = {}
    for item in items:
        value = key(item)
        unique[value] = None if value in unique else item
    return unique


def _parameters(flow: Dataflow, rows: Rows) -> dict[int, int]:
    return {flow.parameters[row]: row for row in rows if flow.opcodes[row] == "parameter"}


def _movable(flow: Dataflow) -> list[int]:
    """Returns the nodes that can move to another computation; parameters cannot."""
    return [row for rows in flow.nodes.values() for row in rows if flow.opcodes[row] != "parameter"]
