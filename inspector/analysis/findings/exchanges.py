"""`Exchange`: a collective with the kernel that performs it and its estimated time on the links."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from inspector.analysis.collectives.collective import Collective
from inspector.analysis.collectives.collectives import Collectives
from inspector.analysis.collectives.operations import Operation, operations
from inspector.analysis.collectives.pricing.price import Price, Pricing
from inspector.analysis.collectives.pricing.target_links import links_of
from inspector.analysis.cost.roofline_point import Point
from inspector.compilation.target import Target
from inspector.errors import Unavailable
from inspector.hlo.module import Module
from inspector.platforms import Peak


@dataclasses.dataclass(frozen=True, slots=True)
class Exchange:
    """A collective of a program whose links are known.

    Attributes:
      collective: the collective.
      operation: the instructions that perform it.
      kernel: the kernel that performs it.
      price: the estimated time of one execution.
      latency_s: the part of that time which is latency.
    """

    collective: Collective
    operation: Operation
    kernel: Point
    price: Price
    latency_s: float

    @property
    def holder(self) -> str:
        """Name of the instruction that performs it where the HLO shows it: the kernel, or the start of the computation with the kernel."""
        return self.operation.holder.name

    @property
    def exposed_s(self) -> float:
        """The estimated time of all executions that no kernel hides; 0 if unknown."""
        exposed = self.kernel.exposed_s
        return 0.0 if isinstance(exposed, Unavailable) else float(exposed)

    @property
    def executions(self) -> int:
        """Number of executions; 1 if unknown, as in `kernel`."""
        runs = self.kernel.executions
        return 1 if isinstance(runs, Unavailable) else runs


def pricing_of(collectives: Collectives, peak: Peak | Unavailable, target: Target | None) -> Pricing:
    """Returns the prices of collectives on the links of a program's devices. Arguments as for `exchanges`."""
    return Pricing(collectives.devices, links_of(peak, target, collectives.num_replicas * collectives.num_partitions))


def exchanges(
    module: Module,
    collectives: Collectives,
    kernels: Mapping[str, Point],
    peak: Peak | Unavailable,
    target: Target | None,
) -> Iterator[Exchange]:
    """Yields the collectives whose time is known, except for the shape of a slice, and that are alone in their kernel.

    Args:
      module: the optimized HLO.
      collectives: its collectives.
      kernels: the kernels of its roofline by name.
      peak: figures of a device.
      target: the target; None if unknown.
    """
    pricing = pricing_of(collectives, peak, target)
    links = pricing.links
    if isinstance(links.network, Unavailable):
        return
    found: dict[str, list[tuple[Collective, Operation]]] = {}
    for operation, collective in zip(operations(module), collectives, strict=True):
        found.setdefault(operation.holder.name, []).append((collective, operation))
    for (collective, operation), *others in found.values():
        name, price = operation.kernel, pricing.price(collective)
        is_known = all(part.counted == links.doubt for part in price.unknown)
        if not others and name in kernels and is_known:
            yield Exchange(collective, operation, kernels[name], price, price.hops * links.network.latency_s)
