"""AMD GPUs, for which XLA compiles with JAX's ROCm plugin.

Figures are from AMD's product pages. FLOP/s of matrix products are compute units x clock x operations per clock (AMD's
white papers on CDNA 2, 3 and 4); `tests/platforms/test_rocm.py` recomputes them. There is no `tf32`: XLA multiplies
`f32` in full precision on these GPUs. The rate of the vector unit is the page's peak of `f32` that is not for matrices. AMD
publishes no rate of transcendental functions.
"""

import dataclasses
from collections.abc import Mapping

from inspector.errors import Unavailable
from inspector.platforms.chip import GIGA, TERA, Chip, Peak, Rate
from inspector.platforms.platform import GPU_CODE, GPU_SPACES, Platform
from inspector.platforms.topologies import Hosts

_AMD = "https://www.amd.com/en/products/accelerators/instinct/"


def _peak(
    chip: str,
    tera: Mapping[str, float],
    giga: float,
    gb: int,
    fabric_giga: float | None,
    page: str,
    vector: float | None = None,
) -> Peak:
    """Builds a peak. `vector` is the rate of the vector unit in tera-FLOP/s; None if equal to that of `f32` products."""
    unknown = Unavailable("the number of links that connect GPUs differs between machines")
    source, memory_bytes = f"{_AMD}{page}.html", int(gb * GIGA)
    peak = Peak.published(chip, tera, giga, memory_bytes, fabric_giga, source, unknown_links=unknown, linked_devices=8)
    return dataclasses.replace(peak, vector=Rate((vector or tera["f32"]) * TERA, source))


_CDNA_2 = {"f64": 95.7, "f32": 95.7, "bf16": 383, "f16": 383, "s8": 383}
_MI300A = {"f64": 122.6, "f32": 122.6, "bf16": 980.6, "f16": 980.6, "f8": 1961.2, "s8": 1961.2}
_CDNA_3 = {"f64": 163.4, "f32": 163.4, "bf16": 1307.4, "f16": 1307.4, "f8": 2614.9, "s8": 2614.9}
_MI350X = {"f64": 72.1, "f32": 144.2, "bf16": 2306.9, "f16": 2306.9, "f8": 4613.7, "s8": 4613.7, "f4": 9227.5}
_MI355X = {"f64": 78.6, "f32": 157.3, "bf16": 2516.6, "f16": 2516.6, "f8": 5033.2, "s8": 5033.2, "f4": 10066.3}


def _chip(name: str, architecture: str, peak: Peak, *, devices: int = 1, other_kinds: tuple[str, ...] = ()) -> Chip:
    return Chip(
        name,
        f"AMD Instinct {name.upper()}",
        Hosts(devices_per_chip=devices),
        peak,
        other_kinds=other_kinds,
        architecture=architecture,
    )


ROCM = Platform(
    name="rocm",
    kind="gpu",
    lowering="rocm",
    words="an AMD GPU",
    vendor="amd",
    chip_word="GPU",
    spaces=GPU_SPACES,
    back_end="code generation: LLVM, lld",
    code=GPU_CODE,
    emitters="^llvm$",
    pallas=("triton",),
    plugin="rocm_plugin",
    chips=(
        # Each of the two dies is a device.
        _chip("mi250x", "gfx90a", _peak("mi250x", _CDNA_2, 3276.8, 128, None, "mi200/mi250x", 47.9), devices=2),
        _chip("mi300a", "gfx942", _peak("mi300a", _MI300A, 5300, 128, None, "mi300/mi300a")),
        # Seven of the eight links connect GPUs, with 128 GB/s each (153.6 GB/s from MI350X on).
        _chip(
            "mi300x",
            "gfx942",
            _peak("mi300x", _CDNA_3, 5300, 192, 896, "mi300/mi300x"),
            other_kinds=("AMD Instinct MI300X OAM", "AMD Instinct MI300X VF"),
        ),
        _chip("mi325x", "gfx942", _peak("mi325x", _CDNA_3, 6000, 256, 896, "mi300/mi325x")),
        _chip("mi350x", "gfx950", _peak("mi350x", _MI350X, 8000, 288, 1075.2, "mi350/mi350x")),
        _chip("mi355x", "gfx950", _peak("mi355x", _MI355X, 8000, 288, 1075.2, "mi350/mi355x")),
    ),
    usual_chip="mi300x",
    listed=("1", "8"),
    example="gpu:mi300x:8",
    offered=("gpu:mi300x:1", "gpu:mi300x:8"),
)
