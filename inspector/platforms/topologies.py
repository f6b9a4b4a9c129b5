"""Which topologies a chip comes in, and how they are written in targets."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from typing import Protocol

from inspector.errors import TargetError

_CUBE = 4  # chips along each axis of what optical switches join
_HOST = 2  # chips along the first two axes of a TPU host
_NEIGHBORS = 4  # that are named where a topology is not legal
_DIGITS = 9  # of a number in a target: Python refuses to read those with thousands

Topology = tuple[int, ...]


class Topologies(Protocol):
    """The topologies of a chip."""

    @property
    def devices_per_chip(self) -> int:
        """JAX devices."""

    def read(self, target: str, name: str, shape: str) -> Topology:
        """What a target's text says of the topology, "" where it says nothing.

        Args:
          target: the whole text, for messages.
          name: platform and chip, such as "tpu:v5e".
          shape: such as "2x4" or "8".

        Raises:
          TargetError: there is no such topology; with what there is instead.
        """

    def write(self, topology: Topology) -> str:
        """As `read` reads it."""

    def with_devices(self, count: int, like: Topology) -> Topology | None:
        """The smallest one with at least that many devices, where a choice is left like another; None without one."""

    def device_count(self, topology: Topology) -> int:
        """JAX devices."""


@dataclasses.dataclass(frozen=True, slots=True)
class Slices:
    """TPU slices: whole hosts of 2x2 chips along two or three axes, or a single chip.

    libtpu also takes slices that are thinner than a host, which no machine has; which of the others a cloud sells
    is another matter.

    Attributes:
      rank: axes of the interconnect.
      max_chips: of the largest pod.
      longest_axis: chips along the longest axis of such a pod.
      devices_per_chip: JAX devices; cores that work as one count as one.
    """

    rank: int
    max_chips: int
    longest_axis: int
    devices_per_chip: int = 1

    def read(self, target: str, name: str, shape: str) -> Topology:
        """As `Topologies.read`; a number alone is that of the chips."""
        chip = name.rpartition(":")[2]
        given = sizes(shape) if shape else (1,) * self.rank
        if given is None:
            raise TargetError(
                f"Target {target!r}: cannot read the topology {shape!r}, expected chips along {self.rank} axes with x"
                f" between, such as '{name}:{self.write(self.smallest(8) or ())}'."
            )
        topology = self._whole(given)
        if self.is_legal(topology):
            return topology
        legal = ", ".join(f"'{name}:{self.write(t)}'" for t in self.neighbors(topology))
        lacking = f"slice of {topology[0]} chips" if len(topology) == 1 else f"topology {self.write(topology)}"
        raise TargetError(
            f"Target {target!r}: {chip} has no {lacking}. It has {self.rank} axes, a single chip"
            f" or whole hosts of 2x2 chips (the first two axes even), and at most {self.max_chips} chips. Nearest: {legal}."
        )

    def write(self, topology: Topology) -> str:
        """Such as "2x4"."""
        return "x".join(map(str, topology))

    def with_devices(self, count: int, like: Topology) -> Topology | None:  # noqa: ARG002 - no choice is left
        """As `Topologies.with_devices`."""
        return self.smallest(count)

    def device_count(self, topology: Topology) -> int:
        """JAX devices."""
        return math.prod(topology) * self.devices_per_chip

    def wraps(self, topology: Topology) -> tuple[bool, ...]:
        """Whether the last chip along each axis is linked to the first.

        With two axes those of a whole pod are; with three, slices of whole cubes of 4x4x4, which optical switches join
        (docs.cloud.google.com/tpu/docs/system-architecture-tpu-vm; jax-ml.github.io/scaling-book/tpus).
        """
        if self.rank == 2:
            return tuple(size == self.longest_axis for size in topology)
        return (all(size % _CUBE == 0 for size in topology),) * self.rank

    def is_legal(self, topology: Topology) -> bool:
        """Whether there is such a topology."""
        return topology in self._legal

    def neighbors(self, topology: Topology) -> tuple[Topology, ...]:
        """The legal topologies most like one, ascending; to a number of chips, those with a number like it."""
        if len(topology) == 1:
            return self._of_counts_like(topology[0])
        wanted = (*topology, *(1 for _ in range(self.rank)))[: self.rank]

        def distance(other: Topology) -> tuple[float, Topology]:
            return round(sum(abs(math.log(a / max(1, b))) for a, b in zip(other, wanted, strict=True)), 6), other

        nearest = sorted(self._legal, key=distance)[:_NEIGHBORS]
        return tuple(sorted(nearest, key=lambda t: (math.prod(t), t)))

    def smallest(self, device_count: int, *, wraps: bool = False) -> Topology | None:
        """The smallest legal topology with at least that many devices, None when there is none.

        Args:
          device_count: at least.
          wraps: whether all axes must wrap around.
        """
        enough = [t for t in self._legal if self.device_count(t) >= device_count and (not wraps or all(self.wraps(t)))]
        return min(enough, key=lambda t: (math.prod(t), max(t), t), default=None)

    def _whole(self, given: Topology) -> Topology:
        """A number of chips as the smallest topology that has just as many; two of three axes as one layer."""
        if len(given) == 1:
            smallest = self.smallest(given[0] * self.devices_per_chip)
            return smallest if smallest and math.prod(smallest) == given[0] else given
        return (*given, 1) if len(given) == 2 and self.rank == 3 else given

    def _of_counts_like(self, chips: int) -> tuple[Topology, ...]:
        nearest = sorted({math.prod(t) for t in self._legal}, key=lambda n: (abs(math.log(n / max(1, chips))), n))
        found = (self.smallest(n * self.devices_per_chip) for n in sorted(nearest[:_NEIGHBORS]))
        return tuple(t for t in found if t is not None)

    @property
    def _legal(self) -> frozenset[Topology]:
        return _legal(self.rank, self.max_chips, self.longest_axis)


@dataclasses.dataclass(frozen=True, slots=True)
class Hosts:
    """GPUs in hosts: a topology is (hosts, GPUs a host).

    Attributes:
      max_gpus: in all.
      devices_per_chip: JAX devices, where a GPU is several.
    """

    max_gpus: int = 4096
    devices_per_chip: int = 1

    def read(self, target: str, name: str, shape: str) -> Topology:
        """As `Topologies.read`; a number alone is that of the GPUs in one host."""
        given = sizes(shape) if shape else (1,)
        if given is None or len(given) > 2 or math.prod(given) > self.max_gpus:
            raise TargetError(
                f"Target {target!r}: after '{name}:' comes the number of GPUs in one host, or hosts x GPUs, at most"
                f" {self.max_gpus}, such as '{name}:8' or '{name}:2x8'; got {shape!r}."
            )
        return given if len(given) == 2 else (1, *given)

    def write(self, topology: Topology) -> str:
        """Such as "2x8", or "8" where there is one host."""
        hosts, per_host = topology
        return f"{hosts}x{per_host}" if hosts > 1 else str(per_host)

    def with_devices(self, count: int, like: Topology) -> Topology | None:
        """As `Topologies.with_devices`; hosts stay as large as they are."""
        gpus, per_host = math.ceil(count / self.devices_per_chip), like[1]
        hosts = math.ceil(gpus / per_host) if per_host > 1 else 1
        topology = (hosts, per_host) if hosts > 1 else (1, gpus)
        return topology if math.prod(topology) <= self.max_gpus else None

    def device_count(self, topology: Topology) -> int:
        """JAX devices."""
        return math.prod(topology) * self.devices_per_chip


def sizes(text: str) -> Topology | None:
    """`2x4` as numbers of at least 1; None when it is not that."""
    parts = text.split("x")
    if not all(part.isascii() and part.isdigit() and len(part) <= _DIGITS and int(part) >= 1 for part in parts):
        return None
    return tuple(int(part) for part in parts)


@functools.cache
def _legal(rank: int, max_chips: int, longest_axis: int) -> frozenset[Topology]:
    even = range(_HOST, longest_axis + 1, _HOST)
    axes = [even, even, range(1, longest_axis + 1)][:rank]
    hosts = {shape for shape in itertools.product(*axes) if math.prod(shape) <= max_chips}
    return frozenset({(1,) * rank, *hosts})
