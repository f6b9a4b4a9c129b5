"""`Sharding`: the parts of an array and the devices that hold them.

A dimension of size n that is split k ways has parts of size ceil(n / k), because XLA pads it. The last nonempty part may
be short, and the parts after it are empty.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from inspector.errors import ParameterError
from inspector.hlo.devices.mesh import Mesh
from inspector.support.notebook import short
from inspector.support.tables import Kind, Tabular, make_table
from inspector.support.units import format_list

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Range: TypeAlias = tuple[int, int]
"""Start and end index; the end is exclusive."""
Part: TypeAlias = tuple[Range, ...]
"""One range per dimension."""

_MOST_DEVICES = 1 << 16


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Sharding(Tabular):
    """The split of an array over the devices of a mesh.

    Attributes:
      shape: shape of the whole array.
      mesh: the devices. A device's id is the one in `physical_ids`, or its logical id if there are none.
      axes: for each dimension, the mesh axes that split it, slowest-varying first; () if it is whole.
    """

    shape: tuple[int, ...]
    mesh: Mesh
    axes: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        if len(self.axes) > len(self.shape):
            raise ParameterError(
                f"The sharding has {len(self.axes)} entries, but the shape {self.shape} has only {len(self.shape)}"
                " dimensions. Pass at most one entry per dimension."
            )
        used = [axis for axes in self.axes for axis in axes]
        for axis in used:
            if axis not in self.mesh.axis_names:
                raise ParameterError(
                    f"No axis {short(axis)} in the {self.mesh}. Its axes are {format_list(list(self.mesh.axis_names))}."
                )
            if used.count(axis) > 1:
                raise ParameterError(
                    f"The axis {short(axis)} occurs twice. An axis can split only one dimension, once."
                )
        if self.mesh.size > _MOST_DEVICES:
            raise ParameterError(f"{self.mesh.size:,} devices are too many to list. The limit is {_MOST_DEVICES:,}.")
        object.__setattr__(self, "axes", self.axes + ((),) * (len(self.shape) - len(self.axes)))

    def __repr__(self) -> str:
        if not self.mesh.axis_names:
            return f"<{list(self.shape)} whole on device {self._parts_by_device()[0][0]}>"
        sizes = "x".join(map(str, self.part_shape)) or "a scalar"
        copies = math.prod(self._size(axis) for axis in self.replicated_over)
        over = f", each on {copies} devices ({', '.join(self.replicated_over)})" if copies > 1 else ""
        smaller = "" if not any(map(self.is_short, self.parts)) else ", the last smaller"
        return f"<{list(self.shape)} split by {self.split_text} on the {self.mesh}: {len(self.parts)} part{'s' * (len(self.parts) > 1)} of {sizes}{over}{smaller}>"

    @property
    def split_text(self) -> str:
        """The axes that split each dimension: `(data, -, model+expert)`."""
        return f"({', '.join('+'.join(axes) or '-' for axes in self.axes)})"

    @property
    def part_shape(self) -> tuple[int, ...]:
        """Shape of a full part."""
        return tuple(-(-size // self._count(axes)) for size, axes in zip(self.shape, self.axes, strict=True))

    @property
    def replicated_over(self) -> tuple[str, ...]:
        """Axes along which devices hold the same part."""
        used = {axis for axes in self.axes for axis in axes}
        return tuple(axis for axis in self.mesh.axis_names if axis not in used and self._size(axis) > 1)

    @property
    def parts(self) -> Mapping[Part, tuple[int, ...]]:
        """Ids of the devices that hold each part, in the order of the mesh, including empty parts."""
        ids_of: dict[Part, list[int]] = {}
        for id_, part in self._parts_by_device():
            ids_of.setdefault(part, []).append(id_)
        return {part: tuple(ids) for part, ids in ids_of.items()}

    def part_of(self, device: int) -> Part:
        """Returns the part that a device holds, by its id.

        Raises:
          ParameterError: the mesh has no such device.
        """
        for id_, part in self._parts_by_device():
            if id_ == device:
                return part
        raise ParameterError(f"The {self.mesh} has no device {device}.")

    def is_short(self, part: Part) -> bool:
        """Reports whether a part is smaller than `part_shape`, because the split does not divide a dimension evenly."""
        return tuple(stop - start for start, stop in part) != self.part_shape

    def table(self) -> pd.DataFrame:
        """Returns a table with one row per device.

        Columns:
          device: its id.
          coordinates: its mesh indices.
          dimension 0, dimension 1, ...: the range of its part, "start:end".
          elements: number of elements of its part.
          is_short: whether its part is smaller than `part_shape`.
        """
        kinds: dict[str, Kind] = {"device": "int", "coordinates": "object"}
        for d in range(len(self.shape)):
            kinds[f"dimension {d}"] = "text"
        kinds |= {"elements": "int", "is_short": "bool"}
        places = np.stack(self.mesh.coordinates(np.arange(self.mesh.size)), -1).reshape(self.mesh.size, -1).tolist()
        rows = [
            (
                id_,
                tuple(place),
                *(f"{start}:{stop}" for start, stop in part),
                math.prod(stop - start for start, stop in part),
                self.is_short(part),
            )
            for (id_, part), place in zip(self._parts_by_device(), places, strict=True)
        ]
        return make_table(kinds, rows)

    def plot(self, dimensions: Sequence[int] | None = None, at: Mapping[int, int] | None = None) -> Figure:
        """Draws two dimensions, with the ids of the devices in their parts: see `analysis/sharding/plot.py`.

        Args:
          dimensions: the vertical and the horizontal dimension; by default the first two that are split, or else the last.
          at: index along each of the other dimensions; 0 by default.

        Raises:
          ParameterError: no such dimension or index.
        """
        from inspector.analysis.sharding.plot import plot_parts

        rank = len(self.shape)
        shown = self._default_dimensions() if dimensions is None else tuple(dimensions)
        if len(set(shown)) != len(shown) or len(shown) > 2 or not all(0 <= d < rank for d in shown):
            raise ParameterError(f"Got dimensions {shown}; expected at most two different ones, from 0 to {rank - 1}.")
        indices = dict(at or {})
        fixed = {d: indices.pop(d, 0) for d in range(rank) if d not in shown}
        if indices or not all(0 <= index < max(1, self.shape[d]) for d, index in fixed.items()):
            raise ParameterError(
                f"Got at={short(dict(at or {}))}; expected indices for dimensions {sorted(fixed) or 'none'}, within {self.shape}."
            )
        parts = {
            tuple(part[d] for d in shown): ids
            for part, ids in self.parts.items()
            if all(part[d][0] <= index < part[d][1] for d, index in fixed.items())
        }
        smaller = {tuple(part[d] for d in shown) for part in self.parts if self.is_short(part)}
        named = [f"{d}: {', '.join(self.axes[d])}" if self.axes[d] else str(d) for d in shown]
        where = [f"dimension {d} at {index}" for d, index in fixed.items()]
        idle = [str(id_) for part, ids in self.parts.items() if any(a == b for a, b in part) for id_ in ids]
        where += [f"nothing on {format_list(idle)}"] if idle else []
        return plot_parts([self.shape[d] for d in shown], named, parts, smaller, ", ".join(where))

    def _default_dimensions(self) -> tuple[int, ...]:
        rank = len(self.shape)
        split = [d for d in range(rank) if self._count(self.axes[d]) > 1]
        others = [d for d in reversed(range(rank)) if d not in split]
        return tuple(sorted((split + others)[:2]))

    def _parts_by_device(self) -> list[tuple[int, Part]]:
        """Returns pairs of a device id and its part, in the order of the mesh."""
        places = dict(zip(self.mesh.axis_names, self.mesh.coordinates(np.arange(self.mesh.size)), strict=True))
        bounds: list[list[Range]] = []
        for size, axes, step in zip(self.shape, self.axes, self.part_shape, strict=True):
            index = np.zeros(self.mesh.size, np.int64)
            for axis in axes:
                index = index * self._size(axis) + places[axis]
            starts, stops = np.minimum(index * step, size), np.minimum((index + 1) * step, size)
            bounds.append(list(zip(starts.tolist(), stops.tolist(), strict=True)))
        ids = self.mesh.physical_id_of_position.tolist()
        parts = list(zip(*bounds, strict=True)) if bounds else [()] * self.mesh.size
        return list(zip(ids, parts, strict=True))

    def _size(self, axis: str) -> int:
        return self.mesh.axis_sizes[self.mesh.axis_names.index(axis)]

    def _count(self, axes: Sequence[str]) -> int:
        return math.prod(map(self._size, axes))
