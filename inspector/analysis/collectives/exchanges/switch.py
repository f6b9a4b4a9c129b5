"""`Switch`: a host whose devices are linked by switches."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Self

from inspector.analysis.collectives.exchanges.links import NOT_GIVEN, Links, named_chip
from inspector.analysis.collectives.exchanges.torus import Link, Place
from inspector.errors import ParameterError, Unavailable
from inspector.platforms.chip import NOT_PUBLISHED
from inspector.platforms.topologies import Slices

HUB: Place = ()
"""Where the switches are."""


@dataclasses.dataclass(frozen=True, slots=True)
class Switch:
    """Devices that each have a link to switches and a link from them, and wait for nobody else there.

    Attributes:
      device_count: JAX devices.
      bytes_per_s: of a device's links, one way; Unavailable leaves times unknown.
      latency_s: of a step.
    """

    device_count: int
    bytes_per_s: float | Unavailable = NOT_GIVEN
    latency_s: float = 0.0

    def __post_init__(self) -> None:
        Links("switch", self.bytes_per_s, self.latency_s)  # which checks them
        if self.device_count < 1:
            raise ParameterError(f"Got {self.device_count} devices; expected 1 or more.")

    @classmethod
    def published(cls, target: str, *, latency_s: float = 0.0) -> Self:
        """Of GPUs in one host such as "gpu:h100:8", by their maker's figures.

        Raises:
          ParameterError: a TPU, or more GPUs than such links join: what lies between hosts differs from cluster to cluster.
          TargetError: there is no such host.
        """
        found, (_, _, shape) = named_chip(target), (target.split("@")[0] + "::").split(":")[:3]
        if isinstance(found.topologies, Slices):
            raise ParameterError(f"Got {target!r}; expected GPUs such as 'gpu:h100:8': TPUs have a torus, see Torus.")
        count = found.topologies.device_count(found.topologies.read(target, f"gpu:{found.name}", shape))
        linked = 0 if found.peak is None else found.peak.linked_devices
        if linked and count > linked:
            raise ParameterError(
                f"Got {target!r}: its links join {linked} GPUs, and nobody publishes what lies between hosts."
                f" Take at most {linked}, or give a Switch of your own."
            )
        both = NOT_PUBLISHED if found.peak is None else found.peak.interconnect_bytes_per_s
        return cls(count, both if isinstance(both, Unavailable) else both / 2, latency_s)

    @property
    def text(self) -> str:
        """What it is, such as "8 devices at a switch"."""
        return f"{self.device_count} devices at a switch"

    def place(self, device: int) -> Place:
        """Of a device by its id."""
        return (device,)

    def links(self) -> Iterator[Link]:
        """All: from each device to the switches, and back."""
        for device in range(self.device_count):
            yield (device,), HUB
            yield HUB, (device,)

    def route(self, sender: int, receiver: int) -> Sequence[Link]:
        """The links from one device to another."""
        return () if sender == receiver else (((sender,), HUB), (HUB, (receiver,)))
