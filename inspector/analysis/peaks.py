"""What chips can do at most, as their makers publish it: the roofs of `analysis/roofline.py`.

Each figure is the maker's own, for one chip, without sparsity; the maker's publication stands beside it.
What could not be found there is `Unavailable`. TPU figures were read in Google's documentation, the
capacities of their vector memories in that of Pallas (docs.jax.dev/en/latest/pallas/tpu/hardware.html);
NVIDIA's figures were taken from tables that name these publications.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from inspector.compilation.chips import GPUS, TPU_GENERATIONS
from inspector.compilation.target import Target
from inspector.errors import Unavailable

_NOT_PUBLISHED = Unavailable("not in the publication that the other figures are from")
_TERA = 1e12
_GIGA = 1e9
_GIB = 1 << 30
_MIB = 1 << 20
_GCP = "https://docs.cloud.google.com/tpu/docs/"
_NVIDIA = "https://www.nvidia.com/en-us/data-center/"


@dataclasses.dataclass(frozen=True, slots=True)
class Peak:
    """A chip's figures.

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


def _tpu(
    chip: str, tera: Mapping[str, float], giga: float, gib: int, vmem_mib: int, ici_giga: float | None, page: str
) -> Peak:
    return Peak(
        chip,
        {name: value * _TERA for name, value in tera.items()},
        giga * _GIGA,
        gib * _GIB,
        vmem_mib * _MIB,
        _NOT_PUBLISHED if ici_giga is None else ici_giga * _GIGA,
        _GCP + page,
    )


def _gpu(
    chip: str,
    tera: Mapping[str, float],
    giga: float,
    gb: int,
    nvlink_giga: float | None,
    source: str,
    note: str = "",
    *,
    linked: int = 8,
    switches_reduce: bool = True,
) -> Peak:
    return Peak(
        chip,
        {name: value * _TERA for name, value in tera.items()},
        giga * _GIGA,
        int(gb * _GIGA),
        Unavailable("a GPU has none"),
        _NOT_PUBLISHED if nvlink_giga is None else nvlink_giga * _GIGA,
        source,
        note,
        linked,
        switches_reduce,
    )


_A100 = {"f64": 19.5, "f32": 19.5, "tf32": 156, "bf16": 312, "f16": 312, "s8": 624}
_A100_SHEET = "https://www.nvidia.com/content/dam/en-zz/Solutions/Data-Center/a100/pdf/nvidia-a100-datasheet-us-nvidia-1758950-r4-web.pdf"
_HOPPER = {"f64": 67, "f32": 67, "tf32": 494.7, "bf16": 989.4, "f16": 989.4, "f8": 1978.9, "s8": 1978.9}
_HOPPER_PAPER = "https://resources.nvidia.com/en-us-tensor-core/gtc22-whitepaper-hopper"
_EIGHTH = "published for eight GPUs, some with sparsity; here an eighth, without"

PEAKS: Mapping[str, Peak] = {
    peak.chip: peak
    for peak in (
        _tpu("v4", {"bf16": 275, "s8": 275}, 1200, 32, 32, None, "v4"),
        _tpu("v5e", {"bf16": 197, "s8": 393}, 819, 16, 128, 400, "v5e"),
        _tpu("v5p", {"bf16": 459}, 2765, 95, 128, 1200, "v5p"),
        _tpu("v6e", {"bf16": 918, "s8": 1836}, 1638, 32, 128, 800, "v6e"),
        _tpu("tpu7x", {"bf16": 2307, "f8": 4614}, 7380, 192, 128, 1200, "tpu7x"),
        _gpu("a100", _A100, 2039, 80, 600, _A100_SHEET, switches_reduce=False),
        _gpu("a100-40gb", _A100, 1555, 40, 600, _A100_SHEET, switches_reduce=False),
        _gpu("a100-pcie", _A100, 1935, 80, 600, _A100_SHEET, linked=2, switches_reduce=False),
        _gpu("h100", _HOPPER, 3350, 80, 900, _HOPPER_PAPER, f"memory as on {_NVIDIA}h100/"),
        _gpu("h200", _HOPPER, 4800, 141, 900, _NVIDIA + "h200/", "products published with sparsity; here half of it"),
        _gpu(
            "b200",
            {"f64": 37, "f32": 75, "tf32": 1125, "bf16": 2250, "f16": 2250, "f8": 4500, "s8": 4500, "f4": 9000},
            8000, 180, 1800, _NVIDIA + "hgx/", _EIGHTH,
        ),
        _gpu(
            "gb200",
            {"f64": 40, "f32": 80, "tf32": 1250, "bf16": 2500, "f16": 2500, "f8": 5000, "s8": 5000, "f4": 10000},
            8000, 186, 1800, _NVIDIA + "gb200-nvl72/", "published for 72 GPUs, some with sparsity; here for one, without", linked=72,
        ),
    )
}  # fmt: skip
"""By the chip's name in targets."""


def peak_of(target: Target, devices: Sequence[str] = ()) -> Peak | Unavailable:
    """What one of a target's JAX devices can do at most, where its maker publishes it.

    Args:
      target: "attached" goes by its devices.
      devices: as in `Compiled.devices`.
    """
    chip = target.chip or _chip_of(devices)
    if target.kind == "cpu" or chip == "cpu":
        return Unavailable(
            "no maker publishes what a share of this CPU can do", "give the roofline peak=inspector.measured_peak()"
        )
    peak = PEAKS.get(chip)
    if peak is None:
        what = f"the {chip}" if chip else ", ".join(devices[:1]) or str(target)
        return Unavailable(f"inspector knows no published figures of {what}", "give the roofline a Peak of your own")
    generation = TPU_GENERATIONS.get(peak.chip)
    return _shared(peak, generation.devices_per_chip) if generation is not None else peak


def _chip_of(devices: Sequence[str]) -> str:
    """The chip by the first device's text, which begins with JAX's name of its kind; "" for one that is not known."""
    kind = devices[0].partition(" at ")[0].rpartition(" ")[0] if devices else ""
    if kind in ("cpu", *_TPU_KINDS):
        return _TPU_KINDS.get(kind, kind)
    known = [name for name, description in GPUS.items() if kind and description == kind]
    return (
        known or [name for name, description in GPUS.items() if kind and description.startswith(f"{kind} ")] or [""]
    )[0]


_TPU_KINDS = {
    "TPU v4": "v4", "TPU v5 lite": "v5e", "TPU v5e": "v5e", "TPU v5": "v5p", "TPU v5p": "v5p", "TPU v6 lite": "v6e",
    "TPU v6e": "v6e", "TPU7x": "tpu7x",
}  # fmt: skip


def _shared(peak: Peak, devices: int) -> Peak:
    """The part of one device, where a chip has several."""
    if devices == 1:
        return peak

    def part(value: float | Unavailable) -> float | Unavailable:
        return value if isinstance(value, Unavailable) else value / devices

    def whole(value: int | Unavailable) -> int | Unavailable:
        return value if isinstance(value, Unavailable) else value // devices

    return dataclasses.replace(
        peak,
        flops_per_s={name: value / devices for name, value in peak.flops_per_s.items()},
        memory_bytes_per_s=peak.memory_bytes_per_s / devices,
        memory_bytes=whole(peak.memory_bytes),
        vmem_bytes=whole(peak.vmem_bytes),
        interconnect_bytes_per_s=part(peak.interconnect_bytes_per_s),
        note=f"one of the {devices} devices of a chip",
    )


_SIZE = 1024
_COPIED = 32 * _MIB


def measured_peak(clock: Callable[[], float] = time.perf_counter) -> Peak:
    """What this machine's CPU does now, measured with NumPy: a matrix product and a copy. Takes a second.

    Not a maker's figure, and not XLA's code: the best of a few tries on a machine that may be busy.

    Args:
      clock: seconds; for tests.
    """
    a = np.ones((_SIZE, _SIZE), np.float32)
    product_s = min(_seconds(clock, lambda: a @ a) for _ in range(5))
    source, copy = np.ones(_COPIED // 4, np.float32), np.empty(_COPIED // 4, np.float32)
    copy_s = min(_seconds(clock, lambda: np.copyto(copy, source)) for _ in range(5))
    unknown = Unavailable("not measured")
    return Peak(
        "cpu",
        {"f32": 2 * _SIZE**3 / product_s},
        2 * _COPIED / copy_s,
        unknown,
        Unavailable("a CPU has none"),
        unknown,
        "measured on this machine with NumPy",
    )


def _seconds(clock: Callable[[], float], work: Callable[[], object]) -> float:
    started = clock()
    work()
    return clock() - started
