"""The kernels of a module with the time of one execution of each: on the device, and on the links to other devices."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping

from inspector.analysis.collectives.collectives import Collectives
from inspector.analysis.collectives.operations import operations
from inspector.analysis.collectives.pricing.price import Pricing
from inspector.analysis.collectives.pricing.target_links import links_of
from inspector.analysis.cost.dot_algorithms import Algorithm, main_algorithm, products
from inspector.analysis.cost.kernel_time import ON_LINKS, KernelTime, KernelTimes
from inspector.analysis.cost.kernels import DeviceKernel, kernels
from inspector.analysis.cost.schedule_simulation import Bound, KernelWork
from inspector.compilation.cost import InstructionCost
from inspector.compilation.target import Target
from inspector.errors import Missing, Unavailable, missing
from inspector.hlo.module import Module
from inspector.hlo.source import Origin
from inspector.platforms import Peak


def timed_kernels(
    module: Module,
    costs: Mapping[str, InstructionCost],
    peak: Peak | Unavailable,
    collectives: Collectives | None,
    target: Target | None,
) -> tuple[list[TimedKernel], Algorithm | Unavailable]:
    """Returns the times of every kernel, and the arithmetic of most products."""
    multiplied = products(module)
    main = peak if isinstance(peak, Unavailable) else main_algorithm(multiplied.instructions, costs, peak)
    transfers = _transfers(module, collectives, peak, target) if collectives is not None else {}
    times = peak if isinstance(peak, Unavailable) else KernelTimes(module, multiplied, costs, peak)
    timed = [_timed(each, costs, times, transfers.get(each.instruction.name)) for each in kernels(module)]
    return timed, main


def works(timed: Iterable[TimedKernel]) -> dict[str, KernelWork]:
    """Returns the work by the name of the instruction that performs or starts it."""
    return {t.transfer.starter if t.transfer and t.transfer.done else t.kernel.instruction.name: t.work for t in timed}


@dataclasses.dataclass(frozen=True, slots=True)
class Transfer:
    """The communication of a kernel with other devices.

    Attributes:
      collectives: names of its collectives.
      link_bytes: bytes that one device sends.
      link_s: estimated time in seconds.
      starter, done: the instructions that start and end it.
      origin, origin_name: source of the last collective, and the instruction that has it.
    """

    collectives: tuple[str, ...]
    link_bytes: float
    link_s: float
    starter: str
    done: str
    origin: Origin
    origin_name: str


def _transfers(
    module: Module, collectives: Collectives, peak: Peak | Unavailable, target: Target | None
) -> dict[str, Transfer]:
    """Returns the communication by the name of the kernel that performs it, summed over collectives in one kernel."""
    found: dict[str, Transfer] = {}
    pricing = Pricing(
        collectives.devices, links_of(peak, target, collectives.num_replicas * collectives.num_partitions)
    )
    for operation, collective in zip(operations(module), collectives, strict=True):
        kernel, price = operation.kernel, pricing.price(collective)
        before = found.get(kernel)
        names = (*(before.collectives if before is not None else ()), collective.name)
        moved, seconds = price.sent_bytes, price.estimated_s
        if before is not None:
            moved, seconds = before.link_bytes + moved, before.link_s + seconds
        ends = operation.holder.name, operation.done.name if operation.done else ""
        found[kernel] = Transfer(names, moved, seconds, *ends, collective.origin, collective.source_name)
    return found


@dataclasses.dataclass(frozen=True, slots=True)
class TimedKernel:
    """One execution of a kernel, with its times at the roof.

    Attributes:
      kernel: the kernel.
      cost: its costs.
      transfer: its communication with other devices; None if there is none.
      time: its time without communication; that of a collective outside of fusions is 0, because the links are slower.
        Unavailable without roofs.
    """

    kernel: DeviceKernel
    cost: InstructionCost
    transfer: Transfer | None
    time: KernelTime | Unavailable

    @property
    def flops(self) -> float | Unavailable:
        return self.cost.flops

    @property
    def memory_bytes(self) -> float | Unavailable:
        """Main memory traffic; 0 for a collective outside of fusions."""
        is_alone = self.transfer is not None and self.kernel.instruction.opcode != "fusion"
        return 0.0 if is_alone else self.cost.main_memory_bytes

    @property
    def link_s(self) -> float:
        return self.transfer.link_s if self.transfer else 0.0

    def with_links(self, part: float) -> TimedKernel:
        """Returns the kernel with only a part of its time on the links."""
        if self.transfer is None:
            return self
        return dataclasses.replace(
            self, transfer=dataclasses.replace(self.transfer, link_s=part * self.transfer.link_s)
        )

    @property
    def is_bound_by_links(self) -> bool:
        """True if the links take longer than the rest of the kernel."""
        return float(self.link_s) >= max(number_of(self.parts["compute"]), number_of(self.parts["memory"]))

    @property
    def parts(self) -> dict[Bound, float | Unavailable]:
        if isinstance(self.time, Unavailable):
            return {"compute": self.time, "memory": self.time, "communication": self.link_s}
        return {"compute": self.time.compute_s, "memory": self.time.memory_s, "communication": self.link_s}

    @property
    def unknown(self) -> Iterator[Missing]:
        """The unknown parts of its time."""
        for seconds in self.parts.values():
            if isinstance(seconds, Unavailable):
                yield Missing(self.kernel.instruction.name, self.kernel.instruction.opcode.replace("-", " "))
            else:
                yield from missing(seconds)

    @property
    def work(self) -> KernelWork:
        """The work for the simulated schedule, known parts only."""
        parts = {bound: number_of(seconds) for bound, seconds in self.parts.items()}
        amounts = (number_of(self.flops), number_of(self.memory_bytes))
        links = self.transfer.link_bytes if self.transfer else 0.0
        beside, done = 0.0, self.transfer.done if self.transfer else ""
        if done:
            beside = parts.pop("communication")
        bound = max(parts, key=lambda each: parts[each])
        return KernelWork(parts[bound], bound if parts[bound] else "nothing", *amounts, float(links), beside, done)


def _timed(
    kernel: DeviceKernel,
    costs: Mapping[str, InstructionCost],
    times: KernelTimes | Unavailable,
    transfer: Transfer | None,
) -> TimedKernel:
    cost = costs[kernel.instruction.name]
    if isinstance(times, Unavailable):
        return TimedKernel(kernel, cost, transfer, times)
    is_alone = transfer is not None and kernel.instruction.opcode != "fusion"
    return TimedKernel(kernel, cost, transfer, ON_LINKS if is_alone else times.of(kernel.instruction))


def number_of(value: float | Unavailable) -> float:
    """Returns a number, 0 if it is unknown."""
    return 0.0 if isinstance(value, Unavailable) else float(value)
