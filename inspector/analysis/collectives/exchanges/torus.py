"""`Torus`: the chips of a TPU slice and their links."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Self, TypeAlias

from inspector.analysis.collectives.exchanges.links import (
    HOP_S,
    NOT_GIVEN,
    Links,
    named_chip,
    shortest,
    speed_of_one_link,
)
from inspector.errors import ParameterError, Unavailable
from inspector.platforms.chip import NOT_PUBLISHED
from inspector.platforms.topologies import Slices
from inspector.support.notebook import short

Place: TypeAlias = tuple[int, ...]
"""Coordinates of a chip, one per axis."""
Link: TypeAlias = tuple[Place, Place]
"""A link from one chip to its neighbor."""


@dataclasses.dataclass(frozen=True, slots=True)
class Torus:
    """The chips of a TPU slice, linked in both directions to their neighbors along every axis.

    Attributes:
      shape: number of chips along each axis.
      wraps: for each axis, whether the last chip is linked to the first.
      bytes_per_s: speed of a link in one direction; Unavailable if unknown, and then so are times.
      latency_s: latency of a hop.
      devices_per_chip: number of JAX devices per chip.
    """

    shape: tuple[int, ...]
    wraps: tuple[bool, ...]
    bytes_per_s: float | Unavailable = NOT_GIVEN
    latency_s: float = 0.0
    devices_per_chip: int = 1

    def __post_init__(self) -> None:
        Links("ring", self.bytes_per_s, self.latency_s)  # checks speed and latency
        if not self.shape or min(self.shape) < 1 or len(self.wraps) != len(self.shape):
            raise ParameterError(
                f"Got shape {short(self.shape)} and wraps {short(self.wraps)}; expected 1 or more chips along each axis, and one entry of"
                " wraps per axis."
            )

    @classmethod
    def published(cls, target: str, *, latency_s: float = HOP_S) -> Self:
        """Returns a slice such as "tpu:v5e:4x4", with the vendor's published speed.

        Raises:
          ParameterError: not a TPU slice.
          TargetError: the TPU has no such slice.
        """
        chip, (_, _, shape) = named_chip(target), (target.split("@")[0] + "::").split(":")[:3]
        if not isinstance(chip.topologies, Slices):
            raise ParameterError(
                f"Got {short(target)}; expected a TPU slice such as 'tpu:v5e:4x4'. GPUs are connected by switches: use Switch."
            )
        topology = chip.topologies.read(target, f"tpu:{chip.name}", shape)
        speed = NOT_PUBLISHED if chip.peak is None else chip.peak.interconnect_bytes_per_s
        link = speed_of_one_link(speed, chip.topologies.rank)
        return cls(topology, chip.topologies.wraps(topology), link, latency_s, chip.topologies.devices_per_chip)

    @property
    def text(self) -> str:
        """Description, such as "4x2 chips"."""
        return f"{'x'.join(map(str, self.shape))} chips"

    @property
    def device_count(self) -> int:
        """Number of JAX devices."""
        return math.prod(self.shape) * self.devices_per_chip

    def place(self, device: int) -> tuple[int, ...]:
        """Returns the coordinates of a device's chip. JAX numbers TPU devices with the first axis varying fastest."""
        rest, place = device // self.devices_per_chip, []
        for size in self.shape:
            rest, along = divmod(rest, size)
            place.append(along)
        return tuple(place)

    def links(self) -> Iterator[Link]:
        """Yields all links, in both directions."""
        for place in itertools.product(*map(range, self.shape)):
            for axis, size in enumerate(self.shape):
                for way in (1, -1):
                    along = place[axis] + way
                    if 0 <= along < size or (self.wraps[axis] and size > 2):
                        yield place, (*place[:axis], along % size, *place[axis + 1 :])

    def has_ring(self, axis: int) -> bool:
        """Reports whether the chips along an axis form a ring with two ways between any of them."""
        return self.wraps[axis] and self.shape[axis] > 2

    def route(self, sender: int, receiver: int) -> Sequence[Link]:
        """Returns the links on a shortest path from one device to another, along the first axis first."""
        return next((links for _, links in self.ways(sender, receiver)), ())

    def ways(self, sender: int, receiver: int) -> Sequence[tuple[float, Sequence[Link]]]:
        """Returns the shortest paths from one device to another, along the first axis first.

        Each has the share of the data that takes it: where both ways around an axis are equally long, half takes each.
        """
        goal = self.place(receiver)
        found: list[tuple[float, tuple[Place, tuple[Link, ...]]]] = [(1.0, (self.place(sender), ()))]
        for axis, size in enumerate(self.shape):
            found = [
                (share * part, _moved(place, links, axis, hops, size))
                for share, (place, links) in found
                for part, hops in self._hops(axis, goal[axis] - place[axis])
            ]
        return [(share, links) for share, (_, links) in found if links]

    def hops(self, sender: int, receiver: int) -> int:
        """Returns the number of hops on a shortest path from one device to another."""
        pairs = enumerate(zip(self.place(sender), self.place(receiver), strict=True))
        return sum(abs(self._hops(axis, b - a)[0][1]) for axis, (a, b) in pairs)

    def _hops(self, axis: int, distance: int) -> Sequence[tuple[float, int]]:
        return shortest(distance, self.shape[axis]) if self.has_ring(axis) else ((1.0, distance),)


def _moved(place: Place, taken: tuple[Link, ...], axis: int, hops: int, size: int) -> tuple[Place, tuple[Link, ...]]:
    """Returns the place after a number of hops along an axis, and the links taken so far."""
    for _ in range(abs(hops)):
        following = (*place[:axis], (place[axis] + (1 if hops > 0 else -1)) % size, *place[axis + 1 :])
        taken, place = (*taken, (place, following)), following
    return place, taken
