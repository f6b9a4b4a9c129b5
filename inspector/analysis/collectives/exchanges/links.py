"""`Links`: the links between the members of a group, with their speed and latency."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Self

from inspector.errors import ParameterError, Unavailable
from inspector.platforms import chips, chips_of_kind
from inspector.platforms.chip import NOT_PUBLISHED, Chip
from inspector.platforms.topologies import Slices
from inspector.support.notebook import short

KINDS = ("ring", "line", "switch")
NOT_GIVEN = Unavailable("the speed of the links was not specified")


@dataclasses.dataclass(frozen=True, slots=True)
class Links:
    """Links between members, in the order of the group.

    A step takes the latency plus the bytes on its busiest link over the link's speed: the latency-bandwidth model
    (Hockney, "The communication challenge for MPP", 1994). A message between members that are not neighbors loads every
    link on its shortest path, without waiting between links.

    Attributes:
      kind: "ring" has a link in each direction between neighbors, and between the last and the first member, like a
        torus axis with wrap-around; "line" is a ring without the link between last and first; "switch" gives every
        member one link in and one link out.
      bytes_per_s: speed of a link in one direction; Unavailable if unknown, and then so are times.
      latency_s: latency of a step.
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
    def published(cls, chip: str, *, wraps: bool = False, latency_s: float = 0.0) -> Self:
        """Returns the links of a chip, with the vendor's published speed.

        The speed is that of one torus link in one direction for a TPU, and that of all links to the switches together for
        a GPU.

        Args:
          chip: such as "tpu:v5e" or "gpu:h100"; the rest of a target is ignored.
          wraps: for a TPU, whether the members are a whole axis whose ends are linked; `Torus` derives this from the
            slice.
          latency_s: latency of a step, which no vendor publishes.

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
        """Returns the links on the path from one member to another: "out" and "in" of a switch, else ("link", from, to)."""
        if sender == receiver:
            return ()
        if self.kind == "switch":
            return ("out", sender, sender), ("in", receiver, receiver)
        ahead = (receiver - sender) % count
        way = 1 if (self.kind == "line" and receiver > sender) or (self.kind == "ring" and 2 * ahead <= count) else -1
        hops = abs(receiver - sender) if self.kind == "line" else min(ahead, count - ahead)
        places = [(sender + way * hop) % count for hop in range(hops + 1)]
        return [("link", a, b) for a, b in itertools.pairwise(places)]

    def seconds(self, steps: Sequence[Mapping[tuple[str, int, int], float]]) -> float | Unavailable:
        """Returns the estimated time of steps in sequence, from the bytes on each link in each step."""
        if isinstance(self.bytes_per_s, Unavailable):
            return self.bytes_per_s
        return sum(self.latency_s + max(step.values(), default=0.0) / self.bytes_per_s for step in steps)


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
