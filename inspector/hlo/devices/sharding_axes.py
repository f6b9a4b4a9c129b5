"""Which axes of a mesh split each dimension of an array, from XLA's shardings, which know devices only or axes by number."""

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
"""Of each dimension, the axes that split it, the slowest first; () where it is whole."""

_TILED = re.compile(r"\{devices=\[([\d,]+)\](?:<=\[([\d,]+)\](?:T\(([\d,]+)\))?|([\d,]+))( last_tile_dim_replicate)?\}")

_NAMED = re.compile(
    r"\{mesh\[([^]]*)\](?:, device_ids=\(([\d,]*)\))?, \[(.*?)\](?:, (?:replicated|manual)=\{[^}]*\})*\}"
)
_BRACED = re.compile(r"\{([^}]*)\}")


def axes_of(proto: Any, mesh: Mesh, rank: int) -> Axes | None:
    """Of an `xla.OpSharding` of an array of so many dimensions; None where no axes of the mesh say it."""
    text = sharding_text(proto)
    found: Axes | None = () if text == "{replicated}" else axes_in_text(text, mesh)
    return None if found is None else found + ((),) * (rank - len(found))


@functools.lru_cache(maxsize=512)  # hundreds of arrays are split in a few ways
def axes_in_text(sharding: str, mesh: Mesh) -> Axes | None:
    """Of HLO's text of a sharding by tiles, such as `{devices=[2,1,4]<=[8]}`, or by names."""
    if named := _NAMED.fullmatch(sharding):
        return _of_names(named[1], named[2], named[3], mesh)
    found = _TILED.fullmatch(sharding)
    if found is None:
        return None
    tiles, dims, order, listed, is_replicated = found.groups()
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
    """Such as `(data, -, model)`; several axes of a dimension with + between them."""
    return f"({', '.join('+'.join(names) or '-' for names in axes)})"


def _of_names(axes: str, ids: str | None, dimensions: str, mesh: Mesh) -> Axes | None:
    found = [[axis for axis in split.split(", ") if axis not in ("", "?")] for split in _BRACED.findall(dimensions)]
    known = {f"'{name}'": name for name in mesh.axis_names}
    own = ",".join(f"'{name}'={size}" for name, size in zip(mesh.axis_names, mesh.axis_sizes, strict=True))
    is_same = axes == own and (None if ids is None else tuple(_numbers(ids))) == mesh.device_ids
    if any(found) and not (is_same and {axis for split in found for axis in split} <= set(known)):
        return None  # of another mesh, or split by parts of axes
    return tuple(tuple(known[axis] for axis in split) for split in found)


def _by_dimension(grid: npt.NDArray[np.int64], mesh: Mesh) -> Axes | None:
    """The axes along which the index of a part grows, the slowest first; None where it is no such sum."""
    steps = np.indices(mesh.axis_sizes)
    found = []
    for index in grid:
        origin = (0,) * index.ndim
        strides = {}
        for axis in range(index.ndim):
            if mesh.axis_sizes[axis] > 1 and (stride := int(index[*origin[:axis], 1, *origin[axis + 1 :]])):
                strides[axis] = stride
        if not np.array_equal(index, sum((steps[a] * s for a, s in strides.items()), np.zeros_like(index))):
            return None
        found.append(tuple(mesh.axis_names[axis] for axis in sorted(strides, key=lambda axis: -strides[axis])))
    return tuple(found)


def _numbers(text: str) -> Sequence[int]:
    return [int(number) for number in text.split(",")]
