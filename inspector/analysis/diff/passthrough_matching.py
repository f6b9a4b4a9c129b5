"""Matches the instructions that `Dataflow` flattens: fusions and calls by their contents, and plumbing by its values."""

from __future__ import annotations

import collections
from collections.abc import Callable, Hashable, Sequence

from inspector.analysis.diff.dataflow import Dataflow

COMMON = frozenset({"bitcast", "broadcast", "constant", "convert", "iota", "parameter", "reshape"})
"""Opcodes that compilers duplicate into every fusion that needs them, so that their location is weak evidence."""

_LITTLE, _MUCH = 1, 1000
_NOWHERE = -1


def match_plumbing(before: Dataflow, after: Dataflow, to_after: list[int], to_before: list[int]) -> None:
    """Completes a matching of nodes.

    Args:
      before: the first module.
      after: the second.
      to_after: for each row of the first module the matched row of the second, -1 for none; completed in place.
      to_before: the inverse; completed in place.
    """
    for group, other in _group_pairs(before, after, to_after):
        to_after[group], to_before[other] = other, group
        _match_insides(before, after, group, other, to_after, to_before)
    rest = _plumbing(before), _plumbing(after)
    for key in (_value, _index):
        while _match_by(key, rest, (before, after), to_after, to_before):
            pass


def _group_pairs(before: Dataflow, after: Dataflow, to_after: list[int]) -> list[tuple[int, int]]:
    """Returns pairs of fusions, calls and `async-start`s that share the most nodes, each at most once."""
    shared: collections.Counter[tuple[int, int]] = collections.Counter()
    for rows in before.nodes.values():
        for row in rows:
            if to_after[row] < 0 or before.groups[row] < 0:
                continue
            weight = _LITTLE if before.opcodes[row] in COMMON else _MUCH
            for group in before.groups_of(row):
                for other in after.groups_of(to_after[row]):
                    if before.opcodes[group] == after.opcodes[other]:
                        shared[group, other] += weight
    sizes, others = ({group: len(rows) for group, rows in flow.members.items()} for flow in (before, after))
    order = sorted(shared, key=lambda pair: (-shared[pair], abs(sizes[pair[0]] - others[pair[1]])))
    ours, theirs, pairs = set[int](), set[int](), []
    for group, other in order:
        if group not in ours and other not in theirs:
            ours.add(group)
            theirs.add(other)
            pairs.append((group, other))
    return pairs


def _match_insides(
    before: Dataflow, after: Dataflow, group: int, other: int, to_after: list[int], to_before: list[int]
) -> None:
    """Matches the result tuples of two fusions, and their parameters by the operands passed, else by the users."""
    for key in (_passed_value, _taking):
        sides: list[dict[Hashable, list[int]]] = []
        for flow, caller, own in ((before, group, to_after), (after, other, to_before)):
            by_key: dict[Hashable, list[int]] = collections.defaultdict(list)
            same = own if flow is after else range(len(own))
            for row in flow.module.computations[flow.opened[caller]].rows:
                if own[row] < 0 and flow.opcodes[row] in ("parameter", "tuple"):
                    by_key[flow.opcodes[row], key(flow, row, same)].append(row)
            sides.append(by_key)
        for which, rows in sides[0].items():
            _pair_all(rows, sides[1].get(which, []), to_after, to_before)


def _passed_value(flow: Dataflow, row: int, same: Sequence[int]) -> Hashable:
    return same[flow.sources[row]] if flow.opcodes[row] == "parameter" else None


def _taking(flow: Dataflow, row: int, same: Sequence[int]) -> Hashable:
    users = flow.module.columns.users.of(row)
    return frozenset(
        (same[user], place) for user in users for place, each in enumerate(flow.taken(user)) if each == row
    )


def _plumbing(flow: Dataflow) -> list[int]:
    nodes = {row for rows in flow.nodes.values() for row in rows}
    return [row for row in range(len(flow.sources)) if row not in nodes and row not in flow.opened]


_Key = Callable[[Dataflow, int, list[int], Sequence[int]], Hashable]


def _match_by(
    key: _Key,
    rest: tuple[list[int], list[int]],
    flows: tuple[Dataflow, Dataflow],
    to_after: list[int],
    to_before: list[int],
) -> bool:
    """Matches plumbing with the same matched operands that passes on the same value. Reports whether anything matched."""
    sides: list[dict[Hashable, list[int]]] = []
    for flow, rows, own, is_after in zip(flows, rest, (to_after, to_before), (False, True), strict=True):
        by_key: dict[Hashable, list[int]] = collections.defaultdict(list)
        same = own if is_after else range(len(own))
        for row in rows:
            taken = flow.taken(row)
            if own[row] < 0 and all(own[each] >= 0 for each in taken):
                what = key(flow, row, own, same)
                if what is not None:
                    by_key[flow.opcodes[row], what, tuple(same[each] for each in taken)].append(row)
        sides.append(by_key)
    matched = False
    for which, ours in sides[0].items():
        matched |= _pair_all(ours, sides[1].get(which, []), to_after, to_before)
    return matched


def _value(flow: Dataflow, row: int, own: list[int], same: Sequence[int]) -> Hashable:
    """Returns the value that a row passes on; None if that is unmatched."""
    source = flow.sources[row]
    if source == row:
        return _NOWHERE
    return same[source] if own[source] >= 0 else None


def _index(flow: Dataflow, row: int, _: list[int], __: Sequence[int]) -> Hashable:
    """Returns the tuple index of a row, regardless of the element's value; None if it is not a get-tuple-element."""
    return flow.indices[row] if flow.opcodes[row] == "get-tuple-element" else None


def _pair_all(ours: list[int], theirs: list[int], to_after: list[int], to_before: list[int]) -> bool:
    matched = False
    for row, other in zip((r for r in ours if to_after[r] < 0), (r for r in theirs if to_before[r] < 0), strict=False):
        to_after[row], to_before[other] = other, row
        matched = True
    return matched
