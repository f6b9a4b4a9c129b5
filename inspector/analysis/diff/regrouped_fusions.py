"""Which fusions and calls were split, merged, grown, shrunk, formed and dissolved between two matched modules.

A fusion is matched with the one that shares the most with it. What else is in either came from somewhere: from another
fusion, from outside, or it is new.
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
    """Groups (fusions, calls, `async-start`s) of which some nodes went to others, came from others, or are all new.

    Attributes:
      how: what happened to them.
      before, after: their rows, the one with the most nodes first.
      counts: of "split" and "merged", how many matched nodes are in each of several; of the others, how many went
        together; () where none did.
    """

    how: How
    before: tuple[int, ...]
    after: tuple[int, ...]
    counts: tuple[int, ...] = ()


def regrouped(matching: Matching) -> tuple[Regrouped, ...]:
    """What happened to the groups of two modules; those of which nodes are only altered or replaced are left out."""
    return tuple(each for opcode in ("fusion", "call", "async-start") for each in _Groups(matching, opcode).all())


class _Groups:
    """The groups of one opcode on both sides, and the nodes that they share.

    A group in a group of the same opcode counts as a part of that, unless nothing but its opcode's nesting changed.
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
        """Of the second module's groups that are no group of the first."""
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
        """Of the first module's groups that are no group of the second."""
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
        """What went from one group to another, or came from outside, though both stayed what they were."""
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
    """Of each group the outermost of an opcode around it, itself among them."""
    found: dict[int, int] = {}
    for group in flow.opened:
        around = [each for each in (group, *flow.groups_of(group)) if flow.opcodes[each] == opcode]
        if around:
            found[group] = around[-1]
    return found


def _shared(matching: Matching, ours: Mapping[int, int], theirs: Mapping[int, int]) -> dict[tuple[int, int], int]:
    """How many matched nodes went from which group to which.

    What is common counts where a group has nothing else, and between groups that are matched.
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
    """Which group shares the most, one that is a group before what stands outside; None where nothing is shared."""
    return max(counts, key=lambda group: (counts[group], group), default=None)


def _only(row: int) -> tuple[int, ...]:
    return (row,) if row >= 0 else ()
