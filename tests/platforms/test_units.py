"""Rates of the units of chips: each has a source, and those of TPUs follow from the published peaks."""

from __future__ import annotations

import pytest

from inspector.analysis.cost.peaks import peak_of
from inspector.compilation.target import Target
from inspector.errors import Unavailable
from inspector.platforms import CUDA, TPU, Peak, Rate
from tests.peaks import PEAKS

UNITS = ("vector", "transcendental", "vmem", "clock")


@pytest.mark.parametrize("peak", PEAKS.values(), ids=PEAKS)
def test_each_rate_names_its_source(peak: Peak) -> None:
    for name in UNITS:
        rate = getattr(peak, name)
        assert rate.reason if isinstance(rate, Unavailable) else rate.source and rate.per_s > 1e9
    assert isinstance(peak.vector, Rate)
    assert peak.vector.per_s <= max(peak.flops_per_s.values())


@pytest.mark.parametrize(
    ("chip", "ghz", "vector", "vmem"),
    [
        ("v4", 1.05, 8.6e12, 34.4e12),
        ("v5e", 1.50, 6.16e12, 24.6e12),
        ("v5p", 1.75, 14.3e12, 57.4e12),
        ("v6e", 1.75, 7.17e12, 28.7e12),
        ("tpu7x", 2.20, 18.0e12, 72.1e12),
    ],
)
def test_rates_of_a_tpu_follow_from_its_peak(chip: str, ghz: float, vector: float, vmem: float) -> None:
    peak = PEAKS[chip]
    rates = (peak.clock, peak.vector, peak.vmem, peak.transcendental)
    assert all(isinstance(rate, Rate) for rate in rates)
    clock, of_vector, of_vmem, of_functions = (rate.per_s for rate in rates if isinstance(rate, Rate))
    assert clock == pytest.approx(ghz * 1e9, rel=0.003)
    assert of_vector == pytest.approx(vector, rel=0.01)
    assert of_vmem == pytest.approx(vmem, rel=0.01)
    assert of_functions == pytest.approx(of_vector / 4)


def test_only_tpus_have_vmem_and_a_clock() -> None:
    tpus = {chip.name for chip in TPU.chips}
    for chip, peak in PEAKS.items():
        assert isinstance(peak.vmem, Rate) == isinstance(peak.clock, Rate) == (chip in tpus)


def test_a_gpu_computes_special_functions_at_a_sixteenth_of_its_flops() -> None:
    chips = [chip.peak for chip in CUDA.chips if chip.peak is not None]
    assert chips
    for peak in chips:
        assert isinstance(peak.vector, Rate)
        assert isinstance(peak.transcendental, Rate)
        assert peak.vector.per_s == peak.flops_per_s["f32"]
        lanes = 8 if peak.chip.startswith("a100") else 16
        assert peak.transcendental.per_s * lanes == pytest.approx(peak.vector.per_s)


def test_a_device_of_a_chip_has_its_share_and_the_same_clock() -> None:
    whole, device = PEAKS["tpu7x"], peak_of(Target.parse("tpu:tpu7x:2x2x1"))
    assert isinstance(device, Peak)
    assert device.clock == whole.clock
    for name in ("vector", "transcendental", "vmem"):
        part, all_ = getattr(device, name), getattr(whole, name)
        assert part.per_s * 2 == pytest.approx(all_.per_s)
        assert part.source == f"1/2 of {all_.source}"
