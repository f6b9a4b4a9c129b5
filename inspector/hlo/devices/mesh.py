"""`Mesh`: named axes over devices, which give replica groups their meaning.

An *axis environment* names the replicas of a program, and a *device mesh* its partitions. Both have the same type here.
Independent of JAX. `lowering/` builds meshes, and `analysis/collectives/collectives.py` reads them.
"""

from __future__ import annotations

import array
import dataclasses
import functools
import math
from typing import Literal

import numpy as np
import numpy.typing as npt

from inspector.hlo.devices.mixed_radix import radices
from inspector.support.field_equality import OfFields


@dataclasses.dataclass(frozen=True)
class Mesh(OfFields):
    """Named axes over logical ids, in row-major order.

    Attributes:
      axis_names: names, outermost first; `str()` of the user's axis name objects.
      axis_sizes: one positive integer per name.
      kind: "replica" if the ids are replica ids (an axis environment), "partition" if they are partition ids (a JAX mesh
        under SPMD).
      device_ids: the logical id at each mesh position, row-major; None for 0, 1, 2, ...
      physical_ids: the physical device id of each logical id, for a mesh of permuted devices; None for 0, 1, 2, ... and if
        the user did not choose devices.

    Raises:
      ValueError: the numbers of names, sizes and ids do not match.
    """

    axis_names: tuple[str, ...]
    axis_sizes: tuple[int, ...]
    kind: Literal["replica", "partition"]
    device_ids: tuple[int, ...] | None = None
    physical_ids: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if len(self.axis_names) != len(self.axis_sizes) or min(self.axis_sizes, default=1) < 0:
            raise ValueError(
                f"axes {self.axis_names} have sizes {self.axis_sizes}; expected one size per axis, 0 or more"
            )
        for kind, ids in (("device", self.device_ids), ("physical", self.physical_ids)):
            if ids is not None and len(ids) != self.size:
                raise ValueError(f"{len(ids)} {kind} ids for a mesh of {self.size} positions")

    @property
    def size(self) -> int:
        """Number of positions."""
        return math.prod(self.axis_sizes)

    @functools.cached_property
    def id_of_position(self) -> npt.NDArray[np.int64]:
        """Logical id at each row-major position, as a read-only array."""
        if self.device_ids is None:
            ids = np.arange(self.size, dtype=np.int64)
        else:
            ids = np.array(array.array("q", self.device_ids), np.int64)
        ids.setflags(write=False)
        return ids

    @property
    def physical_id_of_position(self) -> npt.NDArray[np.int64]:
        """Physical device id at each row-major position."""
        ids = self.id_of_position
        return ids if self.physical_ids is None else np.array(self.physical_ids, np.int64)[ids]

    @functools.cached_property
    def position_of_id(self) -> npt.NDArray[np.int64]:
        """Row-major position of each logical id."""
        positions = np.arange(self.size, dtype=np.int64)
        if self.device_ids is not None:
            positions[self.id_of_position] = np.arange(self.size)
        return positions

    def coordinates(self, positions: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], ...]:
        """Returns the coordinates of row-major positions along each axis. Arrays have the shape of `positions`."""
        return tuple(positions // stride % size for size, stride in radices(self.axis_sizes))

    def __str__(self) -> str:
        axes = ", ".join(f"{n}={s}" for n, s in zip(self.axis_names, self.axis_sizes, strict=True))
        return f"{self.kind} mesh ({axes})"
