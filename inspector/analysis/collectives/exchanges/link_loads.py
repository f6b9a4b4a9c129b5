"""`LinkLoads`: the bytes that a collective sends over each link of a slice or a host, and the estimated time."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from inspector.analysis.collectives.collective import Collective
from inspector.analysis.collectives.exchanges.exchange import Exchange, exchange
from inspector.analysis.collectives.exchanges.links import HOP_S, Links, link_seconds, named_chip
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
    """The load of each link of a slice or a host while all groups of a collective run a textbook algorithm at once.

    Attributes:
      name: name of the collective.
      algorithm: one of `textbook.ALGORITHMS`.
      network: the slice or the host.
      steps: bytes by link, one mapping per step.
      hops: number of hops on the longest path of each step, summed over the steps.
      most_sent_bytes: bytes that the busiest sender sends in all steps.
      most_received_bytes: bytes that the busiest receiver receives in all steps.
      bus_bytes: bytes that bus bandwidth counts: the minimum that a device sends, whatever the algorithm.
    """

    name: str
    algorithm: str
    network: Network
    steps: tuple[Mapping[Link, float], ...]
    hops: int
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
        """Bytes by link in all steps, without idle links."""
        loads: dict[Link, float] = {}
        for step in self.steps:
            for link, count in step.items():
                loads[link] = loads.get(link, 0.0) + count
        return loads

    @property
    def seconds(self) -> float | Unavailable:
        """Estimated time of all steps in sequence: the latency of their hops, and the bytes on the busiest links over the speed."""
        return link_seconds(self.hops, self.busiest_bytes, self.network.bytes_per_s, self.network.latency_s)

    @property
    def busiest_bytes(self) -> float:
        """Sum over all steps of the bytes on the busiest link of the step."""
        return sum(max(step.values(), default=0.0) for step in self.steps)

    @property
    def bus_bytes_per_s(self) -> float | Unavailable:
        """Bus bandwidth as in nccl-tests: comparable to a link's speed, whatever the operation and the group size.

        Equals `bus_bytes` over `seconds`. Among n devices, an all-reduce of S bytes counts 2 (n - 1) / n S bytes; an
        all-gather, reduce-scatter or all-to-all counts (n - 1) / n of the whole array; a broadcast counts S
        (github.com/NVIDIA/nccl-tests, doc/PERFORMANCE.md).
        """
        if isinstance(self.seconds, Unavailable):
            return self.seconds
        if isinstance(self.bus_bytes, Unavailable):
            return self.bus_bytes
        return self.bus_bytes / self.seconds if self.seconds else Unavailable("nothing is sent")

    def table(self) -> pd.DataFrame:
        """Returns a table with one row per link, busiest first. `share` is relative to the busiest link."""
        loads = self.bytes
        most = max(loads.values(), default=0.0) or 1.0
        rows = [(a, b, loads.get((a, b), 0.0), loads.get((a, b), 0.0) / most) for a, b in self.network.links()]
        rows.sort(key=lambda row: -row[2])
        return make_table(_KINDS, rows)

    def plot(self) -> Figure:
        """Draws the slice or the host with its links; links with more bytes are darker: see `link_plot`."""
        from inspector.analysis.collectives.exchanges.link_plot import plot_links, plot_switch

        by_link = self.bytes
        time = "" if isinstance(self.seconds, Unavailable) else f", estimated time {self.seconds * 1e6:.3g} µs"
        most = format_bytes(round(max(by_link.values(), default=0.0)))
        title = f"{self.name} by {self.algorithm} (textbook)\nat most {most} on a link{time}"
        loads = {link: by_link.get(link, 0.0) for link in self.network.links()}
        if isinstance(self.network, Switch):
            sent = {a[0]: count for (a, b), count in loads.items() if b == HUB}
            received = {b[0]: count for (a, b), count in loads.items() if a == HUB}
            return plot_switch(sent, received, title)
        chips: dict[Place, list[int]] = {}
        for device in range(self.network.device_count):
            chips.setdefault(self.network.place(device), []).append(device)
        return plot_links(chips, loads, title)


def published(target: str, *, latency_s: float = HOP_S) -> Network:
    """Returns the slice or the host of a target, with the vendor's published figures.

    Raises:
      ParameterError: not the name of a chip, or more GPUs than one host has.
      TargetError: there is no such slice or host.
    """
    kind = Torus if isinstance(named_chip(target).topologies, Slices) else Switch
    return kind.published(target, latency_s=latency_s)


def link_loads(collective: Collective, algorithm: str, network: Network, devices: Sequence[int] | None) -> LinkLoads:
    """Returns the load of each link of a slice or a host while all groups of a collective run at once.

    Args:
      collective: the collective.
      algorithm: one of `textbook.ALGORITHMS`.
      network: the slice or the host.
      devices: physical id for each logical id; None if they are the same.

    Raises:
      ParameterError: an unknown algorithm, or the network lacks some of the ids.
      ModuleError: the members are unknown, or no textbook has this algorithm for the collective.
    """
    if isinstance(collective.participants, Unavailable):
        raise ModuleError(f"The members of {collective.name} are unknown: {collective.participants.reason}")
    groups = 1 if collective.opcode == "collective-permute" else len(collective.participants)
    done = [exchange(collective, algorithm, group, Links()) for group in range(groups)]
    members = [[_physical(member, devices, network) for member in one.members] for one in done]
    steps, hops = step_loads(done, members, network)
    sent = max((bytes_ for one in done for bytes_ in one.sent_bytes), default=0.0)
    received = max((bytes_ for one in done for bytes_ in one.received_bytes), default=0.0)
    algorithm = done[-1].algorithm if done else algorithm
    least = sent_bytes(collective)
    bus_bytes = Unavailable(least.reason) if isinstance(least, Partial) else least
    return LinkLoads(collective.name, algorithm, network, steps, hops, sent, received, bus_bytes)


def step_loads(
    exchanges: Sequence[Exchange], members: Sequence[Sequence[int]], network: Network
) -> tuple[tuple[Mapping[Link, float], ...], int]:
    """Returns the bytes by link in each step, and the number of hops of all steps in sequence.

    Args:
      exchanges: the exchanges of all groups, which run at the same time.
      members: physical ids of the members of each.
      network: the slice or the host.
    """
    steps: list[dict[Link, float]] = []
    hops: list[int] = []
    for done, ids in zip(exchanges, members, strict=True):
        for number, step in enumerate(done.steps):
            if number == len(steps):
                steps.append({})
                hops.append(0)
            for transfer in step:
                ends = ids[transfer.sender], ids[transfer.receiver]
                hops[number] = max(hops[number], network.hops(*ends))
                for share, links in network.ways(*ends):
                    sent_here = share * len(transfer.blocks) * done.block_bytes
                    for link in links:
                        steps[number][link] = steps[number].get(link, 0.0) + sent_here
    return tuple(steps), sum(hops)


def _physical(logical: int, devices: Sequence[int] | None, network: Network) -> int:
    if devices is not None and logical >= len(devices):
        raise ParameterError(
            f"Device {logical} takes part, but got only {len(devices)} physical ids. Pass one id per logical device."
        )
    device = logical if devices is None else int(devices[logical])
    if not 0 <= device < network.device_count:
        text = f"{network.device_count} devices ({network.text})" if isinstance(network, Torus) else network.text
        raise ParameterError(f"Device {device} takes part, but the network has only {text}. Choose a larger network.")
    return device
