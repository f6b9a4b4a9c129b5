"""What lies between the members of a group, and how long bytes take on it."""

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

KINDS = ("ring", "line", "switch")
NOT_GIVEN = Unavailable("the speed of the links was not given")


@dataclasses.dataclass(frozen=True, slots=True)
class Links:
    """Links between members, in the order of the group.

    A step takes the latency, and the bytes on its busiest link over the link's speed: the latency-bandwidth model
    (Hockney, "The communication challenge for MPP", 1994). A message between members that are not neighbors loads every
    link on its shortest way, and waits at none.

    Attributes:
      kind: "ring" has a link each way between neighbors, the last and the first too, as a torus along an axis with
        wrap-around; "line" has none between these; "switch" gives every member a link in and a link out.
      bytes_per_s: of a link, one way; Unavailable leaves times unknown.
      latency_s: of a step.
    """

    kind: str = "ring"
    bytes_per_s: float | Unavailable = NOT_GIVEN
    latency_s: float = 0.0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ParameterError(f"Got links of the kind {self.kind!r}; expected one of {', '.join(KINDS)}.")
        speed = 1.0 if isinstance(self.bytes_per_s, Unavailable) else self.bytes_per_s
        if not (math.isfinite(speed) and speed > 0 and math.isfinite(self.latency_s) and self.latency_s >= 0):
            raise ParameterError(
                f"Got {self.bytes_per_s!r} bytes a second and {self.latency_s!r} s; expected a speed above 0 and a latency"
                " of 0 or more."
            )

    @classmethod
    def published(cls, chip: str, *, wraps: bool = False, latency_s: float = 0.0) -> Self:
        """Of a chip by its maker's figures: a link of a TPU's torus one way, or all that a GPU sends over its switches.

        Args:
          chip: such as "tpu:v5e" or "gpu:h100"; what follows of a target is not read.
          wraps: of a TPU, whether the members are a whole axis whose ends are linked; `Torus` knows it by slice.
          latency_s: of a step; no maker publishes it.

        Raises:
          ParameterError: no such chip.
        """
        found = named_chip(chip)
        speed = NOT_PUBLISHED if found.peak is None else found.peak.interconnect_bytes_per_s
        if not isinstance(found.topologies, Slices):
            one_way = speed if isinstance(speed, Unavailable) else speed / 2
            return cls("switch", one_way, latency_s)
        return cls("ring" if wraps else "line", speed_of_one_link(speed, found.topologies.rank), latency_s)

    def route(self, sender: int, receiver: int, count: int) -> Sequence[tuple[str, int, int]]:
        """The links from one member to another: "out" and "in" of a switch, else ("link", from, to)."""
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
        """Of steps one after the other, from the bytes on each link."""
        if isinstance(self.bytes_per_s, Unavailable):
            return self.bytes_per_s
        return sum(self.latency_s + max(step.values(), default=0.0) / self.bytes_per_s for step in steps)


def named_chip(text: str) -> Chip:
    """The chip that a text such as "tpu:v5e:4x4" begins with.

    Raises:
      ParameterError: no such chip.
    """
    kind, _, rest = text.split("@")[0].partition(":")
    name = rest.partition(":")[0]
    for chip in chips_of_kind(kind).values():
        if name in (chip.name, *chip.aliases):
            return chip
    known = ", ".join(sorted(chip.name for chip in chips()))
    raise ParameterError(f"Got {text!r}; expected a chip such as 'tpu:v5e' or 'gpu:h100', one of {known}.")


def speed_of_one_link(speed: float | Unavailable, rank: int) -> float | Unavailable:
    """One way: a chip has two links an axis, and makers add up both ways of all."""
    return speed if isinstance(speed, Unavailable) else speed / (2 * rank) / 2
