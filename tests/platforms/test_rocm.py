"""ROCm without one of AMD's GPUs: lowering, targets with their reasons, figures."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl

import inspector
from inspector._jax.compiling import rocm_plugin
from inspector.analysis.cost.peaks import peak_of
from inspector.compilation.memory import space_name
from inspector.engines.targets import offered_targets
from inspector.errors import LoweringError, ParameterError, TargetError, Unavailable
from inspector.platforms import ROCM, Chip, Peak, attached, named
from inspector.stages.lowered import compile_request
from inspector.support.install_commands import install_command

X = jax.ShapeDtypeStruct((64, 64), jnp.float32)


def doubled(x: jax.Array) -> jax.Array:
    def kernel(x_ref: jax.Array, o_ref: jax.Array) -> None:
        o_ref[...] = x_ref[...] * 2

    return pl.pallas_call(kernel, out_shape=X)(x)


@pytest.mark.parametrize("wanted", [{"platform": "rocm"}, {"target": "gpu:mi300x:8"}])
def test_lowering(wanted: dict[str, str]) -> None:
    """As JAX itself lowers for ROCm."""
    lowered = inspector.lower(lambda x: jnp.tanh(x @ x), X, **wanted)
    assert lowered.program.platform == "rocm"
    assert compile_request(lowered, None, "gpu:mi300x:1").program.platform == "rocm"
    jitted = jax.jit(lambda x: jnp.linalg.cholesky(x @ x))
    theirs = jitted.trace(X).lower(lowering_platforms=("rocm",)).as_text()
    ours = inspector.lower(jitted, X, **wanted).stablehlo
    assert "hipsolver" in theirs
    assert [line for line in theirs.splitlines() if "custom_call" in line] == [
        line for line in ours.splitlines() if "custom_call" in line
    ]
    assert "cusolver" in inspector.lower(jitted, X, platform="cuda").stablehlo


def test_rocm_is_among_the_platform_names() -> None:
    with pytest.raises(ParameterError, match=r"Expected one of cpu, tpu, gpu, rocm, or None"):
        inspector.lower(lambda x: x, X, platform="tpus")


def test_lowering_again_for_another_gpu() -> None:
    lowered = inspector.lower(lambda x: x + 1, X, target="gpu:h100:1")
    assert compile_request(lowered, None, "gpu:mi300x:1").program.platform == "rocm"
    assert compile_request(lowered, None, "gpu:h100:1").program.platform == "gpu"


@pytest.mark.filterwarnings("ignore:The Pallas Triton backend is deprecated:DeprecationWarning")  # by JAX 0.12
def test_kernels_are_triton_s() -> None:
    lowered = inspector.lower(doubled, X, target="gpu:mi355x:1")
    assert (lowered.program.platform, lowered.kernels[0].backend) == ("rocm", "triton")


def test_kernels_for_mosaic_are_nvidia_s() -> None:
    gpu = pytest.importorskip("jax.experimental.pallas.mosaic_gpu", exc_type=ImportError)

    def mosaic(x: jax.Array) -> jax.Array:
        return pl.pallas_call(
            lambda x_ref, o_ref: None, out_shape=X, compiler_params=gpu.CompilerParams()
        )(x)  # fmt: skip

    with pytest.raises(LoweringError, match="parameters of mosaic_gpu and cannot be lowered for rocm"):
        inspector.lower(mosaic, X, platform="rocm")


def test_unavailable_targets_have_a_reason() -> None:
    table = inspector.targets()
    rows = table[table.platform == "rocm"]
    assert set(rows.target) == {f"gpu:{chip.name}:{count}" for chip in ROCM.chips for count in (1, 8)}
    assert not rows.available.any()
    assert not rows.can_run.any()
    release = ".".join(jax.__version__.split(".")[:3])
    assert all(reason.endswith(install_command(f"jax-rocm7-plugin=={release}.*")) for reason in rows.reason)
    assert not set(rows.target) & set(offered_targets())


def test_compiling_is_refused_with_the_reason() -> None:
    lowered = inspector.lower(lambda x: x + 1, X, target="gpu:mi300x:8")
    with pytest.raises(
        TargetError,
        match=r"Cannot compile for gpu:mi300x:8: .* attached.* Install it with: .*pip install .*'jax-rocm7-plugin==",
    ):
        lowered.compile(target="gpu:mi300x:8")


def test_the_plugin_alone_does_not_help(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rocm_plugin.packages, "version", lambda name: "0.12.0" if name == "jax-rocm7-pjrt" else "")
    assert rocm_plugin.version() == "jax-rocm7-pjrt 0.12.0"
    lowered = inspector.lower(lambda x: x + 2, X, target="gpu:mi300x:8")
    with pytest.raises(TargetError) as refused:
        lowered.compile(target="gpu:mi300x:8")
    assert "Install" not in str(refused.value)
    assert "only where one is attached" in str(refused.value)


def test_attached_devices_are_distinguished() -> None:
    """By what their clients say of themselves; JAX calls the devices of both "gpu"."""
    assert attached("gpu", "PJRT C API\nrocm 70200") is ROCM
    assert attached("gpu", "PJRT C API\ncuda 13000") is named("cuda")


# Compute units, GHz, and operations a clock of each by the type, from AMD's papers on CDNA 2, 3 and 4.
UNITS = {
    "mi250x": (220, 1.7), "mi300a": (228, 2.1), "mi300x": (304, 2.1), "mi325x": (304, 2.1), "mi350x": (256, 2.2),
    "mi355x": (256, 2.4),
}  # fmt: skip
OPERATIONS = {
    "gfx90a": {"f64": 256, "f32": 256, "f16": 1024, "bf16": 1024, "s8": 1024},
    "gfx942": {"f64": 256, "f32": 256, "f16": 2048, "bf16": 2048, "f8": 4096, "s8": 4096},
    "gfx950": {"f64": 128, "f32": 256, "f16": 4096, "bf16": 4096, "f8": 8192, "s8": 8192, "f4": 16384},
}


@pytest.mark.parametrize("chip", ROCM.chips, ids=lambda chip: chip.name)
def test_figures_follow_from_the_units(chip: Chip) -> None:
    units, gigahertz = UNITS[chip.name]
    assert chip.peak is not None
    assert dict(chip.peak.flops_per_s) == pytest.approx(
        {name: units * gigahertz * 1e9 * each for name, each in OPERATIONS[chip.architecture].items()}, rel=1e-3
    )
    assert chip.peak.source.startswith("https://www.amd.com/")


def test_a_device_is_a_die_of_mi250x() -> None:
    target = inspector.Target("gpu:mi250x:4")
    peak = peak_of(target)
    assert isinstance(peak, Peak)
    assert (target.device_count, peak.flops_per_s["bf16"], peak.memory_bytes_per_s) == (8, 191.5e12, 1638.4e9)
    assert isinstance(peak.interconnect_bytes_per_s, Unavailable)
    assert str(inspector.Target("gpu:mi250x").with_devices(9)) == "gpu:mi250x:5"


def test_figures_by_an_attached_device() -> None:
    for kind in ("AMD Instinct MI300X", "AMD Instinct MI300X VF"):
        peak = peak_of(inspector.Target("attached"), [f"{kind} 3"])
        assert isinstance(peak, Peak)
        assert (peak.chip, peak.interconnect_bytes_per_s) == ("mi300x", 896e9)


def test_memory_spaces() -> None:
    assert [space_name("rocm", number) for number in (0, 5, 9)] == ["HBM", "host", "space 9"]
