"""`LinkLoads`: what a collective puts on each link of a slice or a host, and how long that takes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from inspector.analysis.collectives.collective import Collective
from inspector.analysis.collectives.exchanges.exchange import exchange
from inspector.analysis.collectives.exchanges.links import Links, named_chip
from inspector.analysis.collectives.exchanges.switch import HUB, Switch
from inspector.analysis.collectives.exchanges.torus import Link, Place, Torus
from inspector.analysis.collectives.lower_bound import sent_bytes
from inspector.errors import ModuleError, ParameterError, Partial, Unavailable
from inspector.platforms.topologies import Slices
from inspector.support.tables import Kind, Tabular, make_table
from inspector.support.units import format_bytes

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Network: TypeAlias = Torus | Switch

_KINDS: Mapping[str, Kind] = {"from": "object", "to": "object", "bytes": "float", "share": "float"}


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class LinkLoads(Tabular):
    """What all groups of a collective, at once, put on the links of a slice or a host, by the algorithm of a textbook.

    Attributes:
      name: of the collective.
      algorithm: one of `textbook.ALGORITHMS`.
      network: the slice or the host.
      steps: bytes by link, one a step.
      most_sent_bytes: by the device that sends most, in all steps.
      most_received_bytes: likewise.
      bus_bytes: what its bus bandwidth counts: the bytes that any algorithm sends from a device at least.
    """

    name: str
    algorithm: str
    network: Network
    steps: tuple[Mapping[Link, float], ...]
    most_sent_bytes: float
    most_received_bytes: float
    bus_bytes: float | Unavailable

    def __repr__(self) -> str:
        time = "" if isinstance(self.seconds, Unavailable) else f", {self.seconds * 1e6:.3g} µs"
        idle = sum(not self.bytes.get(link) for link in self.network.links())
        return (
            f"<{self.name} by {self.algorithm} on {self.network.text}: {len(self.steps)} steps, at most"
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
        speed = self.network.bytes_per_s
        if isinstance(speed, Unavailable):
            return speed
        return len(self.steps) * self.network.latency_s + self.busiest_bytes / speed

    @property
    def busiest_bytes(self) -> float:
        """On the busiest link of each step, all steps together."""
        return sum(max(step.values(), default=0.0) for step in self.steps)

    @property
    def bus_bytes_per_s(self) -> float | Unavailable:
        """Bus bandwidth as nccl-tests has it: comparable to a link's speed whatever the operation and the group.

        An all-reduce of S bytes among n counts 2 (n - 1) / n S, an all-gather, reduce-scatter or all-to-all (n - 1) / n of
        the whole, a broadcast S (github.com/NVIDIA/nccl-tests, doc/PERFORMANCE.md); over `seconds`.
        """
        if isinstance(self.seconds, Unavailable):
            return self.seconds
        if isinstance(self.bus_bytes, Unavailable):
            return self.bus_bytes
        return self.bus_bytes / self.seconds if self.seconds else Unavailable("nothing is sent")

    def table(self) -> pd.DataFrame:
        """A row a link, the busiest first; `share` is of the busiest."""
        found = self.bytes
        most = max(found.values(), default=0.0) or 1.0
        rows = [(a, b, found.get((a, b), 0.0), found.get((a, b), 0.0) / most) for a, b in self.network.links()]
        rows.sort(key=lambda row: -row[2])
        return make_table(_KINDS, rows)

    def plot(self) -> Figure:
        """The slice or the host with its links, darker the more they carry: see `link_plot`."""
        from inspector.analysis.collectives.exchanges.link_plot import plot_links, plot_switch

        found = self.bytes
        time = "" if isinstance(self.seconds, Unavailable) else f", {self.seconds * 1e6:.3g} µs by the model"
        most = format_bytes(round(max(found.values(), default=0.0)))
        title = f"{self.name} by {self.algorithm} (textbook)\nat most {most} on a link{time}"
        loads = {link: found.get(link, 0.0) for link in self.network.links()}
        if isinstance(self.network, Switch):
            sent = {a[0]: count for (a, b), count in loads.items() if b == HUB}
            received = {b[0]: count for (a, b), count in loads.items() if a == HUB}
            return plot_switch(sent, received, title)
        chips: dict[Place, list[int]] = {}
        for device in range(self.network.device_count):
            chips.setdefault(self.network.place(device), []).append(device)
        return plot_links(chips, loads, title)


def published(target: str, *, latency_s: float = 0.0) -> Network:
    """The slice or the host of a target, by its maker's figures.

    Raises:
      ParameterError: no chip's name, or more GPUs than one host has.
      TargetError: there is no such slice or host.
    """
    kind = Torus if isinstance(named_chip(target).topologies, Slices) else Switch
    return kind.published(target, latency_s=latency_s)


def link_loads(collective: Collective, algorithm: str, network: Network, devices: Sequence[int] | None) -> LinkLoads:
    """What all groups of a collective put on the links of a slice or a host.

    Args:
      collective: whose members are known.
      algorithm: one of `textbook.ALGORITHMS`.
      network: the slice or the host.
      devices: the physical id at each logical one; None where they are the same.

    Raises:
      ParameterError: an unknown algorithm, or ids that it does not have.
      ModuleError: its members are not known, or no textbook does it so.
    """
    if isinstance(collective.participants, Unavailable):
        raise ModuleError(f"The members of {collective.name} are not known: {collective.participants.reason}")
    groups = 1 if collective.opcode == "collective-permute" else len(collective.participants)
    steps: list[dict[Link, float]] = []
    sent = received = 0.0
    for group in range(groups):
        done = exchange(collective, algorithm, group, Links())
        sent, received = max(sent, *done.sent_bytes), max(received, *done.received_bytes)
        ids = [_physical(member, devices, network) for member in done.members]
        for number, step in enumerate(done.steps):
            if number == len(steps):
                steps.append({})
            for transfer in step:
                for link in network.route(ids[transfer.sender], ids[transfer.receiver]):
                    steps[number][link] = steps[number].get(link, 0.0) + len(transfer.blocks) * done.block_bytes
        algorithm = done.algorithm
    least = sent_bytes(collective)
    bus_bytes = Unavailable(least.reason) if isinstance(least, Partial) else least
    return LinkLoads(collective.name, algorithm, network, tuple(steps), sent, received, bus_bytes)


def _physical(logical: int, devices: Sequence[int] | None, network: Network) -> int:
    if devices is not None and logical >= len(devices):
        raise ParameterError(f"Device {logical} takes part, and {len(devices)} physical ids are given: give one each.")
    device = logical if devices is None else int(devices[logical])
    if not 0 <= device < network.device_count:
        has = network.text if isinstance(network, Switch) else f"a slice of {network.text} has {network.device_count}"
        raise ParameterError(f"Device {device} takes part, and {has}: choose a larger one.")
    return device
