"""The code of a sharding, as remedies show it, and the sizes of its axes."""

from __future__ import annotations

from collections.abc import Sequence

from inspector.analysis.sharding.array_sharding import Sharding


def spec_code(axes: Sequence[Sequence[str]]) -> str:
    """Returns the code of a `PartitionSpec`, such as "P('data', None, ('x', 'y'))", from the axes of each dimension."""
    parts = [None if not each else each[0] if len(each) == 1 else tuple(each) for each in axes]
    while parts and parts[-1] is None:
        parts.pop()
    return f"P({', '.join(map(repr, parts))})"


def axis_size(sharding: Sharding, axis: str) -> int:
    """Returns the number of devices along a mesh axis; 1 for an axis that the mesh does not have."""
    return dict(zip(sharding.mesh.axis_names, sharding.mesh.axis_sizes, strict=True)).get(axis, 1)
