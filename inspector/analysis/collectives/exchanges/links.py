"""`Links`: the links between the members of a group, with their speed and latency."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import Self, TypeAlias

from inspector.errors import ParameterError, Unavailable
from inspector.platforms import chips, chips_of_kind
from inspector.platforms.chip import NOT_PUBLISHED, Chip
from inspector.platforms.topologies import Slices
from inspector.support.notebook import short

KINDS = ("ring", "line", "switch")
HOP_S = 1e-6
"""Latency of a hop from one chip to the next, in seconds: about 1 µs on a TPU (jax-ml.github.io/scaling-book/sharding)."""
NOT_GIVEN = Unavailable("the speed of the links was not specified")


@dataclasses.dataclass(frozen=True, slots=True)
class Links:
    """Links between members, in the order of the group.

    A step takes the latency of its longest path plus the bytes on its busiest link over the link's speed: the
    latency-bandwidth model (Hockney, "The communication challenge for MPP", 1994), with the latency of each hop. A message
    between members that are not neighbors loads every link on its shortest path, without waiting between links; if both
    ways around a ring are equally short, half of it takes each.

    Attributes:
      kind: "ring" has a link in each direction between neighbors, and between the last and the first member, like a
        torus axis with wrap-around; "line" is a ring without the link between last and first; "switch" gives every
        member one link in and one link out.
      bytes_per_s: speed of a link in one direction; Unavailable if unknown, and then so are times.
      latency_s: latency of a hop; a switch counts as one hop.
    """

    kind: str = "ring"
    bytes_per_s: float | Unavailable = NOT_GIVEN
    latency_s: float = 0.0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ParameterError(f"Got links of kind {short(self.kind)}; expected one of {', '.join(KINDS)}.")
        speed = 1.0 if isinstance(self.bytes_per_s, Unavailable) else self.bytes_per_s
        if not (math.isfinite(speed) and speed > 0 and math.isfinite(self.latency_s) and self.latency_s >= 0):
            raise ParameterError(
                f"Got a speed of {short(self.bytes_per_s)} bytes/s and a latency of {short(self.latency_s)} s; expected a speed above 0"
                " and a latency of 0 or more."
            )

    @classmethod
    def published(cls, chip: str, *, wraps: bool = False, latency_s: float = HOP_S) -> Self:
        """Returns the links of a chip, with the vendor's published speed.

        The speed is that of one torus link in one direction for a TPU, and that of all links to the switches together for
        a GPU.

        Args:
          chip: such as "tpu:v5e" or "gpu:h100"; the rest of a target is ignored.
          wraps: for a TPU, whether the members are a whole axis whose ends are linked; `Torus` derives this from the
            slice.
          latency_s: latency of a hop, which no vendor publishes.

        Raises:
          ParameterError: no such chip.
        """
        named = named_chip(chip)
        speed = NOT_PUBLISHED if named.peak is None else named.peak.interconnect_bytes_per_s
        if not isinstance(named.topologies, Slices):
            one_way = speed if isinstance(speed, Unavailable) else speed / 2
            return cls("switch", one_way, latency_s)
        return cls("ring" if wraps else "line", speed_of_one_link(speed, named.topologies.rank), latency_s)

    def route(self, sender: int, receiver: int, count: int) -> Sequence[tuple[str, int, int]]:
        """Returns the links on a shortest path from one member to another: "out" and "in" of a switch, else ("link", from, to)."""
        return next((links for _, links in self.ways(sender, receiver, count)), ())

    def ways(self, sender: int, receiver: int, count: int) -> Sequence[Way]:
        """Returns the shortest paths from one member to another with the share of the data that takes each."""
        if sender == receiver:
            return ()
        if self.kind == "switch":
            return ((1.0, (("out", sender, sender), ("in", receiver, receiver))),)
        shares = [(1.0, receiver - sender)] if self.kind == "line" else shortest(receiver - sender, count)
        return [(share, _steps(sender, distance, count)) for share, distance in shares]

    def hops(self, sender: int, receiver: int, count: int) -> int:
        """Returns the number of hops on a shortest path from one member to another."""
        links = len(self.route(sender, receiver, count))
        return min(links, 1) if self.kind == "switch" else links

    def seconds(self, hops: int, busiest_bytes: float) -> float | Unavailable:
        """Returns the estimated time: see `link_seconds`."""
        return link_seconds(hops, busiest_bytes, self.bytes_per_s, self.latency_s)


Way: TypeAlias = tuple[float, Sequence[tuple[str, int, int]]]


def link_seconds(
    hops: int, busiest_bytes: float, bytes_per_s: float | Unavailable, latency_s: float
) -> float | Unavailable:
    """Returns the estimated time of a collective: the latency of its hops in sequence, and its bytes over the speed.

    All estimates of times on links use this function.

    Args:
      hops: number of hops in sequence, from chip to chip or through a switch.
      busiest_bytes: bytes on the busiest link; with several steps in sequence, their sum.
      bytes_per_s: speed of a link in one direction.
      latency_s: latency of a hop.
    """
    if not busiest_bytes:
        return 0.0
    return bytes_per_s if isinstance(bytes_per_s, Unavailable) else hops * latency_s + busiest_bytes / bytes_per_s


def shortest(distance: int, count: int) -> Sequence[tuple[float, int]]:
    """Returns the shortest ways around a ring as (share, signed hops); two of one half each if they are equally long."""
    ahead = distance % count
    if 2 * ahead == count:
        return (0.5, ahead), (0.5, -ahead)
    return ((1.0, ahead if 2 * ahead < count else ahead - count),)


def _steps(sender: int, distance: int, count: int) -> Sequence[tuple[str, int, int]]:
    way = 1 if distance > 0 else -1
    places = [(sender + way * hop) % count for hop in range(abs(distance) + 1)]
    return [("link", a, b) for a, b in itertools.pairwise(places)]


def named_chip(text: str) -> Chip:
    """Returns the chip named at the start of a target such as "tpu:v5e:4x4".

    Raises:
      ParameterError: no such chip.
    """
    kind, _, rest = text.split("@")[0].partition(":")
    name = rest.partition(":")[0]
    for chip in chips_of_kind(kind).values():
        if name in (chip.name, *chip.aliases):
            return chip
    known = ", ".join(sorted(chip.name for chip in chips()))
    raise ParameterError(f"Got {short(text)}; expected a chip such as 'tpu:v5e' or 'gpu:h100', one of {known}.")


def speed_of_one_link(speed: float | Unavailable, rank: int) -> float | Unavailable:
    """Returns the speed of one link in one direction.

    Vendors publish the sum over both directions of all links; a chip has two links per axis.
    """
    return speed if isinstance(speed, Unavailable) else speed / (2 * rank) / 2
