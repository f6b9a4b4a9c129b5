"""Which element of a loop's tuple is which of another's, where one carries more than the other.

Elements go by their places, which all shift behind one that came or went: so they are aligned by their shapes and by
what body and condition do with them.
"""

from __future__ import annotations

import collections
import difflib
from collections.abc import Hashable, Iterator

from inspector.analysis.diff.value_numbers import ValueNumbers

_GET = "get-tuple-element"


def count(side: ValueNumbers, row: int) -> int:
    """Elements of the tuple that a row makes."""
    return len(side.flow.module.at(row).shape.tuple_shapes)


def element_pairs(a: ValueNumbers, x: int, b: ValueNumbers, y: int) -> Iterator[tuple[int, int]]:
    """Pairs of what takes the same element of two loops: of what they make, and of what they hand to body and condition.

    Args:
      a: one side.
      x: its loop.
      b: the other side.
      y: its loop, which carries more or fewer elements.
    """
    ours, theirs = _handed(a, x), _handed(b, y)
    matched = difflib.SequenceMatcher(None, _said(a, x, ours), _said(b, y, theirs), autojunk=False)
    same = {block.a + n: block.b + n for block in matched.get_matching_blocks() for n in range(block.size)}
    for mine, its in zip((x, *ours), (y, *theirs), strict=False):
        found, others = _taking(a, mine), _taking(b, its)
        for index, place in same.items():
            yield from zip(found[index], others[place], strict=False)


def _handed(side: ValueNumbers, loop: int) -> list[int]:
    """The parameter of what a loop calls, of each."""
    flow = side.flow
    regions = flow.calls.get(loop, ())
    return [row for region in regions for row in flow.nodes[region] if flow.opcodes[row] == "parameter"]


def _said(side: ValueNumbers, loop: int, handed: list[int]) -> list[Hashable]:
    """Of each element its shape, and what takes it in body and condition."""
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
    """What takes each element of a tuple, by index."""
    flow = side.flow
    found: dict[int, list[int]] = collections.defaultdict(list)
    for user, _ in flow.users[made]:
        if flow.opcodes[user] == _GET:
            found[flow.indices[user]].append(user)
    return found
