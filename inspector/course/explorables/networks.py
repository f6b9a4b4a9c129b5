"""Links with the cost of each algorithm, for pages that compute times by themselves."""

from __future__ import annotations

from inspector.analysis.collectives.exchanges.links import Links
from inspector.analysis.collectives.exchanges.switch import Switch
from inspector.analysis.collectives.exchanges.torus import Torus
from inspector.analysis.collectives.pricing.algorithm_costs import algorithm_costs
from inspector.errors import ParameterError, Unavailable
from inspector.widgets.explorables.messages import AlgorithmCostMessage, NetworkMessage


def network_message(
    name: str, opcode: str, members: int, network: Torus | Switch | Links, source: str
) -> NetworkMessage:
    """Returns links with the cost of each algorithm for a collective.

    Args:
      name: name for readers.
      opcode: opcode of the collective.
      members: number of devices.
      network: the links.
      source: origin of their speed.

    Raises:
      ParameterError: the speed of the links is unknown.
    """
    if isinstance(network.bytes_per_s, Unavailable):
        raise ParameterError(
            f"The speed of the links is unknown: {network.bytes_per_s.reason}. Pass Links(kind, bytes_per_s=...)."
        )
    costs = [
        AlgorithmCostMessage(
            algorithm=cost.algorithm, steps=cost.steps, hops=cost.hops, busiest=cost.busiest, sent=cost.sent
        )
        for cost in algorithm_costs(opcode, members, network)
    ]
    return NetworkMessage(
        name=name, bytes_per_s=network.bytes_per_s, latency_s=network.latency_s, source=source, costs=costs
    )
