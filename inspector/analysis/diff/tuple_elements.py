"""Matches the elements of the tuples of two loops that carry different numbers of elements.

An added or removed element shifts the positions of all later ones. So elements are aligned by their shapes and by their
uses in body and condition.
"""

from __future__ import annotations

import collections
import difflib
from collections.abc import Hashable, Iterator

from inspector.analysis.diff.value_numbers import ValueNumbers

_GET = "get-tuple-element"


def count(side: ValueNumbers, row: int) -> int:
    """Returns the number of elements of the tuple that a row computes."""
    return len(side.flow.module.at(row).shape.tuple_shapes)


def element_pairs(a: ValueNumbers, x: int, b: ValueNumbers, y: int) -> Iterator[tuple[int, int]]:
    """Yields pairs of instructions that extract the same element of two loops, from their results and inside body and condition.

    Args:
      a: one side.
      x: its loop.
      b: the other side.
      y: its loop, which carries more or fewer elements.
    """
    ours, theirs = _handed(a, x), _handed(b, y)
    matched = difflib.SequenceMatcher(None, _element_keys(a, x, ours), _element_keys(b, y, theirs), autojunk=False)
    same = {block.a + n: block.b + n for block in matched.get_matching_blocks() for n in range(block.size)}
    for mine, its in zip((x, *ours), (y, *theirs), strict=False):
        elements, others = _taking(a, mine), _taking(b, its)
        for index, place in same.items():
            yield from zip(elements[index], others[place], strict=False)


def _handed(side: ValueNumbers, loop: int) -> list[int]:
    """Returns the parameters of the regions that a loop calls."""
    flow = side.flow
    regions = flow.calls.get(loop, ())
    return [row for region in regions for row in flow.nodes[region] if flow.opcodes[row] == "parameter"]


def _element_keys(side: ValueNumbers, loop: int, handed: list[int]) -> list[Hashable]:
    """Returns for each element its shape and its uses in body and condition."""
    flow, exact = side.flow, side.labels.exact
    shapes = flow.module.at(loop).shape.tuple_shapes
    uses: dict[int, set[Hashable]] = collections.defaultdict(set)
    for which, parameter in enumerate(handed):
        for index, rows in _taking(side, parameter).items():
            for row in rows:
                users = (user for user in flow.users[row] if flow.opcodes[user[0]] != "tuple")
                uses[index].update((which, exact[user], place) for user, place in users)
    return [(shape.without_layout(), frozenset(uses[index])) for index, shape in enumerate(shapes)]


def _taking(side: ValueNumbers, made: int) -> dict[int, list[int]]:
    """Maps the elements of a tuple, by index, to the instructions that extract them."""
    flow = side.flow
    elements: dict[int, list[int]] = collections.defaultdict(list)
    for user, _ in flow.users[made]:
        if flow.opcodes[user] == _GET:
            elements[flow.indices[user]].append(user)
    return elements
