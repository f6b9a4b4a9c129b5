"""The estimated cost of a collective on the links of a slice or a host, and with textbook algorithms, as the Collectives pane shows it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, TypedDict

from inspector import platforms
from inspector.analysis.collectives.collective import NOT_RECORDED, Collective
from inspector.analysis.collectives.collectives import Collectives
from inspector.analysis.collectives.exchanges.link_loads import LinkLoads, Network, link_loads, published
from inspector.analysis.collectives.exchanges.links import named_chip
from inspector.analysis.collectives.exchanges.switch import HUB
from inspector.analysis.collectives.exchanges.textbook import ALGORITHMS, schedule
from inspector.analysis.collectives.exchanges.torus import Link, Place, Torus
from inspector.analysis.collectives.pricing.price import Pricing
from inspector.analysis.collectives.pricing.target_links import links_of
from inspector.analysis.cost.peaks import peak_of
from inspector.compilation.target import Target
from inspector.errors import About, ModuleError, ParameterError, Partial, Unavailable
from inspector.platforms.chip import Chip, Peak
from inspector.platforms.topologies import Slices
from inspector.support.notebook import short
from inspector.support.units import counted
from inspector.widgets import messages

_MOST_CHIPS = 512
"""Maximum number of chips that are drawn, with every link."""
_MOST_MESSAGES = 400_000
"""Maximum number of messages in all groups and steps; these take a second or two to simulate."""

ESTIMATE = "estimate"
"""The algorithm of the roofline's estimate: the compiler's, or the best textbook's on these links."""

_SMALL = 8

# Limits for a page without a notebook kernel: collectives and networks, in a notebook's output and in a complete report.
_FIRST_SEEN = 4
_MOST_RECORDED = 12
_NETWORKS_RECORDED = 3
_MOST_DEVICES_RECORDED = 64
_MESSAGES_RECORDED = 30_000


class PriceRequest(TypedDict):
    """Requests the cost of a variant's collective. `id` numbers the request; late replies are dropped.

    Attributes:
      name: name of the instruction in the program of this stage.
      network: target whose links are loaded.
      algorithm: `ESTIMATE`, or the name of a textbook algorithm.
    """

    type: Literal["price"]
    id: int
    variant: int
    program: messages.Stage
    name: str
    network: str
    algorithm: str


class PricedChip(TypedDict):
    """A chip and its devices.

    Attributes:
      place: coordinates along each axis.
      devices: ids of its devices.
      logical_ids: the devices' positions in the program, None for devices that the program does not use.
      groups: group of each device, None for devices outside all groups.
    """

    place: list[int]
    devices: list[int]
    logical_ids: list[int | None]
    groups: list[int | None]


class Priced(TypedDict):
    """The reply to `PriceRequest` number `id`, or an error: the cost of all groups together.

    Attributes:
      algorithm: the algorithm that was used: the requested one, if it is available.
      algorithm_text: the algorithm of an estimate; otherwise the same as `algorithm`.
      algorithms: available algorithms for the collective.
      steps: number of sequential steps; 0 for an estimate, which has none.
      hops: number of sequential hops.
      latency_s: latency of a hop.
      busiest_bytes: bytes on the busiest link of each step, summed over the steps.
      most_bytes: largest number of bytes that one link carries in all steps.
      sent_bytes, received_bytes: largest number of bytes that a device sends and receives.
      bus_bytes: bytes for its bus bandwidth; None if unknown.
      bytes_per_s: bandwidth of a link in one direction; None if not published.
      source: source of the bandwidth.
      sizes: chips along each axis of a torus; empty for a host with switches.
      wraps: whether each axis wraps around.
      idle_links: number of links that carry nothing, of `link_count`.
      chips: chips to draw; empty if there are too many.
      links: each link as two indices into `chips`, -1 for the switches, and its bytes.
    """

    type: Literal["priced"]
    id: int
    variant: int
    network: str
    algorithm: str
    algorithm_text: str
    algorithms: list[str]
    steps: int
    hops: int
    latency_s: float
    busiest_bytes: float
    most_bytes: float
    sent_bytes: float
    received_bytes: float
    bus_bytes: float | None
    bytes_per_s: float | None
    source: str
    sizes: list[int]
    wraps: list[bool]
    idle_links: int
    link_count: int
    chips: list[PricedChip]
    links: list[tuple[int, int, float]]
    error: messages.Error | None


@dataclasses.dataclass(frozen=True, slots=True)
class PricedProgram:
    """The collectives of a variant.

    Attributes:
      before, after: collectives before and after optimization.
      target: target of the compile.
    """

    before: Collectives
    after: Collectives
    target: Target

    def stage(self, stage: messages.Stage) -> Collectives:
        """Returns the collectives before or after optimization."""
        return self.before if stage == "hlo" else self.after

    @property
    def device_count(self) -> int:
        """The number of replicas times the number of partitions."""
        return self.after.num_replicas * self.after.num_partitions


def networks_for(program: PricedProgram) -> Iterator[str]:
    """Yields targets that are large enough for the program.

    First its own target, then for each chip with published links the smallest one, and the smallest one that wraps around.
    A platform's usual chip comes before its others.
    """
    own, count = program.target, program.device_count
    texts = [str(own.by(""))] if own.is_absent else []
    for platform in platforms.PLATFORMS:
        usual = [chip for chip in platform.chips if chip.name == platform.usual_chip]
        for chip in (*usual, *(chip for chip in platform.chips if chip not in usual)):
            if chip.peak is not None and not isinstance(chip.peak.interconnect_bytes_per_s, Unavailable):
                texts += (f"{platform.kind}:{chip.name}:{shape}" for shape in _shapes(chip, chip.peak, count))
    yield from dict.fromkeys(texts)


def _shapes(chip: Chip, peak: Peak, count: int) -> Iterator[str]:
    slices = chip.topologies
    if not isinstance(slices, Slices):
        if count <= peak.linked_devices:
            yield str(count)
        return
    for topology in (slices.smallest(count), slices.smallest(count, wraps=True)):
        if topology is not None:
            yield slices.write(topology)


def recordable(program: PricedProgram, variant: int, *, is_whole: bool) -> Iterator[PriceRequest]:
    """Yields the requests for the first collectives of each program, limited by time and size; see `Pane.recordable`."""
    networks = [text for text in networks_for(program) if published(text).device_count <= _MOST_DEVICES_RECORDED]
    stages: tuple[messages.Stage, ...] = ("optimized", "hlo")
    left = _MESSAGES_RECORDED
    for stage in stages if is_whole else stages[:1]:
        for each in program.stage(stage).items[: _MOST_RECORDED if is_whole else _FIRST_SEEN]:
            for network in networks[: _NETWORKS_RECORDED if is_whole else 1]:
                for algorithm in _algorithms(each) if is_whole else _algorithms(each)[:1]:
                    left -= _message_count(each, algorithm)
                    if left < 0:
                        return
                    yield PriceRequest(
                        type="price", id=0, variant=variant, program=stage, name=each.name, network=network,
                        algorithm=algorithm,
                    )  # fmt: skip


def priced(request: PriceRequest, program: PricedProgram | None) -> Priced:
    """Returns the reply, with the error if the cost cannot be estimated."""
    reply = Priced(
        type="priced", id=request["id"], variant=request["variant"], network=request["network"],
        algorithm=request["algorithm"], algorithm_text="", algorithms=[], steps=0, hops=0, latency_s=0.0, busiest_bytes=0.0, most_bytes=0.0, sent_bytes=0.0,
        received_bytes=0.0, bus_bytes=None, bytes_per_s=None, source="", sizes=[], wraps=[], idle_links=0, link_count=0,
        chips=[], links=[], error=None,
    )  # fmt: skip
    try:
        if program is None:
            raise ModuleError("The variant was removed or has no program.")
        collective = program.stage(request["program"])[request["name"]]
        network = published(request["network"])
        reply["algorithms"] = known = _algorithms(collective)
        algorithm = request["algorithm"] if request["algorithm"] in known or not known else known[0]
        found = program.stage(request["program"])
        devices = found.devices_on(network)
        if algorithm == ESTIMATE:
            _fill_estimate(reply, found, collective, program.target)
        else:
            _check_size(collective, algorithm)
            _fill_textbook(reply, link_loads(collective, algorithm, network, devices))
        _fill(reply, network, collective, devices)
    except Exception as error:  # the pane shows any error
        reply["error"] = messages.error_of(error)
    return reply


def _fill_estimate(reply: Priced, found: Collectives, collective: Collective, own: Target) -> None:
    """Adds the estimate that the roofline and the schedule use as well; libtpu's algorithm counts on its own slice only."""
    if reply["network"] != str(own.by("")):
        collective = dataclasses.replace(collective, chosen=NOT_RECORDED)
    needed = found.num_replicas * found.num_partitions
    target = Target(reply["network"])
    if needed > (target.device_count or 0):
        raise ParameterError(
            f"The program has {needed} devices, but {short(reply['network'])} has only {target.device_count}. Choose a"
            " larger network."
        )
    price = Pricing(found.devices, links_of(peak_of(target), target, needed)).price(collective)
    if price.unknown and not price.busiest_bytes:
        raise ModuleError(f"Cannot estimate {collective.name}: {About(0.0, price.unknown).reason}.")
    reply["algorithm"], reply["algorithm_text"] = ESTIMATE, price.algorithm
    reply["hops"], reply["busiest_bytes"] = price.hops, price.busiest_bytes
    sent = 0.0 if isinstance(price.sent_bytes, Partial) else price.sent_bytes
    reply["sent_bytes"] = reply["received_bytes"] = sent
    reply["bus_bytes"] = sent or None
    reply["most_bytes"] = max(price.link_bytes.values(), default=0.0)
    _draw(reply, price.link_bytes, published(reply["network"]))


def _fill_textbook(reply: Priced, loads: LinkLoads) -> None:
    bus = loads.bus_bytes
    reply["algorithm"] = reply["algorithm_text"] = loads.algorithm
    reply["steps"], reply["hops"] = len(loads.steps), loads.hops
    reply["busiest_bytes"] = loads.busiest_bytes
    reply["most_bytes"] = max(loads.bytes.values(), default=0.0)
    reply["sent_bytes"], reply["received_bytes"] = loads.most_sent_bytes, loads.most_received_bytes
    reply["bus_bytes"] = None if isinstance(bus, Unavailable) else bus
    _draw(reply, loads.bytes, loads.network)


def _draw(reply: Priced, carried: Mapping[Link, float], network: Network) -> None:
    """Adds the load of each link, if there are few enough to draw."""
    links = list(network.links())
    reply["idle_links"], reply["link_count"] = sum(not carried.get(link) for link in links), len(links)
    places = list(dict.fromkeys(network.place(device) for device in range(network.device_count)))
    if len(places) <= _MOST_CHIPS:
        numbers = {HUB: -1, **{place: number for number, place in enumerate(places)}}
        reply["links"] = [(numbers[a], numbers[b], carried.get((a, b), 0.0)) for a, b in links]


def _fill(reply: Priced, network: Network, collective: Collective, devices: Sequence[int] | None) -> None:
    speed, peak = network.bytes_per_s, named_chip(reply["network"]).peak
    reply["latency_s"] = network.latency_s
    reply["bytes_per_s"] = None if isinstance(speed, Unavailable) else speed
    reply["source"] = speed.reason if isinstance(speed, Unavailable) else "" if peak is None else peak.links_source
    if isinstance(network, Torus):
        reply["sizes"], reply["wraps"] = list(network.shape), list(network.wraps)
    chips = _chips(network, collective, devices)
    if len(chips) <= _MOST_CHIPS:
        reply["chips"] = list(chips.values())


def _chips(network: Network, collective: Collective, devices: Sequence[int] | None) -> dict[Place, PricedChip]:
    participants = collective.participants
    groups: dict[int, int] = {}
    if not isinstance(participants, Unavailable):
        pairs = collective.opcode == "collective-permute"
        groups = {id_: 0 if pairs else number for number, group in enumerate(participants) for id_ in group}
    logical = (
        {device: id_ for id_, device in enumerate(devices)} if devices is not None else {id_: id_ for id_ in groups}
    )
    chips: dict[Place, PricedChip] = {}
    for device in range(network.device_count):
        place = network.place(device)
        chip = chips.setdefault(place, PricedChip(place=list(place), devices=[], logical_ids=[], groups=[]))
        id_ = logical.get(device)
        chip["devices"].append(device)
        chip["logical_ids"].append(id_)
        chip["groups"].append(None if id_ is None else groups.get(id_))
    return chips


def _algorithms(collective: Collective) -> list[str]:
    if collective.opcode == "collective-permute":
        return [ESTIMATE, "direct"]
    _, most = collective.who.group_sizes
    if most > _SMALL:  # only this decides whether an algorithm exists
        most = _SMALL if most & (most - 1) == 0 else _SMALL - 1
    textbook = [name for name in ALGORITHMS if not isinstance(schedule(collective.opcode, name, most), Unavailable)]
    return [ESTIMATE, *textbook]


def _check_size(collective: Collective, algorithm: str) -> None:
    """Raises ModuleError if there are too many messages to simulate."""
    count = _message_count(collective, algorithm)
    if count > _MOST_MESSAGES:
        groups, most = collective.who.shape
        raise ModuleError(
            f"{counted(groups, 'group')} of {most:,} members with algorithm {short(algorithm)}: about {count:,} messages, too many to"
            f" simulate. The limit is"
            f" {_MOST_MESSAGES:,}. For the cost of a single group, use `collectives().exchange(...)`."
        )


def _message_count(collective: Collective, algorithm: str) -> int:
    """Returns the approximate number of messages: one per member and step.

    `halving and doubling` and `tree` take about log2 of the group size steps, other algorithms about as many as members.
    """
    groups, most = collective.who.shape
    if algorithm == ESTIMATE:
        return 1
    if collective.opcode == "collective-permute":
        return groups
    return groups * most * (most.bit_length() if algorithm in ("halving and doubling", "tree") else most)
