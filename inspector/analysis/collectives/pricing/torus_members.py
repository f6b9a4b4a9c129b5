"""The members of all groups of a collective, as places on the axes of a torus.

Groups that are a product of places along each axis ("boxes", such as a row, a plane or every second chip of a row) use the
links along each axis in the same way, so their loads follow from one line per axis. Everything is computed with NumPy over
all groups together: a collective may have 65,536 members.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from inspector.analysis.collectives.exchanges.links import shortest
from inspector.analysis.collectives.exchanges.torus import Torus

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Loads = npt.NDArray[np.float64]


@dataclasses.dataclass(frozen=True, slots=True)
class Line:
    """Places along one axis that members of a group have, and the links between them.

    Attributes:
      count: number of places.
      links: number of links with which data arrives along this axis at the member that has fewest: 2 on a ring, 1 on a
        line, 0 if there is only one place.
      used: for each link of the axis, in the directions + and -, whether it lies between members: `[2, size]`.
      crossed: for each link, the number of pairs of places whose shortest way takes it, split where two are equally short.
      hops: number of hops of a gather along the line: half of a ring, or a line from end to end.
      farthest: number of hops between the members that are farthest from each other, by the shortest way.
    """

    count: int
    links: int
    used: Loads
    crossed: Loads
    hops: int
    farthest: int


def line(places: Flags, is_ring: bool) -> Line:
    """Returns the line of a group along an axis.

    Args:
      places: for each chip along the axis, whether a member is there.
      is_ring: whether the last chip is linked to the first.
    """
    size, at = len(places), np.flatnonzero(places)
    count, used = len(at), np.zeros((2, size))
    if count < 2:
        return Line(count, 0, used, np.zeros((2, size)), 0, 0)
    gaps = np.diff(at, append=at[0] + size)
    goes_around = is_ring and int(gaps.min()) == int(gaps.max())
    if goes_around:
        used[:] = 1
        hops = size // 2
    else:  # everything but the longest gap; on a line that is not a ring, the gap over the end
        gap = int(gaps.argmax()) if is_ring else count - 1
        begin, hops = int(at[(gap + 1) % count]), size - int(gaps[gap])
        used[0, (begin + np.arange(hops)) % size] = 1
        used[1, (begin + 1 + np.arange(hops)) % size] = 1
    crossed, farthest = np.zeros((2, size)), 0
    for a in at:
        for b in at:
            if a != b:
                for share, distance in shortest(int(b - a), size) if is_ring else ((1.0, int(b - a)),):
                    farthest = max(farthest, abs(distance))
                    way, steps = int(distance < 0), np.arange(abs(distance))
                    crossed[way, (a + (steps if distance > 0 else -steps)) % size] += share
    return Line(count, 2 if goes_around else 1, used, crossed, hops, farthest)


class Members:
    """The groups of a collective on a torus.

    Attributes:
      torus: the slice.
      count: number of devices in each group: `[groups]`.
      chips: number of different chips in each group: `[groups]`.
      are_boxes: whether each group is a product of places along each axis, equally many devices on each chip.
    """

    def __init__(self, torus: Torus, devices: Numbers) -> None:
        """Finds the places of all members.

        Args:
          torus: the slice.
          devices: device ids `[groups, members]`, padded with -1.
        """
        self.torus = torus
        self.devices = devices
        self.is_member = devices >= 0
        self.count = self.is_member.sum(axis=1)
        self.chip = np.where(self.is_member, devices // torus.devices_per_chip, -1)
        self.places = places_of(torus, self.chip)
        ordered = np.sort(self.chip, axis=1)
        is_first = (ordered >= 0) & np.diff(ordered, axis=1, prepend=-1).astype(bool)
        self.chips = is_first.sum(axis=1)
        groups = np.broadcast_to(np.arange(len(devices))[:, None], devices.shape)[self.is_member]
        self.masks = []
        for axis, size in enumerate(torus.shape):
            mask = np.zeros((len(devices), size), bool)
            mask[groups, self.places[axis][self.is_member]] = True
            self.masks.append(mask)
        volume = np.prod([mask.sum(axis=1) for mask in self.masks], axis=0)
        self.are_boxes = bool(((volume == self.chips) & (self.count % np.maximum(self.chips, 1) == 0)).all())
        self._lines: list[list[tuple[Line, Numbers]]] | None = None

    @property
    def lines(self) -> list[list[tuple[Line, Numbers]]]:
        """The different lines along each axis, and the numbers of the groups that have them."""
        if self._lines is None:
            self._lines = [list(self._different(axis)) for axis in range(len(self.torus.shape))]
        return self._lines

    def _different(self, axis: int) -> Iterator[tuple[Line, Numbers]]:
        packed = np.packbits(self.masks[axis], axis=1)
        rows = np.ascontiguousarray(packed).view(np.dtype((np.void, packed.shape[1]))).ravel()
        _, first, kinds = np.unique(rows, return_index=True, return_inverse=True)
        order = np.argsort(kinds, kind="stable")
        for group, numbers in zip(first, np.split(order, np.cumsum(np.bincount(kinds))[:-1]), strict=True):
            yield line(self.masks[axis][group], self.torus.has_ring(axis)), numbers

    def spread(self, axis: int, on_line: Line, groups: Numbers, each: Loads, per_link: Loads) -> Loads:
        """Returns loads of an axis' links from the loads of one line: `[2, *shape]`, without those of other lines.

        Args:
          axis: the axis.
          on_line: the line.
          groups: numbers of the groups that have it.
          each: a factor for each of these groups.
          per_link: loads of the line's links: `[2, size]`.
        """
        shape = self.torus.shape
        others = [size for number, size in enumerate(shape) if number != axis]
        flat = np.zeros(int(np.prod(others, dtype=np.int64)))
        inside = self.is_member[groups]
        coordinates = [self.places[number][groups][inside] for number in range(len(shape)) if number != axis]
        lines = np.ravel_multi_index(coordinates, others) if others else np.zeros(int(inside.sum()), np.int64)
        devices_on_line = on_line.count * self.count[groups] // np.maximum(self.chips[groups], 1)
        weights = np.broadcast_to((each / devices_on_line)[:, None], inside.shape)[inside]
        flat += np.bincount(lines, weights, len(flat))
        grid = flat.reshape(others)[None, ..., None] * per_link.reshape(2, *(1 for _ in others), -1)
        return np.moveaxis(grid, -1, axis + 1)


def places_of(torus: Torus, chips: Numbers) -> list[Numbers]:
    """Returns the coordinates of chips along each axis; the first axis varies fastest."""
    found, rest = [], chips
    for size in torus.shape:
        found.append(rest % size)
        rest = rest // size
    return found
