"""`Switch`: a host whose devices are connected by switches."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Self

from inspector.analysis.collectives.exchanges.links import HOP_S, NOT_GIVEN, Links, named_chip
from inspector.analysis.collectives.exchanges.torus import Link, Place
from inspector.errors import ParameterError, Unavailable
from inspector.platforms.chip import NOT_PUBLISHED
from inspector.platforms.topologies import Slices
from inspector.support.notebook import short

HUB: Place = ()
"""The place of the switches in a `Link`."""


@dataclasses.dataclass(frozen=True, slots=True)
class Switch:
    """Devices that each have one link to the switches and one link from them, without contention in the switches.

    Attributes:
      device_count: number of JAX devices.
      bytes_per_s: speed of a device's links in one direction; Unavailable if unknown, and then so are times.
      latency_s: latency of a hop, from one device through the switches to another.
      reduces: whether the switches reduce data that passes through them (NVLink SHARP).
    """

    device_count: int
    bytes_per_s: float | Unavailable = NOT_GIVEN
    latency_s: float = 0.0
    reduces: bool = False

    def __post_init__(self) -> None:
        Links("switch", self.bytes_per_s, self.latency_s)  # checks speed and latency
        if self.device_count < 1:
            raise ParameterError(f"Got {self.device_count} devices; expected 1 or more.")

    @classmethod
    def published(cls, target: str, *, latency_s: float = HOP_S) -> Self:
        """Returns the GPUs of one host such as "gpu:h100:8", with the vendor's published speed.

        Raises:
          ParameterError: a TPU, or more GPUs than the links join. The network between hosts differs from cluster to
            cluster.
          TargetError: there is no such host.
        """
        chip, (_, _, shape) = named_chip(target), (target.split("@")[0] + "::").split(":")[:3]
        if isinstance(chip.topologies, Slices):
            raise ParameterError(
                f"Got {short(target)}; expected GPUs such as 'gpu:h100:8'. TPUs are connected as a torus: use Torus."
            )
        count = chip.topologies.device_count(chip.topologies.read(target, f"gpu:{chip.name}", shape))
        linked = 0 if chip.peak is None else chip.peak.linked_devices
        if linked and count > linked:
            raise ParameterError(
                f"Got {short(target)}, but the links join only {linked} GPUs; the speed between hosts is not published."
                f" Use at most {linked} GPUs, or create a Switch."
            )
        both = NOT_PUBLISHED if chip.peak is None else chip.peak.interconnect_bytes_per_s
        reduces = chip.peak is not None and chip.peak.switches_reduce
        return cls(count, both if isinstance(both, Unavailable) else both / 2, latency_s, reduces)

    @property
    def text(self) -> str:
        """Description, such as "8 devices on a switch"."""
        return f"{self.device_count} devices on a switch"

    def place(self, device: int) -> Place:
        """Returns the place of a device, by its id."""
        return (device,)

    def links(self) -> Iterator[Link]:
        """Yields all links: from each device to the switches, and back."""
        for device in range(self.device_count):
            yield (device,), HUB
            yield HUB, (device,)

    def route(self, sender: int, receiver: int) -> Sequence[Link]:
        """Returns the links on the path from one device to another."""
        return () if sender == receiver else (((sender,), HUB), (HUB, (receiver,)))

    def ways(self, sender: int, receiver: int) -> Sequence[tuple[float, Sequence[Link]]]:
        """Returns the only path from one device to another, which all data takes."""
        return () if sender == receiver else ((1.0, self.route(sender, receiver)),)

    def hops(self, sender: int, receiver: int) -> int:
        """Returns 1: all devices are one hop from each other."""
        return int(sender != receiver)
