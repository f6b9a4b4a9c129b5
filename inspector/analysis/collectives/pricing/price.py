"""`Price`: the estimated time of a collective on the links of a target.

A collective takes the latency of its hops, about 1 µs each, plus the bytes on its busiest link over the link's speed
(`exchanges/links.py`). All its groups run at the same time. On a TPU, the algorithm is the one that libtpu records in the
program; otherwise it is a textbook algorithm on all links that the group has in its slice. On GPUs, it is a ring, or a
reduction in the switches where they can reduce: then a GPU sends and receives (n + 1) / n of the operand instead of
2 (n - 1) / n (NVLS, developer.nvidia.com/blog/scaling-deep-learning-training-with-nccl).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from inspector.analysis.collectives.collective import Collective
from inspector.analysis.collectives.exchanges.links import link_seconds
from inspector.analysis.collectives.exchanges.switch import HUB, Switch
from inspector.analysis.collectives.exchanges.torus import Link, Torus
from inspector.analysis.collectives.lower_bound import sent_bytes
from inspector.analysis.collectives.participation import Participation
from inspector.analysis.collectives.pricing.target_links import Network, TargetLinks
from inspector.analysis.collectives.pricing.torus_loads import Load, all_links, routed, shortest_ways
from inspector.analysis.collectives.pricing.torus_members import Loads, Members, Numbers
from inspector.errors import About, AtLeast, Missing, Unavailable
from inspector.hlo.backend_config import CollectiveAlgorithm
from inspector.support.units import format_seconds

_GATHERS = {"all-gather": 1, "reduce-scatter": 1, "all-reduce": 2, "collective-broadcast": 1}
"""Number of times that data passes through the links: an all-reduce is a reduce-scatter followed by an all-gather."""
_TWO_LINKS = 2


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Price:
    """The estimated cost of one execution of a collective. Not measured.

    Attributes:
      name: name of the collective.
      algorithm: the algorithm, such as "bidirectional ring", or libtpu's name of it.
      source: publication of the link speed; "" if unknown.
      network: the slice or host; Unavailable if unknown.
      sent_bytes: bytes that one device sends or receives at least, whatever the algorithm.
      hops: number of hops in sequence.
      busiest_bytes: bytes on the busiest link in one direction.
      known_s: estimated time in seconds of the known parts.
      unknown: unknown parts, such as links between hosts.
    """

    name: str
    algorithm: str
    source: str
    network: Network | Unavailable
    sent_bytes: float
    hops: int
    busiest_bytes: float
    known_s: float
    unknown: tuple[Missing, ...] = ()
    _load: tuple[Load, int] | None = None
    _devices: tuple[int, ...] = ()

    def __repr__(self) -> str:
        where = "unknown links" if isinstance(self.network, Unavailable) else self.network.text
        reasons = About(0.0, self.unknown).reason
        doubts = f"; {reasons}" if reasons else ""
        return (
            f"<{self.name} by {self.algorithm} on {where}: about {format_seconds(self.known_s)}{doubts}; {self.source}>"
        )

    @property
    def seconds(self) -> About:
        """Estimated time in seconds. Its reason names the algorithm, and the unknown parts."""
        return About(self.known_s, (Missing(self.name, "collective", f"estimated as {self.algorithm}"), *self.unknown))

    @property
    def estimated_s(self) -> float:
        """Estimated time in seconds for sums of estimates; `About` only if a part is unknown."""
        return About(self.known_s, self.unknown) if self.unknown else self.known_s

    @property
    def link_bytes(self) -> Mapping[Link, float]:
        """Bytes by link, without idle links."""
        if isinstance(self.network, Torus) and self._load is not None:
            load, operand = self._load
            return dict(_by_link(load.per_byte, operand))
        sides = ((((device,), HUB), (HUB, (device,))) for device in self._devices)
        return {link: self.busiest_bytes for side in sides for link in side} if self.busiest_bytes else {}


class Pricing:
    """Prices the collectives of a program on the links of its target.

    Collectives with the same groups and algorithm use the links in the same way, which is computed once.
    """

    def __init__(self, devices: Sequence[int], links: TargetLinks) -> None:
        """Prepares the prices.

        Args:
          devices: device ids by logical id (`Collectives.devices`); ids count as they are if there are none, or if the
            network lacks some.
          links: the links of the target (`target_links.links_of`).
        """
        self.links = links
        network = links.network
        is_placed = not isinstance(network, Unavailable) and devices and max(devices) < network.device_count
        self._devices = np.array(devices, np.int64) if is_placed else None
        self._members: dict[int, tuple[Participation, Members]] = {}
        self._loads: dict[tuple[int, str, int], Load] = {}

    def price(self, collective: Collective) -> Price:
        """Returns the estimated cost of one execution of a collective."""
        network = self.links.network
        sent = sent_bytes(collective, adds_on_the_way=isinstance(network, Switch) and network.reduces)
        if isinstance(network, Unavailable):  # also avoids the expansion of large groups
            return self._unknown(collective, sent, "over links of unknown speed")
        if collective.opcode == "ragged-all-to-all" or isinstance(collective.who.devices, Unavailable):
            return self._unknown(collective, sent, "that sends an unknown number of bytes")
        leaves = collective.who.leaves(self.links.linked_devices)
        if leaves and isinstance(network, Switch):  # the switches of one host cannot reduce for another
            network = dataclasses.replace(network, reduces=False)
        load = self._load(collective, network)
        operand = _bytes_of(collective)
        busiest = load.busiest * operand
        seconds = link_seconds(load.hops, busiest, network.bytes_per_s, network.latency_s)
        doubts = [text for text in (self.links.doubt, load.doubt) if text and busiest]
        if isinstance(seconds, Unavailable):
            doubts, seconds = ["over links of unknown speed"], 0.0
        if busiest and leaves:
            doubts.append("between hosts, whose links are unknown")
        unknown = tuple(Missing(collective.name, "collective", text) for text in doubts)
        devices = () if isinstance(network, Torus) else self._all_devices(collective.who)
        return Price(
            collective.name, load.algorithm, self.links.source, network, sent, load.hops, busiest, seconds, unknown,
            (load, operand), devices,
        )  # fmt: skip

    def _unknown(self, collective: Collective, sent: float, reason: str) -> Price:
        missing = (Missing(collective.name, "collective", reason),) if sent or isinstance(sent, AtLeast) else ()
        network = self.links.network
        return Price(collective.name, "an unknown algorithm", self.links.source, network, sent, 0, 0.0, 0.0, missing)

    def _load(self, collective: Collective, network: Network) -> Load:
        """Returns the load of the links per byte of `_bytes_of`."""
        chosen = (
            None if isinstance(network, Switch) or isinstance(collective.chosen, Unavailable) else collective.chosen
        )
        opcode = "collective-permute" if collective.who.is_pairs else collective.opcode
        key = (id(collective.who), opcode, hash(chosen))
        if key not in self._loads:
            self._loads[key] = (
                _on_torus(opcode, self._placed(collective.who, network), chosen)
                if isinstance(network, Torus)
                else _on_switch(opcode, self._physical(collective.who), network)
            )
        return self._loads[key]

    def _placed(self, who: Participation, torus: Torus) -> Members:
        if id(who) not in self._members:
            self._members[id(who)] = who, Members(torus, self._physical(who))
        return self._members[id(who)][1]

    def _physical(self, who: Participation) -> Numbers:
        logical = who.devices
        assert not isinstance(logical, Unavailable), "prices of unknown groups are unknown"
        return logical if self._devices is None else np.where(logical < 0, -1, self._devices[np.maximum(logical, 0)])

    def _all_devices(self, who: Participation) -> tuple[int, ...]:
        ids = self._physical(who)
        return tuple(np.unique(ids[ids >= 0]).tolist()) if ids.size <= _MOST_DRAWN else ()


_MOST_DRAWN = 1 << 12


def load_among(opcode: str, devices: Sequence[Sequence[int]], network: Network) -> Load:
    """Returns the load of the links while groups of devices run a collective by the best textbook algorithm on them.

    Args:
      opcode: opcode of the collective.
      devices: device ids of each group; all groups have the same size.
      network: the slice or the host.
    """
    ids = np.array(devices, np.int64)
    return (
        _on_torus(opcode, Members(network, ids), None)
        if isinstance(network, Torus)
        else _on_switch(opcode, ids, network)
    )


def _bytes_of(collective: Collective) -> int:
    """Returns the bytes that the loads of a collective are relative to: of the whole array of a gather or scatter."""
    if collective.opcode in ("all-gather", "reduce-scatter"):
        return max(collective.operand_bytes, collective.result_bytes)
    return collective.operand_bytes


def _on_torus(opcode: str, members: Members, chosen: CollectiveAlgorithm | None) -> Load:
    if opcode == "collective-permute":
        senders, receivers = members.devices[:, 0], members.devices[:, 1]
        load = routed(members.torus, senders, receivers, np.ones(len(senders)), "shortest ways")
    elif opcode == "all-to-all":
        load = shortest_ways(members)
    else:
        passes = _GATHERS[opcode]
        chips = np.maximum(members.chips, 1)
        share = np.where(chips > 1, 1.0 if opcode == "collective-broadcast" else (chips - 1) / chips, 0.0)
        load = all_links(members, passes * share, most_links=0 if chosen is None else _links_used(chosen))
        hops = load.hops if chosen is None or not _is_one_way(chosen) else sum(size - 1 for size in chosen.ring_sizes)
        load = dataclasses.replace(load, hops=passes * (hops or load.hops))
    return load if chosen is None else dataclasses.replace(load, algorithm=_name(chosen))


def _is_one_way(chosen: CollectiveAlgorithm) -> bool:
    return chosen.strategy.startswith("UniDirection") and bool(chosen.ring_sizes)


def _links_used(chosen: CollectiveAlgorithm) -> int:
    """Returns the number of links of a chip that libtpu's algorithm uses at most; 0 if not recorded."""
    if chosen.colors:  # each color is a route; one that is not "UniDirection" has both directions
        return chosen.colors * (1 if chosen.strategy.startswith("UniDirection") else 2)
    return _TWO_LINKS if chosen.emitter.startswith("1D") else 0


def _name(chosen: CollectiveAlgorithm) -> str:
    colors = f" with {chosen.colors} colors" if chosen.colors else ""
    return f"libtpu's {chosen}{colors}"


def _on_switch(opcode: str, devices: Numbers, network: Switch) -> Load:
    n = int((devices >= 0).sum(axis=1).max(initial=0))
    if opcode == "collective-permute":
        moved = devices[devices[:, 0] != devices[:, 1]]
        busiest = max((int(np.bincount(ends).max(initial=0)) for ends in moved.T), default=0) if len(moved) else 0
        return Load(int(busiest > 0), (), float(busiest), "direct messages")
    if n < 2:
        return Load(0, (), 0.0, "nothing")
    if opcode == "all-to-all":
        return Load(1, (), (n - 1) / n, "direct messages")
    if opcode == "collective-broadcast":
        return Load(n - 1, (), 1.0, "ring")
    passes = _GATHERS[opcode]
    ring = Load(passes * (n - 1), (), passes * (n - 1) / n, "ring")
    in_switches = Load(2, (), (n + 1) / n, "reduction in the switches (NVLS)")
    reduces = opcode == "all-reduce" and network.reduces
    return min(ring, in_switches, key=lambda load: load.busiest) if reduces else ring


def _by_link(per_byte: tuple[Loads, ...], operand: int) -> list[tuple[Link, float]]:
    found: list[tuple[Link, float]] = []
    for axis, load in enumerate(per_byte):
        size = load.shape[axis + 1]
        for way, *place in np.argwhere(load > 0).tolist():
            along = (place[axis] + (-1 if way else 1)) % size
            target = (*place[:axis], along, *place[axis + 1 :])
            found.append(((tuple(place), target), float(load[(way, *place)]) * operand))
    return found
