"""`Torus`: a TPU slice with its links, and `LinkLoads`: what a collective puts on each of them."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Self, TypeAlias

from inspector.analysis.collective import Collective
from inspector.analysis.exchanges.exchange import exchange
from inspector.analysis.exchanges.links import NOT_GIVEN, Links, named_chip, speed_of_one_link
from inspector.errors import ModuleError, ParameterError, Unavailable
from inspector.platforms.chip import NOT_PUBLISHED
from inspector.platforms.topologies import Slices
from inspector.tables import Kind, Tabular, make_table
from inspector.units import format_bytes

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Place: TypeAlias = tuple[int, ...]
"""Of a chip, along each axis."""
Link: TypeAlias = tuple[Place, Place]
"""From one chip to its neighbour."""

_KINDS: Mapping[str, Kind] = {"from": "object", "to": "object", "bytes": "float", "share": "float"}


@dataclasses.dataclass(frozen=True, slots=True)
class Torus:
    """The chips of a TPU slice, each with a link each way to its neighbours along every axis.

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
                f"Got {target!r}; expected a TPU slice such as 'tpu:v5e:4x4': others have switches, see Links."
            )
        topology = found.topologies.read(target, f"tpu:{found.name}", shape)
        speed = NOT_PUBLISHED if found.peak is None else found.peak.interconnect_bytes_per_s
        link = speed_of_one_link(speed, found.topologies.rank)
        return cls(topology, found.topologies.wraps(topology), link, latency_s, found.topologies.devices_per_chip)

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


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class LinkLoads(Tabular):
    """What all groups of a collective, at once, put on the links of a slice, by the algorithm of a textbook.

    Attributes:
      name: of the collective.
      algorithm: one of `textbook.ALGORITHMS`.
      torus: the slice.
      steps: bytes by link, one a step.
    """

    name: str
    algorithm: str
    torus: Torus
    steps: tuple[Mapping[Link, float], ...]

    def __repr__(self) -> str:
        sizes = "x".join(map(str, self.torus.shape))
        time = "" if isinstance(self.seconds, Unavailable) else f", {self.seconds * 1e6:.3g} µs"
        idle = sum(not self.bytes.get(link) for link in self.torus.links())
        return (
            f"<{self.name} by {self.algorithm} on {sizes} chips: {len(self.steps)} steps, at most"
            f" {format_bytes(round(max(self.bytes.values(), default=0.0)))} on a link, {idle} links idle{time}>"
        )

    @property
    def bytes(self) -> Mapping[Link, float]:
        """By link, in all steps; those that carry nothing are left out."""
        found: dict[Link, float] = {}
        for step in self.steps:
            for link, count in step.items():
                found[link] = found.get(link, 0.0) + count
        return found

    @property
    def seconds(self) -> float | Unavailable:
        """All steps, one after the other: latency, and the bytes on the busiest link over its speed."""
        speed = self.torus.bytes_per_s
        if isinstance(speed, Unavailable):
            return speed
        return sum(self.torus.latency_s + max(step.values(), default=0.0) / speed for step in self.steps)

    def table(self) -> pd.DataFrame:
        """A row a link, the busiest first; `share` is of the busiest."""
        found = self.bytes
        most = max(found.values(), default=0.0) or 1.0
        rows = [(a, b, found.get((a, b), 0.0), found.get((a, b), 0.0) / most) for a, b in self.torus.links()]
        rows.sort(key=lambda row: -row[2])
        return make_table(_KINDS, rows)

    def plot(self) -> Figure:
        """The slice with its links, darker the more they carry: see `torus_plot.plot_links`."""
        from inspector.analysis.exchanges.torus_plot import plot_links

        chips: dict[Place, list[int]] = {}
        for device in range(self.torus.device_count):
            chips.setdefault(self.torus.place(device), []).append(device)
        found = self.bytes
        time = "" if isinstance(self.seconds, Unavailable) else f", {self.seconds * 1e6:.3g} µs by the model"
        most = format_bytes(round(max(found.values(), default=0.0)))
        title = f"{self.name} by {self.algorithm} (textbook)\nat most {most} on a link{time}"
        return plot_links(chips, {link: found.get(link, 0.0) for link in self.torus.links()}, title)


def link_loads(collective: Collective, algorithm: str, torus: Torus, devices: Sequence[int] | None) -> LinkLoads:
    """What all groups of a collective put on the links of a slice.

    Args:
      collective: whose members are known.
      algorithm: one of `textbook.ALGORITHMS`.
      torus: the slice.
      devices: the physical id at each logical one; None where they are the same.

    Raises:
      ParameterError: an unknown algorithm, or ids that the slice does not have.
      ModuleError: its members are not known, or no textbook does it so.
    """
    if isinstance(collective.participants, Unavailable):
        raise ModuleError(f"The members of {collective.name} are not known: {collective.participants.reason}")
    groups = 1 if collective.opcode == "collective-permute" else len(collective.participants)
    steps: list[dict[Link, float]] = []
    for group in range(groups):
        done = exchange(collective, algorithm, group, Links())
        ids = [_physical(member, devices, torus) for member in done.members]
        for number, step in enumerate(done.steps):
            if number == len(steps):
                steps.append({})
            for transfer in step:
                for link in torus.route(ids[transfer.sender], ids[transfer.receiver]):
                    steps[number][link] = steps[number].get(link, 0.0) + len(transfer.blocks) * done.block_bytes
        algorithm = done.algorithm
    return LinkLoads(collective.name, algorithm, torus, tuple(steps))


def _physical(logical: int, devices: Sequence[int] | None, torus: Torus) -> int:
    if devices is not None and logical >= len(devices):
        raise ParameterError(f"Device {logical} takes part, and {len(devices)} physical ids are given: give one each.")
    device = logical if devices is None else int(devices[logical])
    if not 0 <= device < torus.device_count:
        sizes = "x".join(map(str, torus.shape))
        raise ParameterError(
            f"Device {device} takes part, and a slice of {sizes} has {torus.device_count}: choose a larger one."
        )
    return device
