"""What lies between the members of a group, and how long bytes take on it."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence

from inspector.errors import ParameterError, Unavailable

KINDS = ("ring", "line", "switch")
_NOT_GIVEN = Unavailable("the speed of the links was not given")


@dataclasses.dataclass(frozen=True, slots=True)
class Links:
    """Links between members, in the order of the group.

    A step takes the latency, and the bytes on its busiest link over the link's speed: the latency-bandwidth model
    (Hockney, "The communication challenge for MPP", 1994). A message between members that are not neighbours loads every
    link on its shortest way, and waits at none.

    Attributes:
      kind: "ring" has a link each way between neighbours, the last and the first too, as a torus along an axis with
        wrap-around; "line" has none between these; "switch" gives every member a link in and a link out.
      bytes_per_s: of a link, one way; Unavailable leaves times unknown.
      latency_s: of a step.
    """

    kind: str = "ring"
    bytes_per_s: float | Unavailable = _NOT_GIVEN
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
