"""The accelerators that can be compiled for without having one: TPU generations and GPUs.

A topology has two or three axes of chips, whole hosts of 2x2 chips or a single chip, and no more chips
than the generation's largest pod (cloud.google.com/tpu/docs, each generation's page). libtpu also takes slices
that are thinner than a host, which no machine has; which of the others a cloud sells is another matter.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math

_HOST = 2  # chips along the first two axes of a host


@dataclasses.dataclass(frozen=True, slots=True)
class TpuGeneration:
    """What sets a TPU generation apart for a compiler.

    Attributes:
      name: in targets and in libtpu's topologies.
      device_kind: as JAX names its devices.
      rank: axes of its interconnect.
      devices_per_chip: JAX devices; cores that work as one count as one.
      max_chips: of the largest pod.
      longest_axis: chips along the longest axis of such a pod.
      chip_config: libtpu's name of how a chip's cores are used; "" for its default.
      aliases: other names in use.
    """

    name: str
    device_kind: str
    rank: int
    devices_per_chip: int
    max_chips: int
    longest_axis: int
    chip_config: str = ""
    aliases: tuple[str, ...] = ()

    def is_legal(self, topology: tuple[int, ...]) -> bool:
        """Whether there is such a topology."""
        return topology in self._legal

    def neighbours(self, topology: tuple[int, ...], count: int = 4) -> tuple[tuple[int, ...], ...]:
        """The legal topologies most like one, ascending; to a number of chips, those with a number like it."""
        if len(topology) == 1:
            return self._of_counts_like(topology[0], count)
        wanted = (*topology, *(1 for _ in range(self.rank)))[: self.rank]

        def distance(other: tuple[int, ...]) -> tuple[float, tuple[int, ...]]:
            return round(sum(abs(math.log(a / max(1, b))) for a, b in zip(other, wanted, strict=True)), 6), other

        nearest = sorted(self._legal, key=distance)[:count]
        return tuple(sorted(nearest, key=lambda t: (math.prod(t), t)))

    def _of_counts_like(self, chips: int, count: int) -> tuple[tuple[int, ...], ...]:
        nearest = sorted({math.prod(t) for t in self._legal}, key=lambda n: (abs(math.log(n / max(1, chips))), n))
        found = (self.smallest(n * self.devices_per_chip) for n in sorted(nearest[:count]))
        return tuple(t for t in found if t is not None)

    def smallest(self, device_count: int) -> tuple[int, ...] | None:
        """The smallest legal topology with at least that many devices, None when there is none."""
        enough = [t for t in self._legal if math.prod(t) * self.devices_per_chip >= device_count]
        return min(enough, key=lambda t: (math.prod(t), max(t), t), default=None)

    @property
    def _legal(self) -> frozenset[tuple[int, ...]]:
        return _legal(self.rank, self.max_chips, self.longest_axis)


TPU_GENERATIONS = {
    generation.name: generation
    for generation in (
        TpuGeneration("v4", "TPU v4", 3, 1, 4096, 16, "megacore"),
        TpuGeneration("v5e", "TPU v5 lite", 2, 1, 256, 16, aliases=("v5litepod", "v5lite")),
        TpuGeneration("v5p", "TPU v5", 3, 1, 8960, 28),
        TpuGeneration("v6e", "TPU v6 lite", 2, 1, 256, 16, aliases=("v6", "trillium")),
        TpuGeneration("tpu7x", "TPU7x", 3, 2, 9216, 24, aliases=("v7x", "7x", "ironwood")),
    )
}
"""By name, oldest first."""

GPUS = {
    "p100": "Tesla P100-SXM2-16GB",
    "v100": "Tesla V100-SXM2-16GB",
    "a6000": "NVIDIA RTX A6000",
    "a100": "NVIDIA A100-SXM4-80GB",
    "a100-40gb": "NVIDIA A100-SXM4-40GB",
    "a100-pcie": "NVIDIA A100 80GB PCIe",
    "h100": "NVIDIA H100 80GB HBM3",
    "h100-pcie": "NVIDIA H100 PCIe",
    "h100-mig": "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
    "h200": "NVIDIA H200 141GB HBM3e",
    "b200": "NVIDIA B200",
    "b200-mig": "NVIDIA B200 MIG 1g.23gb",
    "b300": "NVIDIA B300",
    "gb200": "NVIDIA GB200",
    "gb300": "NVIDIA GB300",
    "rtx-pro-6000": "NVIDIA RTX PRO 6000 Blackwell",
    "vr-nvl72": "NVIDIA VR NVL72",
}
"""NVIDIA's GPUs by their names in targets; the values are the descriptions by which XLA's configurations go."""

CUDA_VERSIONS = {"p100": (8, 12), "v100": (9, 12), "vr-nvl72": (13, 13)}
"""First and last major version of CUDA's assembler for GPUs that not every one knows."""

MAX_GPUS = 4096


def tpu_generation(name: str) -> TpuGeneration | None:
    """By name or alias, in any case; None for a name that is neither."""
    wanted = name.lower()
    for generation in TPU_GENERATIONS.values():
        if wanted == generation.name or wanted in generation.aliases:
            return generation
    return None


@functools.cache
def _legal(rank: int, max_chips: int, longest_axis: int) -> frozenset[tuple[int, ...]]:
    even = range(_HOST, longest_axis + 1, _HOST)
    axes = [even, even, range(1, longest_axis + 1)][:rank]
    hosts = {shape for shape in itertools.product(*axes) if math.prod(shape) <= max_chips}
    return frozenset({(1,) * rank, *hosts})
