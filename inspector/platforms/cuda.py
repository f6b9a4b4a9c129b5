"""NVIDIA GPUs, for which XLA compiles with JAX's CUDA plugin. Users write "gpu"; JAX's lowering calls the platform "cuda".

Device kinds are the descriptions that identify XLA's GPU configurations. Each figure is from the NVIDIA publication
named next to it.

The vector unit's rate is the published peak of `f32` outside of tensor cores. A multiprocessor computes 16 special functions
per cycle (CUDA C++ Programming Guide, "Arithmetic Instructions"), and 128 or 256 FLOPs of `f32`.
"""

import dataclasses
from collections.abc import Mapping

from inspector.platforms.chip import GIGA, TERA, Chip, Peak, Rate
from inspector.platforms.platform import GPU_CODE, GPU_SPACES, CodeFile, Platform
from inspector.platforms.topologies import Hosts

_GUIDE = "https://docs.nvidia.com/cuda/cuda-c-programming-guide/#arithmetic-instructions"
_SPECIAL = 16  # special functions per multiprocessor and cycle
_NVIDIA = "https://www.nvidia.com/en-us/data-center/"


def _peak(
    chip: str, tera: Mapping[str, float], giga: float, gb: int, nvlink_giga: float | None, source: str, note: str = "",
    *, linked: int = 8, switches_reduce: bool = True,
) -> Peak:  # fmt: skip
    peak = Peak.published(
        chip,
        tera,
        giga,
        int(gb * GIGA),
        nvlink_giga,
        source,
        note,
        linked_devices=linked,
        switches_reduce=switches_reduce,
    )
    flops = 128 if chip.startswith("a100") else 256  # f32, per multiprocessor and cycle
    return dataclasses.replace(
        peak,
        vector=Rate(tera["f32"] * TERA, source),
        transcendental=Rate(
            tera["f32"] * TERA * _SPECIAL / flops, f"{_SPECIAL} per {flops} f32 FLOPs of a multiprocessor; {_GUIDE}"
        ),
    )


_A100 = {"f64": 19.5, "f32": 19.5, "tf32": 156, "bf16": 312, "f16": 312, "s8": 624}
_A100_SHEET = "https://www.nvidia.com/content/dam/en-zz/Solutions/Data-Center/a100/pdf/nvidia-a100-datasheet-us-nvidia-1758950-r4-web.pdf"
_HOPPER = {"f64": 67, "f32": 67, "tf32": 494.7, "bf16": 989.4, "f16": 989.4, "f8": 1978.9, "s8": 1978.9}
_HOPPER_PAPER = "https://resources.nvidia.com/en-us-tensor-core/gtc22-whitepaper-hopper"
_EIGHTH = "one eighth of the figures published for eight GPUs, without sparsity"

_PEAKS = {
    peak.chip: peak
    for peak in (
        _peak("a100", _A100, 2039, 80, 600, _A100_SHEET, switches_reduce=False),
        _peak("a100-40gb", _A100, 1555, 40, 600, _A100_SHEET, switches_reduce=False),
        _peak("a100-pcie", _A100, 1935, 80, 600, _A100_SHEET, linked=2, switches_reduce=False),
        _peak("h100", _HOPPER, 3350, 80, 900, _HOPPER_PAPER, f"memory figures from {_NVIDIA}h100/"),
        _peak("h200", _HOPPER, 4800, 141, 900, _NVIDIA + "h200/", "half of the FLOP/s published with sparsity"),
        _peak(
            "b200",
            {"f64": 37, "f32": 75, "tf32": 1125, "bf16": 2250, "f16": 2250, "f8": 4500, "s8": 4500, "f4": 9000},
            8000, 180, 1800, _NVIDIA + "hgx/", _EIGHTH,
        ),
        _peak(
            "gb200",
            {"f64": 40, "f32": 80, "tf32": 1250, "bf16": 2500, "f16": 2500, "f8": 5000, "s8": 5000, "f4": 10000},
            8000, 186, 1800, _NVIDIA + "gb200-nvl72/", "1/72 of the figures published for 72 GPUs, without sparsity", linked=72,
        ),
    )
}  # fmt: skip


def _chip(name: str, device_kind: str, toolkits: tuple[int, int] | None = None) -> Chip:
    """Builds a chip. `toolkits` are the first and last major version of CUDA that supports it; None for all versions."""
    return Chip(name, device_kind, Hosts(), _PEAKS.get(name), toolkits=toolkits)


CUDA = Platform(
    name="gpu",
    kind="gpu",
    lowering="cuda",
    words="a GPU",
    vendor="nvidia",
    chip_word="GPU",
    spaces=GPU_SPACES,
    back_end="code generation: LLVM, ptxas",
    code=(
        *GPU_CODE,
        CodeFile("PTX", "ptx", ".ptx"),
    ),
    # `.*` would also dump every step of Triton's passes, which takes minutes.
    emitters="^(llvm|ptx)$",
    machine_code="SASS",
    pallas=("triton", "mosaic_gpu"),
    plugin="cuda_plugin",
    chips=(
        _chip("p100", "Tesla P100-SXM2-16GB", (8, 12)),
        _chip("v100", "Tesla V100-SXM2-16GB", (9, 12)),
        _chip("a6000", "NVIDIA RTX A6000"),
        _chip("a100", "NVIDIA A100-SXM4-80GB"),
        _chip("a100-40gb", "NVIDIA A100-SXM4-40GB"),
        _chip("a100-pcie", "NVIDIA A100 80GB PCIe"),
        _chip("h100", "NVIDIA H100 80GB HBM3"),
        _chip("h100-pcie", "NVIDIA H100 PCIe"),
        _chip("h100-mig", "NVIDIA H100 80GB HBM3 MIG 1g.10gb"),
        _chip("h200", "NVIDIA H200 141GB HBM3e"),
        _chip("b200", "NVIDIA B200"),
        _chip("b200-mig", "NVIDIA B200 MIG 1g.23gb"),
        _chip("b300", "NVIDIA B300"),
        _chip("gb200", "NVIDIA GB200"),
        _chip("gb300", "NVIDIA GB300"),
        _chip("rtx-pro-6000", "NVIDIA RTX PRO 6000 Blackwell"),
        _chip("vr-nvl72", "NVIDIA VR NVL72", (13, 13)),
    ),
    usual_chip="h100",
    listed=("1", "8"),
    example="gpu:h100:8",
    offered=("gpu:h100:1", "gpu:h100:8", "gpu:b200:1"),
)
