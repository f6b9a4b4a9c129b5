"""Finds the fusions and calls that were split, merged, grown, shrunk, formed or dissolved between two matched modules.

A fusion is matched with the fusion that shares the most instructions with it. Its other instructions come from another
fusion, come from outside, or are new.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Literal

from inspector.analysis.diff.dataflow import Dataflow
from inspector.analysis.diff.matching import Matching
from inspector.analysis.diff.passthrough_matching import COMMON

How = Literal["split", "merged", "regrouped", "grown", "shrunk", "formed", "dissolved", "appeared", "gone"]

_OUTSIDE = -1


@dataclasses.dataclass(frozen=True, slots=True)
class Regrouped:
    """Groups (fusions, calls, `async-start`s) that exchanged nodes with other groups or with the outside, or that are new or gone.

    Attributes:
      how: the kind of change.
      before, after: rows of the groups, the one with the most nodes first.
      counts: for "split" and "merged" the number of matched nodes in each part; otherwise the number of nodes that moved
        together; () for none.
    """

    how: How
    before: tuple[int, ...]
    after: tuple[int, ...]
    counts: tuple[int, ...] = ()


def regrouped(matching: Matching) -> tuple[Regrouped, ...]:
    """Returns the groups that changed; groups with only altered or replaced nodes are omitted."""
    return tuple(each for opcode in ("fusion", "call", "async-start") for each in _Groups(matching, opcode).all())


class _Groups:
    """The groups of one opcode on both sides, and the numbers of nodes that they share.

    A group inside a group of the same opcode counts as part of the outermost one.
    """

    def __init__(self, matching: Matching, opcode: str) -> None:
        self._to_after, self._to_before = matching.to_after, matching.to_before
        self._ours, self._theirs = (_outermost(flow, opcode) for flow in (matching.before, matching.after))
        self._shared = _shared(matching, self._ours, self._theirs)
        self._targets: dict[int, dict[int, int]] = collections.defaultdict(dict)
        self._origins: dict[int, dict[int, int]] = collections.defaultdict(dict)
        for (group, other), count in self._shared.items():
            self._targets[group][other] = count
            self._origins[other][group] = count
        self._explained = set[tuple[int, int]]()

    def all(self) -> Iterator[Regrouped]:
        yield from self._split()
        yield from self._merged()
        yield from self._exchanged()

    def _split(self) -> Iterator[Regrouped]:
        """Yields the changes that explain the groups of the second module without a match in the first."""
        parts: dict[int, list[int]] = collections.defaultdict(list)
        for group in sorted({*self._theirs.values()}):
            if self._to_before[group] >= 0:
                continue
            origin = _most(self._origins[group])
            if origin is None:
                yield Regrouped("appeared", (), (group,))
            elif origin == _OUTSIDE:
                yield Regrouped("formed", (), (group,), (self._shared[origin, group],))
            else:
                parts[origin].append(group)
            self._explained.add((_OUTSIDE if origin is None else origin, group))
        for origin, groups in parts.items():
            partner = self._to_after[origin]
            pieces = self._by_size([*([partner] if partner >= 0 else []), *groups], self._targets[origin])
            yield Regrouped("split", (origin,), pieces, tuple(self._targets[origin].get(each, 0) for each in pieces))

    def _merged(self) -> Iterator[Regrouped]:
        """Yields the changes that explain the groups of the first module without a match in the second."""
        parts: dict[int, list[int]] = collections.defaultdict(list)
        for group in sorted({*self._ours.values()}):
            if self._to_after[group] >= 0:
                continue
            target = _most(self._targets[group])
            if target is None:
                yield Regrouped("gone", (group,), ())
            elif target == _OUTSIDE:
                yield Regrouped("dissolved", (group,), (), (self._shared[group, target],))
            elif (group, target) not in self._explained:
                parts[target].append(group)
            self._explained.add((group, _OUTSIDE if target is None else target))
        for target, groups in parts.items():
            partner = self._to_before[target]
            pieces = self._by_size([*([partner] if partner >= 0 else []), *groups], self._origins[target])
            yield Regrouped("merged", pieces, (target,), tuple(self._origins[target].get(each, 0) for each in pieces))

    def _exchanged(self) -> Iterator[Regrouped]:
        """Yields the changes of groups that have a match: nodes that moved to another group, or from or to the outside."""
        grown: dict[int, int] = collections.Counter()
        shrunk: dict[int, int] = collections.Counter()
        for (group, other), count in self._shared.items():
            if (group, other) in self._explained or (group >= 0 and self._to_after[group] == other):
                continue
            if group == _OUTSIDE:
                grown[other] += count
            elif other == _OUTSIDE:
                shrunk[group] += count
            else:
                yield Regrouped("regrouped", (group,), (other,), (count,))
        for other, count in grown.items():
            yield Regrouped("grown", _only(self._to_before[other]), (other,), (count,))
        for group, count in shrunk.items():
            yield Regrouped("shrunk", (group,), _only(self._to_after[group]), (count,))

    @staticmethod
    def _by_size(groups: list[int], counts: Mapping[int, int]) -> tuple[int, ...]:
        return tuple(sorted(groups, key=lambda group: (-counts.get(group, 0), group)))


def _outermost(flow: Dataflow, opcode: str) -> dict[int, int]:
    """Maps each group to the outermost group of an opcode around it, which may be the group itself."""
    outermost: dict[int, int] = {}
    for group in flow.opened:
        around = [each for each in (group, *flow.groups_of(group)) if flow.opcodes[each] == opcode]
        if around:
            outermost[group] = around[-1]
    return outermost


def _shared(matching: Matching, ours: Mapping[int, int], theirs: Mapping[int, int]) -> dict[tuple[int, int], int]:
    """Counts the matched nodes by their groups before and after.

    Nodes with `COMMON` opcodes only count for groups that have no other nodes, and between matched groups.
    """
    before, after, to_after = matching.before, matching.after, matching.to_after
    telling: dict[tuple[int, int], int] = collections.Counter()
    common: dict[tuple[int, int], int] = collections.Counter()
    for rows in before.nodes.values():
        for row in rows:
            other = to_after[row]
            edge = ours.get(before.groups[row], _OUTSIDE), theirs.get(after.groups[other], _OUTSIDE)
            if other >= 0 and edge != (_OUTSIDE, _OUTSIDE):
                is_common = before.opcodes[row] in COMMON or after.opcodes[other] in COMMON
                counted = common if is_common else telling
                counted[edge] += 1
    known, known_after = ({edge[side] for edge in telling} - {_OUTSIDE} for side in (0, 1))
    for (group, target), count in common.items():
        is_pair = group >= 0 and to_after[group] == target
        if is_pair or 0 <= group not in known or 0 <= target not in known_after:
            telling[group, target] += count
    return telling


def _most(counts: Mapping[int, int]) -> int | None:
    """Returns the group that shares the most nodes, groups preferred to the outside; None if no nodes are shared."""
    return max(counts, key=lambda group: (counts[group], group), default=None)


def _only(row: int) -> tuple[int, ...]:
    return (row,) if row >= 0 else ()
