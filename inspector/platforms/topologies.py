"""The topologies of a chip, and their notation in targets."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from typing import Protocol

from inspector.errors import TargetError
from inspector.support.notebook import short

_CUBE = 4  # chips along each axis of a cube, the unit that optical switches connect
_HOST = 2  # chips along the first two axes of a TPU host
_NEIGHBORS = 4  # legal topologies that an error message suggests
_DIGITS = 9  # of a number in a target: Python refuses to parse thousands of digits

Topology = tuple[int, ...]


class Topologies(Protocol):
    """The topologies of a chip."""

    @property
    def devices_per_chip(self) -> int:
        """Number of JAX devices per chip."""

    def read(self, target: str, name: str, shape: str) -> Topology:
        """Parses the topology in a target.

        Args:
          target: the whole target, for messages.
          name: platform and chip, such as "tpu:v5e".
          shape: the topology, such as "2x4" or "8"; "" if the target has none.

        Raises:
          TargetError: an invalid topology. The message suggests valid ones.
        """

    def write(self, topology: Topology) -> str:
        """Returns the notation that `read` parses."""

    def with_devices(self, count: int, like: Topology) -> Topology | None:
        """Returns the smallest topology with at least `count` devices, similar to `like`; None if there is none."""

    def device_count(self, topology: Topology) -> int:
        """Returns the number of JAX devices."""


@dataclasses.dataclass(frozen=True, slots=True)
class Slices:
    """TPU slices: whole hosts of 2x2 chips along two or three axes, or a single chip.

    libtpu also accepts slices thinner than a host, which do not exist. Clouds may offer only some of the legal slices.

    Attributes:
      rank: number of axes of the interconnect.
      max_chips: number of chips of the largest pod.
      longest_axis: number of chips along the longest axis of that pod.
      devices_per_chip: number of JAX devices per chip; cores that work as one device count as one.
    """

    rank: int
    max_chips: int
    longest_axis: int
    devices_per_chip: int = 1

    def read(self, target: str, name: str, shape: str) -> Topology:
        """See `Topologies.read`. A single number is the number of chips."""
        chip = name.rpartition(":")[2]
        lengths = sizes(shape) if shape else (1,) * self.rank
        if lengths is None:
            raise TargetError(
                f"Target {short(target)}: cannot read the topology {short(shape)}. Expected the number of chips along {self.rank} axes, separated"
                f" by x, such as '{name}:{self.write(self.smallest(8) or ())}'."
            )
        topology = self._whole(lengths)
        if self.is_legal(topology):
            return topology
        legal = ", ".join(f"'{name}:{self.write(t)}'" for t in self.neighbors(topology))
        wanted = f"slice of {topology[0]} chips" if len(topology) == 1 else f"topology {self.write(topology)}"
        raise TargetError(
            f"Target {short(target)}: {chip} has no {wanted}. A slice is a single chip, or whole hosts"
            f" of 2x2 chips along {self.rank} axes (the first two axes even) with at most {self.max_chips} chips. Nearest: {legal}."
        )

    def write(self, topology: Topology) -> str:
        """Returns the notation, such as "2x4"."""
        return "x".join(map(str, topology))

    def with_devices(self, count: int, like: Topology) -> Topology | None:  # noqa: ARG002 - no choice is left
        """See `Topologies.with_devices`."""
        return self.smallest(count)

    def device_count(self, topology: Topology) -> int:
        """Returns the number of JAX devices."""
        return math.prod(topology) * self.devices_per_chip

    def wraps(self, topology: Topology) -> tuple[bool, ...]:
        """Reports for each axis whether its last chip is linked to the first.

        With two axes, the axes of a whole pod wrap around. With three, those of slices made of whole 4x4x4 cubes, which
        optical switches connect
        (docs.cloud.google.com/tpu/docs/system-architecture-tpu-vm; jax-ml.github.io/scaling-book/tpus).
        """
        if self.rank == 2:
            return tuple(size == self.longest_axis for size in topology)
        return (all(size % _CUBE == 0 for size in topology),) * self.rank

    def is_legal(self, topology: Topology) -> bool:
        """Reports whether a topology exists."""
        return topology in self._legal

    def neighbors(self, topology: Topology) -> tuple[Topology, ...]:
        """Returns the legal topologies nearest to a given one, ascending; for a single number, those nearest in chips."""
        if len(topology) == 1:
            return self._of_counts_like(topology[0])
        wanted = (*topology, *(1 for _ in range(self.rank)))[: self.rank]

        def distance(other: Topology) -> tuple[float, Topology]:
            return round(sum(abs(math.log(a / max(1, b))) for a, b in zip(other, wanted, strict=True)), 6), other

        nearest = sorted(self._legal, key=distance)[:_NEIGHBORS]
        return tuple(sorted(nearest, key=lambda t: (math.prod(t), t)))

    def smallest(self, device_count: int, *, wraps: bool = False) -> Topology | None:
        """Returns the smallest legal topology with enough devices; None if there is none.

        Args:
          device_count: the minimum number of devices.
          wraps: whether all axes must wrap around.
        """
        enough = [t for t in self._legal if self.device_count(t) >= device_count and (not wraps or all(self.wraps(t)))]
        return min(enough, key=lambda t: (math.prod(t), max(t), t), default=None)

    def _whole(self, lengths: Topology) -> Topology:
        """Completes a topology: a number of chips becomes the smallest topology of that size; a third axis becomes 1."""
        if len(lengths) == 1:
            smallest = self.smallest(lengths[0] * self.devices_per_chip)
            return smallest if smallest and math.prod(smallest) == lengths[0] else lengths
        return (*lengths, 1) if len(lengths) == 2 and self.rank == 3 else lengths

    def _of_counts_like(self, chips: int) -> tuple[Topology, ...]:
        nearest = sorted({math.prod(t) for t in self._legal}, key=lambda n: (abs(math.log(n / max(1, chips))), n))
        candidates = (self.smallest(n * self.devices_per_chip) for n in sorted(nearest[:_NEIGHBORS]))
        return tuple(t for t in candidates if t is not None)

    @property
    def _legal(self) -> frozenset[Topology]:
        return _legal(self.rank, self.max_chips, self.longest_axis)


@dataclasses.dataclass(frozen=True, slots=True)
class Hosts:
    """GPUs in hosts. A topology is (hosts, GPUs per host).

    Attributes:
      max_gpus: maximum total number of GPUs.
      devices_per_chip: number of JAX devices per GPU.
    """

    max_gpus: int = 4096
    devices_per_chip: int = 1

    def read(self, target: str, name: str, shape: str) -> Topology:
        """See `Topologies.read`. A single number is the number of GPUs in one host."""
        counts = sizes(shape) if shape else (1,)
        if counts is None or len(counts) > 2 or math.prod(counts) > self.max_gpus:
            raise TargetError(
                f"Target {short(target)}: expected the number of GPUs in one host, or hosts x GPUs, after '{name}:', at most"
                f" {self.max_gpus} GPUs, such as '{name}:8' or '{name}:2x8'; got {short(shape)}."
            )
        return counts if len(counts) == 2 else (1, *counts)

    def write(self, topology: Topology) -> str:
        """Returns the notation, such as "2x8", or "8" for one host."""
        hosts, per_host = topology
        return f"{hosts}x{per_host}" if hosts > 1 else str(per_host)

    def with_devices(self, count: int, like: Topology) -> Topology | None:
        """See `Topologies.with_devices`. With several GPUs per host, their number stays the same."""
        gpus, per_host = math.ceil(count / self.devices_per_chip), like[1]
        hosts = math.ceil(gpus / per_host) if per_host > 1 else 1
        topology = (hosts, per_host) if hosts > 1 else (1, gpus)
        return topology if math.prod(topology) <= self.max_gpus else None

    def device_count(self, topology: Topology) -> int:
        """Returns the number of JAX devices."""
        return math.prod(topology) * self.devices_per_chip


def sizes(text: str) -> Topology | None:
    """Parses `2x4` into positive numbers; None for any other text."""
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
