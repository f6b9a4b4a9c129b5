"""The code of a sharding, as remedies show it."""

from __future__ import annotations

from collections.abc import Sequence


def spec_code(axes: Sequence[Sequence[str]]) -> str:
    """Returns the code of a `PartitionSpec`, such as "P('data', None, ('x', 'y'))", from the axes of each dimension."""
    parts = [None if not each else each[0] if len(each) == 1 else tuple(each) for each in axes]
    while parts and parts[-1] is None:
        parts.pop()
    return f"P({', '.join(map(repr, parts))})"
