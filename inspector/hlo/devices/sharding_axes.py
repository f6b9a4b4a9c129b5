"""Finds the mesh axes that split each dimension of an array, from XLA's shardings, which refer to devices or axis numbers."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from inspector.hlo.devices.mesh import Mesh
from inspector.hlo.devices.sharding import sharding_text

Axes: TypeAlias = tuple[tuple[str, ...], ...]
"""For each dimension, the axes that split it, slowest first; () for a dimension that is not split."""

_TILED = re.compile(r"\{devices=\[([\d,]+)\](?:<=\[([\d,]+)\](?:T\(([\d,]+)\))?|([\d,]+))( last_tile_dim_replicate)?\}")

_NAMED = re.compile(
    r"\{mesh\[([^]]*)\](?:, device_ids=\(([\d,]*)\))?, \[(.*?)\](?:, (?:replicated|manual)=\{[^}]*\})*\}"
)
_BRACED = re.compile(r"\{([^}]*)\}")


def axes_of(proto: Any, mesh: Mesh, rank: int) -> Axes | None:
    """Returns the axes of an `xla.OpSharding` of an array of a rank; None if no axes of the mesh describe it."""
    text = sharding_text(proto)
    axes: Axes | None = () if text == "{replicated}" else axes_in_text(text, mesh)
    return None if axes is None else axes + ((),) * (rank - len(axes))


@functools.lru_cache(maxsize=512)  # hundreds of arrays share a few shardings
def axes_in_text(sharding: str, mesh: Mesh) -> Axes | None:
    """Returns the axes of a sharding in HLO text, tiled, such as `{devices=[2,1,4]<=[8]}`, or named."""
    if named := _NAMED.fullmatch(sharding):
        return _of_names(named[1], named[2], named[3], mesh)
    match = _TILED.fullmatch(sharding)
    if match is None:
        return None
    tiles, dims, order, listed, is_replicated = match.groups()
    sizes = _numbers(tiles)
    ids = np.array(_numbers(listed)) if dims is None else np.arange(math.prod(_numbers(dims)))
    if dims is not None and order is not None:
        ids = ids.reshape(_numbers(dims)).transpose(_numbers(order))
    if ids.size != mesh.size or math.prod(sizes) != mesh.size or ids.min() < 0:
        return None
    if not np.array_equal(np.bincount(ids.ravel(), minlength=mesh.size), np.ones(mesh.size)):
        return None
    places = np.empty((len(sizes), mesh.size), np.int64)
    places[:, ids.ravel()] = np.indices(sizes).reshape(len(sizes), -1)
    at = places[:, mesh.id_of_position]
    grid = at.reshape(len(sizes), *mesh.axis_sizes)
    return _by_dimension(grid[: len(grid) - bool(is_replicated)], mesh)


def spec_text(axes: Axes) -> str:
    """Formats axes as text, such as `(data, -, model)`. Several axes of a dimension are joined with +."""
    return f"({', '.join('+'.join(names) or '-' for names in axes)})"


def _of_names(axes: str, ids: str | None, dimensions: str, mesh: Mesh) -> Axes | None:
    splits = [[axis for axis in split.split(", ") if axis not in ("", "?")] for split in _BRACED.findall(dimensions)]
    known = {f"'{name}'": name for name in mesh.axis_names}
    own = ",".join(f"'{name}'={size}" for name, size in zip(mesh.axis_names, mesh.axis_sizes, strict=True))
    is_same = axes == own and (None if ids is None else tuple(_numbers(ids))) == mesh.device_ids
    if any(splits) and not (is_same and {axis for split in splits for axis in split} <= set(known)):
        return None  # another mesh, or a split by sub-axes
    return tuple(tuple(known[axis] for axis in split) for split in splits)


def _by_dimension(grid: npt.NDArray[np.int64], mesh: Mesh) -> Axes | None:
    """Returns the axes along which the index of each dimension's part grows, slowest first.

    Returns None if the index is not a sum of strides along axes.
    """
    steps = np.indices(mesh.axis_sizes)
    dimensions = []
    for index in grid:
        origin = (0,) * index.ndim
        strides = {}
        for axis in range(index.ndim):
            if mesh.axis_sizes[axis] > 1 and (stride := int(index[*origin[:axis], 1, *origin[axis + 1 :]])):
                strides[axis] = stride
        if not np.array_equal(index, sum((steps[a] * s for a, s in strides.items()), np.zeros_like(index))):
            return None
        dimensions.append(tuple(mesh.axis_names[axis] for axis in sorted(strides, key=lambda axis: -strides[axis])))
    return tuple(dimensions)


def _numbers(text: str) -> Sequence[int]:
    return [int(number) for number in text.split(",")]
