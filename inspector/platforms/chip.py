"""`Chip`: what sets a chip apart: its names, its topologies, its limits, and what its maker says that it can do."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Self

from inspector.errors import Unavailable
from inspector.platforms.topologies import Topologies

MIB = 1 << 20
GIB = 1 << 30
GIGA = 1e9
TERA = 1e12

NO_VMEM = Unavailable("a GPU has none")
NOT_PUBLISHED = Unavailable("not in the publication that the other figures are from")


@dataclasses.dataclass(frozen=True, slots=True)
class Peak:
    """A chip's figures: each its maker's own, for one chip, without sparsity.

    Attributes:
      chip: its name in targets.
      flops_per_s: dense matrix products by the element type of the operands, in HLO's names; `tf32` where
        a chip rounds `f32` to that, as JAX has GPUs do by default.
      memory_bytes_per_s, memory_bytes: of its main memory.
      vmem_bytes: of a TPU's vector memory.
      interconnect_bytes_per_s: to other chips, both directions together.
      source: the publication, of the links too.
      note: what the figures were made from, where that is not plain.
      linked_devices: how many devices these links join; 0 for all of a slice.
      switches_reduce: whether the links' switches add up what passes them (NVLink SHARP).
      matrix_unit: multipliers along each side of its matrix unit, a square; 0 where none is published.
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
    ) -> Self:
        """From figures as makers write them: operations and bytes a second in tera and giga, None for links that are unknown."""
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
        )  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class Vmem:
    """The fast memory of a TPU core, in bytes.

    Attributes:
      default_limit_bytes: for one kernel that says nothing.
      capacity_bytes: of the core; no limit can be set beyond it.
    """

    default_limit_bytes: int
    capacity_bytes: int


@dataclasses.dataclass(frozen=True, slots=True)
class Chip:
    """A chip that can be compiled for.

    Attributes:
      name: in targets, and in libtpu's topologies.
      device_kind: as JAX names its devices, and by which XLA's configurations of GPUs go.
      topologies: those that it comes in.
      peak: of one chip; None where no published figures are known.
      aliases: other names in use.
      other_kinds: other names that JAX has, or had, for its devices.
      config: libtpu's name of how a chip's cores are used; "" for its default.
      architecture: of a GPU, where Pallas must be told it; "" where it finds it by the device's kind.
      vmem: of a TPU's core; None for other chips.
      toolkits: first and last major version of the platform's toolkit that compiles for it; None for every one.
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
