"""`Torus`: a TPU slice with its links."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Self, TypeAlias

from inspector.analysis.collectives.exchanges.links import NOT_GIVEN, Links, named_chip, speed_of_one_link
from inspector.errors import ParameterError, Unavailable
from inspector.platforms.chip import NOT_PUBLISHED
from inspector.platforms.topologies import Slices

Place: TypeAlias = tuple[int, ...]
"""Of a chip, along each axis."""
Link: TypeAlias = tuple[Place, Place]
"""From one chip to its neighbor."""


@dataclasses.dataclass(frozen=True, slots=True)
class Torus:
    """The chips of a TPU slice, each with a link each way to its neighbors along every axis.

    Attributes:
      shape: chips along each axis.
      wraps: whether the last along each is linked to the first.
      bytes_per_s: of a link, one way; Unavailable leaves times unknown.
      latency_s: of a step.
      devices_per_chip: JAX devices.
    """

    shape: tuple[int, ...]
    wraps: tuple[bool, ...]
    bytes_per_s: float | Unavailable = NOT_GIVEN
    latency_s: float = 0.0
    devices_per_chip: int = 1

    def __post_init__(self) -> None:
        Links("ring", self.bytes_per_s, self.latency_s)  # which checks them
        if not self.shape or min(self.shape) < 1 or len(self.wraps) != len(self.shape):
            raise ParameterError(
                f"Got chips {self.shape} with wraps {self.wraps}; expected 1 or more along each axis, and one of wraps each."
            )

    @classmethod
    def published(cls, target: str, *, latency_s: float = 0.0) -> Self:
        """Of a slice such as "tpu:v5e:4x4", by its maker's figures.

        Raises:
          ParameterError: not a TPU slice.
          TargetError: a TPU has no such slice.
        """
        found, (_, _, shape) = named_chip(target), (target.split("@")[0] + "::").split(":")[:3]
        if not isinstance(found.topologies, Slices):
            raise ParameterError(
                f"Got {target!r}; expected a TPU slice such as 'tpu:v5e:4x4': others have switches, see Switch."
            )
        topology = found.topologies.read(target, f"tpu:{found.name}", shape)
        speed = NOT_PUBLISHED if found.peak is None else found.peak.interconnect_bytes_per_s
        link = speed_of_one_link(speed, found.topologies.rank)
        return cls(topology, found.topologies.wraps(topology), link, latency_s, found.topologies.devices_per_chip)

    @property
    def text(self) -> str:
        """What it is, such as "4x2 chips"."""
        return f"{'x'.join(map(str, self.shape))} chips"

    @property
    def device_count(self) -> int:
        """JAX devices."""
        return math.prod(self.shape) * self.devices_per_chip

    def place(self, device: int) -> tuple[int, ...]:
        """Of a device by its id, as JAX numbers them on a TPU: the first axis is the fastest."""
        rest, place = device // self.devices_per_chip, []
        for size in self.shape:
            rest, along = divmod(rest, size)
            place.append(along)
        return tuple(place)

    def links(self) -> Iterator[Link]:
        """All, each way."""
        for place in itertools.product(*map(range, self.shape)):
            for axis, size in enumerate(self.shape):
                for way in (1, -1):
                    along = place[axis] + way
                    if 0 <= along < size or (self.wraps[axis] and size > 2):
                        yield place, (*place[:axis], along % size, *place[axis + 1 :])

    def route(self, sender: int, receiver: int) -> Sequence[Link]:
        """The links from one device to another: the shortest way, along the first axis first."""
        place, goal = self.place(sender), self.place(receiver)
        taken: list[Link] = []
        for axis, size in enumerate(self.shape):
            ahead = (goal[axis] - place[axis]) % size
            is_around = self.wraps[axis] and size > 2
            way = 1 if (2 * ahead <= size if is_around else goal[axis] > place[axis]) else -1
            while place[axis] != goal[axis]:
                following = (*place[:axis], (place[axis] + way) % size, *place[axis + 1 :])
                taken.append((place, following))
                place = following
        return taken
