"""`Sharding`: which device holds which part of an array.

A dimension of n that is split in k goes in parts of ceil(n / k), as XLA pads it: the last parts that hold anything may be
short, and those behind them hold nothing.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from inspector.errors import ParameterError
from inspector.hlo.devices.mesh import Mesh
from inspector.support.tables import Kind, Tabular, make_table
from inspector.support.units import format_list

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Range: TypeAlias = tuple[int, int]
"""From one index until before another."""
Part: TypeAlias = tuple[Range, ...]
"""One range a dimension."""

_MOST_DEVICES = 1 << 16


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Sharding(Tabular):
    """An array over the devices of a mesh.

    Attributes:
      shape: of the whole array.
      mesh: the devices; a device's id is its `physical_ids`, or the logical id where it has none.
      axes: of each dimension, the mesh axes that split it, the first the slowest; () where it is whole.
    """

    shape: tuple[int, ...]
    mesh: Mesh
    axes: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        if len(self.axes) > len(self.shape):
            raise ParameterError(
                f"The sharding splits {len(self.axes)} dimensions, and the shape {self.shape} has {len(self.shape)}:"
                " give one entry a dimension, or fewer."
            )
        used = [axis for axes in self.axes for axis in axes]
        for axis in used:
            if axis not in self.mesh.axis_names:
                raise ParameterError(
                    f"No axis {axis!r} in the {self.mesh}; there are {format_list(list(self.mesh.axis_names))}."
                )
            if used.count(axis) > 1:
                raise ParameterError(f"The axis {axis!r} splits twice: an axis can split one dimension, once.")
        if self.mesh.size > _MOST_DEVICES:
            raise ParameterError(f"{self.mesh.size:,} devices are too many to list: at most {_MOST_DEVICES:,}.")
        object.__setattr__(self, "axes", self.axes + ((),) * (len(self.shape) - len(self.axes)))

    def __repr__(self) -> str:
        if not self.mesh.axis_names:
            return f"<{list(self.shape)} whole on device {self._held()[0][0]}>"
        sizes = "x".join(map(str, self.part_shape)) or "a scalar"
        copies = math.prod(self._size(axis) for axis in self.replicated_over)
        over = f", each on {copies} devices ({', '.join(self.replicated_over)})" if copies > 1 else ""
        short = "" if not any(map(self.is_short, self.parts)) else ", the last short"
        spec = ", ".join("+".join(axes) or "-" for axes in self.axes)
        return f"<{list(self.shape)} split by ({spec}) on the {self.mesh}: {len(self.parts)} part{'s' * (len(self.parts) > 1)} of {sizes}{over}{short}>"

    @property
    def part_shape(self) -> tuple[int, ...]:
        """Of a part that is not short."""
        return tuple(-(-size // self._count(axes)) for size, axes in zip(self.shape, self.axes, strict=True))

    @property
    def replicated_over(self) -> tuple[str, ...]:
        """Axes along which devices hold the same."""
        used = {axis for axes in self.axes for axis in axes}
        return tuple(axis for axis in self.mesh.axis_names if axis not in used and self._size(axis) > 1)

    @property
    def parts(self) -> Mapping[Part, tuple[int, ...]]:
        """The ids of the devices that hold each part, in the order of the mesh; the empty part is one too."""
        found: dict[Part, list[int]] = {}
        for id_, part in self._held():
            found.setdefault(part, []).append(id_)
        return {part: tuple(ids) for part, ids in found.items()}

    def part_of(self, device: int) -> Part:
        """What a device holds, by its id.

        Raises:
          ParameterError: the mesh has no such device.
        """
        for id_, part in self._held():
            if id_ == device:
                return part
        raise ParameterError(f"There is no device {device} on the {self.mesh}.")

    def is_short(self, part: Part) -> bool:
        """Whether a part has less than `part_shape`, because the dimension does not divide."""
        return tuple(stop - start for start, stop in part) != self.part_shape

    def table(self) -> pd.DataFrame:
        """A row a device: `device` is its id, `coordinates` its place on the mesh, `dimension 0` and so on the range that it holds."""
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
            for (id_, part), place in zip(self._held(), places, strict=True)
        ]
        return make_table(kinds, rows)

    def plot(self, dimensions: Sequence[int] | None = None, at: Mapping[int, int] | None = None) -> Figure:
        """Two dimensions as a picture, parts with the ids of their devices: see `sharding_plot.plot_parts`.

        Args:
          dimensions: down and across; the first two that are split by default, or the last.
          at: an index of any other dimension, 0 where none is given.

        Raises:
          ParameterError: no such dimension or index.
        """
        from inspector.analysis.sharding.plot import plot_parts

        rank = len(self.shape)
        shown = self._default_dimensions() if dimensions is None else tuple(dimensions)
        if len(set(shown)) != len(shown) or len(shown) > 2 or not all(0 <= d < rank for d in shown):
            raise ParameterError(f"Got the dimensions {shown}; expected at most two of 0 to {rank - 1}, each once.")
        given = dict(at or {})
        fixed = {d: given.pop(d, 0) for d in range(rank) if d not in shown}
        if given or not all(0 <= index < max(1, self.shape[d]) for d, index in fixed.items()):
            raise ParameterError(
                f"Got at={dict(at or {})}; expected an index of {sorted(fixed) or 'no dimension'}, within {self.shape}."
            )
        parts = {
            tuple(part[d] for d in shown): ids
            for part, ids in self.parts.items()
            if all(part[d][0] <= index < part[d][1] for d, index in fixed.items())
        }
        short = {tuple(part[d] for d in shown) for part in self.parts if self.is_short(part)}
        named = [f"{d}: {', '.join(self.axes[d])}" if self.axes[d] else str(d) for d in shown]
        where = [f"dimension {d} at {index}" for d, index in fixed.items()]
        idle = [str(id_) for part, ids in self.parts.items() if any(a == b for a, b in part) for id_ in ids]
        where += [f"nothing on {format_list(idle)}"] if idle else []
        return plot_parts([self.shape[d] for d in shown], named, parts, short, ", ".join(where))

    def _default_dimensions(self) -> tuple[int, ...]:
        rank = len(self.shape)
        split = [d for d in range(rank) if self._count(self.axes[d]) > 1]
        others = [d for d in reversed(range(rank)) if d not in split]
        return tuple(sorted((split + others)[:2]))

    def _held(self) -> list[tuple[int, Part]]:
        """(device id, its part), in the order of the mesh."""
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
