"""Google TPUs, for which libtpu compiles.

Topologies and figures are from Google (cloud.google.com/tpu/docs, each generation's page). Capacities of vector memory
are from the Pallas documentation (docs.jax.dev/en/latest/pallas/tpu/hardware.html).

Google publishes no clock rates except v4's (1,050 MHz, arxiv.org/abs/2304.01433). They follow from the peak of `bf16`: each
matrix unit does one multiply-add per multiplier and cycle. The numbers of matrix units are those that explain the cycles
that libtpu estimates for large products (v5e: 1.50 GHz, v4: 1.05 GHz, v5p and v6e: 1.75 GHz, tpu7x: 2.20 GHz). The
"scaling book" of Google's authors (jax-ml.github.io/scaling-book/tpus) names 1.5 GHz for v5e and 1.75 GHz for v5p. It also
describes the vector unit of v5 and its access to vector memory; other generations are assumed to be equal.

Google publishes the sum over both directions of all links of a chip; no such figure exists for v4. Its links are those of
jax-ml.github.io/scaling-book/tpus: 45 GB/s in one direction of each of the 6 links.
"""

import dataclasses
from collections.abc import Mapping

from inspector.platforms.chip import GIB, GIGA, MIB, TERA, Chip, Peak, Rate, Vmem
from inspector.platforms.platform import SCRATCH, Platform
from inspector.platforms.topologies import Slices

_WIDE = ("v6e", "tpu7x")  # docs.cloud.google.com/tpu/docs/system-architecture-tpu-vm, sizes of matrix units
_SINGLE = ("v5e", "v6e")  # chips with one core, from the same page
_MATRIX_UNITS = 4  # of a core
_REGISTER = 8 * 128  # values of 4 bytes
_ALUS = 4  # for each value
_ACCESSES = 3 + 1  # registers loaded from and stored to vector memory in a cycle
_SCALING_BOOK = "https://jax-ml.github.io/scaling-book/tpus"
_HOST_GIGA, _HOST_GIGA_V6E = 15, 32  # of a chip, in one direction
_BOOK = f"{_SCALING_BOOK}, appendix"


def _peak(
    chip: str, tera: Mapping[str, float], giga: float, gib: int, vmem_mib: int, ici_giga: float, links_from: str = ""
) -> Peak:
    source = f"https://docs.cloud.google.com/tpu/docs/{chip}"
    side = 256 if chip in _WIDE else 128
    cores = 1 if chip in _SINGLE else 2
    clock = tera["bf16"] * TERA / (cores * _MATRIX_UNITS * side**2 * 2)
    per_cycle = f"{cores} x 8 x 128 values x {{}} x {clock / 1e9:.2f} GHz"
    registers = clock * cores * _REGISTER
    return dataclasses.replace(
        Peak.published(
            chip,
            tera,
            giga,
            gib * GIB,
            ici_giga,
            source,
            vmem_bytes=vmem_mib * MIB,
            matrix_unit=side,
            links_from=links_from,
        ),
        vector=Rate(registers * _ALUS, f"{per_cycle.format(f'{_ALUS} ALUs')}; {_BOOK}"),
        transcendental=Rate(registers, f"{per_cycle.format('1 unit')}, assumed: no source has the number of units"),
        vmem=Rate(registers * _ACCESSES * 4, f"{per_cycle.format(f'4 bytes x {_ACCESSES} registers')}; {_BOOK}"),
        host=Rate((_HOST_GIGA_V6E if chip == "v6e" else _HOST_GIGA) * GIGA, f"PCIe of a chip; {_SCALING_BOOK}"),
        clock=Rate(clock, f"bf16 peak / ({cores} x {_MATRIX_UNITS} x {side}² multipliers x 2 FLOPs); {source}"),
    )


# VMEM limits are those that libtpu 0.0.42.1 and 0.0.50.1 report when a kernel requests too much, which
# `tests/analysis/pallas/test_vmem.py` checks. They apply to one core; a chip may have two.
_GENERATIONS = (
    Chip(
        "v4",
        "TPU v4",
        Slices(3, 4096, 16),
        _peak("v4", {"bf16": 275, "s8": 275}, 1200, 32, 32, 540, _SCALING_BOOK),
        config="megacore",
        vmem=Vmem(16 * MIB, 16 * MIB),
    ),
    Chip(
        "v5e",
        "TPU v5 lite",
        Slices(2, 256, 16),
        _peak("v5e", {"bf16": 197, "s8": 393}, 819, 16, 128, 400),
        aliases=("v5litepod", "v5lite"),
        other_kinds=("TPU v5e",),
        vmem=Vmem(16 * MIB, 128 * MIB),
    ),
    Chip(
        "v5p",
        "TPU v5",
        Slices(3, 8960, 28),
        _peak("v5p", {"bf16": 459}, 2765, 95, 128, 1200),
        other_kinds=("TPU v5p",),
        vmem=Vmem(16 * MIB, 64 * MIB),
    ),
    Chip(
        "v6e",
        "TPU v6 lite",
        Slices(2, 256, 16),
        _peak("v6e", {"bf16": 918, "s8": 1836}, 1638, 32, 128, 800),
        aliases=("v6", "trillium"),
        other_kinds=("TPU v6e",),
        vmem=Vmem(32 * MIB, 128 * MIB),
    ),
    Chip(
        "tpu7x",
        "TPU7x",
        Slices(3, 9216, 24, devices_per_chip=2),
        _peak("tpu7x", {"bf16": 2307, "f8": 4614}, 7380, 192, 128, 1200),
        aliases=("v7x", "7x", "ironwood"),
        vmem=Vmem(32 * MIB, 64 * MIB),
    ),
)

TPU = Platform(
    name="tpu",
    kind="tpu",
    lowering="tpu",
    words="a TPU",
    chip_word="TPU generation",
    spaces={0: "HBM", 1: "VMEM", 2: "SMEM", 5: "host"},  # names from libtpu's memory usage report
    back_end="code generation: LLO, serialization",
    load_args=(
        f"--xla_jf_dump_to={SCRATCH}/llo",
        "--xla_jf_dump_llo_text=true",
        f"--xla_mosaic_dump_to={SCRATCH}/mosaic",
    ),
    load_folders=("llo", "mosaic"),
    pallas=("mosaic_tpu",),
    plugin="tpu_plugin",
    chips=_GENERATIONS,
    usual_chip="v5e",
    listed=("1", "4", "8"),
    example="tpu:v5e:2x4",
    offered=("tpu:v5e:2x4", "tpu:v6e:2x2", "tpu:v5p:2x2x1"),
)
