"""`Chip`: the names, topologies, limits and published peak figures of a chip."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Self

from inspector.errors import Unavailable
from inspector.platforms.topologies import Topologies

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30
GIGA = 1e9
TERA = 1e12

NO_VMEM = Unavailable("GPUs have no VMEM")
NOT_PUBLISHED = Unavailable("not in the source of the other figures")
NO_CLOCK = Unavailable("only TPU compilers estimate cycles")


@dataclasses.dataclass(frozen=True, slots=True)
class Rate:
    """The peak rate of one unit of a chip.

    Attributes:
      per_s: operations, bytes or cycles per second.
      source: the publication, or the derivation from published figures.
    """

    per_s: float
    source: str


@dataclasses.dataclass(frozen=True, slots=True)
class CacheLevel:
    """A cache of a CPU.

    Attributes:
      byte_size: the largest working set, in bytes, for which the rate holds.
      bytes_per_s: bytes read and written per second.
      strided_bytes_per_s: the same for a transposing copy, which reads or writes with a stride; 0 if unknown.
    """

    byte_size: int
    bytes_per_s: float
    strided_bytes_per_s: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class Peak:
    """Published peak figures of one chip, from its vendor, without sparsity.

    Attributes:
      chip: the name in targets.
      flops_per_s: FLOP/s of dense matrix products, by the element type of the operands in HLO's names. `tf32` is the
        rate of chips that round `f32` to it, as GPUs do by default in JAX.
      memory_bytes_per_s, memory_bytes: bandwidth and capacity of the main memory.
      vmem_bytes: capacity of a TPU's vector memory.
      interconnect_bytes_per_s: bandwidth to other chips, both directions together.
      source: the publication.
      note: derivation of the figures, where it is not obvious.
      linked_devices: number of devices that these links connect; 0 for all devices of a slice.
      switches_reduce: whether the switches of the links can reduce data in transit (NVLink SHARP).
      matrix_unit: multipliers along each side of the square matrix unit; 0 if not published.
      vector: operations per second outside of matrix products.
      transcendental: exponentials, logarithms, square roots and similar functions per second.
      transforms: operations of Fourier transforms per second, 5 N log2 N for N complex elements; Unavailable to use the
        rate of the vector unit.
      vmem: bytes per second between a TPU's vector memory and its registers.
      clock: cycles per second that the compiler's estimates (`hlo.backend_config.estimated_cycles`) refer to.
      caches: a CPU's caches, smallest first; () for other chips.
      links_from: the publication of the links; "" if it is `source`.
      comparisons: comparisons per second of a sort that calls its comparator, on one core; Unavailable to use the rate of the
        vector unit.
      direct_comparisons: the same for a sort of one array of numbers in their own order, without calls.
      strided: bytes per second of a transposing copy in the main memory; Unavailable if strides do not matter.
      host: bytes per second in one direction between the chip and the memory of its host.
      chained: operations per second, each of which needs the result of the one before; Unavailable if they take no longer
        than others.
      runs: copies per second of short runs of adjacent elements; Unavailable if they take no longer than their bytes.
      first_writes: bytes per second of the first write to memory that the operating system has just provided;
        Unavailable if it takes no longer than later writes.
    """

    chip: str
    flops_per_s: Mapping[str, float]
    memory_bytes_per_s: float
    memory_bytes: int | Unavailable
    vmem_bytes: int | Unavailable
    interconnect_bytes_per_s: float | Unavailable
    source: str
    note: str = ""
    linked_devices: int = 0
    switches_reduce: bool = False
    matrix_unit: int = 0
    vector: Rate | Unavailable = NOT_PUBLISHED
    transcendental: Rate | Unavailable = NOT_PUBLISHED
    vmem: Rate | Unavailable = NO_VMEM
    clock: Rate | Unavailable = NO_CLOCK
    caches: tuple[CacheLevel, ...] = ()
    links_from: str = ""
    host: Rate | Unavailable = NOT_PUBLISHED
    transforms: Rate | Unavailable = NOT_PUBLISHED
    comparisons: Rate | Unavailable = NOT_PUBLISHED
    direct_comparisons: Rate | Unavailable = NOT_PUBLISHED
    strided: Rate | Unavailable = NOT_PUBLISHED
    chained: Rate | Unavailable = NOT_PUBLISHED
    runs: Rate | Unavailable = NOT_PUBLISHED
    first_writes: Rate | Unavailable = NOT_PUBLISHED

    @property
    def links_source(self) -> str:
        """The publication of the links."""
        return self.links_from or self.source

    @classmethod
    def published(
        cls,
        chip: str,
        tera: Mapping[str, float],
        giga: float,
        memory_bytes: int,
        links_giga: float | None,
        source: str,
        note: str = "",
        *,
        vmem_bytes: int | Unavailable = NO_VMEM,
        unknown_links: Unavailable = NOT_PUBLISHED,
        linked_devices: int = 0,
        switches_reduce: bool = False,
        matrix_unit: int = 0,
        links_from: str = "",
    ) -> Self:
        """Builds a peak from figures in vendors' units: tera-operations/s and GB/s; None for unknown links."""
        return cls(
            chip,
            {name: value * TERA for name, value in tera.items()},
            giga * GIGA,
            memory_bytes,
            vmem_bytes,
            unknown_links if links_giga is None else links_giga * GIGA,
            source,
            note,
            linked_devices,
            switches_reduce,
            matrix_unit,
            links_from=links_from,
        )  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class Vmem:
    """The vector memory of a TPU core, in bytes.

    Attributes:
      default_limit_bytes: limit of a kernel that sets none.
      capacity_bytes: capacity of the core, the maximum of any limit.
    """

    default_limit_bytes: int
    capacity_bytes: int


@dataclasses.dataclass(frozen=True, slots=True)
class Chip:
    """A chip that can be compiled for.

    Attributes:
      name: the name in targets and in libtpu's topologies.
      device_kind: JAX's `device_kind` of its devices, which also identifies XLA's GPU configurations.
      topologies: the available topologies.
      peak: peak figures of one chip; None if no published figures are known.
      aliases: other names in targets.
      other_kinds: other `device_kind`s of its devices, in current or earlier versions of JAX.
      config: libtpu's name of the core configuration; "" for the default.
      architecture: GPU architecture that Pallas needs; "" if Pallas derives it from the device kind.
      vmem: vector memory of a TPU core; None for other chips.
      toolkits: first and last major version of the platform's toolkit that compiles for it; None for all versions.
    """

    name: str
    device_kind: str
    topologies: Topologies
    peak: Peak | None = None
    aliases: tuple[str, ...] = ()
    other_kinds: tuple[str, ...] = ()
    config: str = ""
    architecture: str = ""
    vmem: Vmem | None = None
    toolkits: tuple[int, int] | None = None
