"""`AlgorithmCost`: what each algorithm for a collective costs on a network, per byte of the array, without any program."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from inspector.analysis.collectives.exchanges.exchange import Exchange
from inspector.analysis.collectives.exchanges.link_loads import step_loads
from inspector.analysis.collectives.exchanges.links import Links, link_seconds
from inspector.analysis.collectives.exchanges.switch import Switch
from inspector.analysis.collectives.exchanges.textbook import ALGORITHMS, schedule
from inspector.analysis.collectives.exchanges.torus import Torus
from inspector.analysis.collectives.pricing.price import load_among
from inspector.errors import Unavailable

ALL_LINKS = "all links"
"""The algorithm of the roofline's estimate on a torus: rings in both directions along all axes at once."""
_WHOLE = 1 << 20


@dataclasses.dataclass(frozen=True, slots=True)
class AlgorithmCost:
    """The cost of one algorithm for a collective among all devices of a network.

    Attributes:
      algorithm: one of `textbook.ALGORITHMS`, or `ALL_LINKS`.
      steps: number of steps; 0 if unknown.
      hops: number of hops in sequence.
      busiest: bytes on the busiest link, of all steps in sequence, per byte of the array.
      sent: bytes that the busiest sender sends, per byte of the array; 0 if unknown.
    """

    algorithm: str
    steps: int
    hops: int
    busiest: float
    sent: float

    def seconds(self, size_bytes: float, bytes_per_s: float, latency_s: float) -> float:
        """Returns the estimated time for an array: see `links.link_seconds`.

        Args:
          size_bytes: bytes of the array: the operand of an all-reduce, all-to-all or broadcast, and the whole array of an
            all-gather or reduce-scatter.
          bytes_per_s: speed of a link in one direction.
          latency_s: latency of a hop.
        """
        seconds = link_seconds(self.hops, self.busiest * size_bytes, bytes_per_s, latency_s)
        assert not isinstance(seconds, Unavailable), "the speed is known"
        return seconds


def algorithm_costs(opcode: str, members: int, network: Torus | Switch | Links) -> Iterator[AlgorithmCost]:
    """Yields the cost of each algorithm that exists for a collective among devices 0 to `members` - 1.

    Args:
      opcode: one of `textbook.OPCODES`.
      members: number of devices, at least 2.
      network: a slice or a host with that many devices, or the links between the members of a group in its order.
    """
    operand = _WHOLE // members if opcode == "all-gather" else _WHOLE
    ids = tuple(range(members))
    for algorithm in ALGORITHMS:
        steps = schedule(opcode, algorithm, members)
        if isinstance(steps, Unavailable):
            continue
        done = Exchange(opcode, algorithm, ids, operand, steps, network if isinstance(network, Links) else Links())
        hops, busiest = _load(done, network, ids)
        whole = operand * (members if opcode == "all-gather" else 1)
        yield AlgorithmCost(algorithm, len(steps), hops, busiest / whole, done.most_sent_bytes / whole)
    in_switches = isinstance(network, Switch) and network.reduces and opcode == "all-reduce"
    if not isinstance(network, Links) and (isinstance(network, Torus) or in_switches):
        load = load_among(opcode, [ids], network)
        yield AlgorithmCost(load.algorithm if in_switches else ALL_LINKS, 0, load.hops, load.busiest, 0.0)


def _load(done: Exchange, network: Torus | Switch | Links, ids: Sequence[int]) -> tuple[int, float]:
    if isinstance(network, Links):
        hops, loads = sum(map(done.hops, done.steps)), [done.link_bytes(step) for step in done.steps]
        return hops, sum(max(load.values(), default=0.0) for load in loads)
    steps, hops = step_loads([done], [ids], network)
    return hops, sum(max(step.values(), default=0.0) for step in steps)
