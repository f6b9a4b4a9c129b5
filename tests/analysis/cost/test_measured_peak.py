"""The roofs of this machine's CPU: work over time, remembered in the cache folder."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inspector.analysis.cost import measured_peak as module
from inspector.analysis.cost.measured_peak import measured_peak
from inspector.errors import Unavailable
from inspector.platforms import CacheLevel, Peak, Rate

MIB = 1 << 20


@pytest.fixture(autouse=True)
def cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_cores", lambda: 2)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(module.files, "cache_folder", lambda: tmp_path / "caches")
    return tmp_path / "caches"


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """The speeds of the measurements to come; each rate of a measurement is its speed times one billion."""
    speeds: list[float] = []

    def measure(clock: object, cores: int) -> dict[str, float]:
        names = (*module._NAMES, *(f"{kind} {size}" for size in module._CACHED for kind in ("copy", "strided copy")))
        return dict.fromkeys(names, speeds.pop(0) * 1e9)

    monkeypatch.setattr(module, "_measured", measure)
    yield speeds
    assert not speeds


def test_a_rate_is_work_over_the_time_of_the_fastest_run() -> None:
    ticks = itertools.count()
    peak = measured_peak(clock=lambda: float(next(ticks)))
    assert peak.flops_per_s == {"f32": 2 * 2048**3}
    assert peak.memory_bytes_per_s == 2 * 64 * MIB
    sizes = (MIB // 4, MIB, 4 * MIB, 16 * MIB)
    assert peak.caches == tuple(CacheLevel(2 * size, 2 * 64 * MIB, 2 * size) for size in sizes)
    for rate in (peak.comparisons, peak.direct_comparisons):
        assert isinstance(rate, Rate)
        assert rate.per_s == 8192 * 13  # of one core
    assert isinstance(peak.strided, Rate)
    assert peak.strided.per_s == 2 * 64 * MIB
    assert isinstance(peak.vector, Rate)
    assert isinstance(peak.transcendental, Rate)
    assert peak.vector.per_s == 2048**3
    assert peak.transcendental.per_s == 2048**3 / 12
    assert isinstance(peak.transforms, Rate)
    assert peak.transforms.per_s == 2 * 5 * 8192 * 10  # 8 transforms of 1,024 points on each core
    assert isinstance(peak.chained, Rate)
    assert isinstance(peak.runs, Rate)
    assert isinstance(peak.first_writes, Rate)
    assert peak.chained.per_s == 2 * 16 * 16 * 1024
    assert peak.runs.per_s == 2 * 256 * 512  # every second run of 16 values
    assert peak.first_writes.per_s == 2 * 16 * MIB
    assert peak.source == "measured on this machine with NumPy, on 2 cores"
    for name in ("memory_bytes", "vmem_bytes", "interconnect_bytes_per_s", "clock", "vmem"):
        assert isinstance(getattr(peak, name), Unavailable)


def test_the_fastest_run_counts_and_all_take_their_time() -> None:
    clock = itertools.accumulate([0.0, 0.0, 0.08, 0.0, 0.03, 0.0, 0.03, 0.0, 0.02, 0.0, 0.05])
    assert module._best_s(lambda: next(clock), lambda: None) == pytest.approx(0.02)


def test_rates_are_remembered(folder: Path, runs: list[float]) -> None:
    runs += [3.0]
    first = measured_peak()
    assert measured_peak() == first
    (path,) = folder.iterdir()
    assert path.stat().st_mode & 0o077 == 0
    assert set(json.loads(path.read_text()).values()) == {3e9}


def test_a_second_measurement_keeps_the_faster_rates(folder: Path, runs: list[float]) -> None:
    runs += [3.0, 2.0, 4.0]
    rates = [measured_peak(again=again).memory_bytes_per_s for again in (False, True, True, False)]
    assert rates == [3e9, 3e9, 4e9, 4e9]


@pytest.mark.parametrize("content", [b"", b"[1]", b"{}", b'{"f32": 1.0}', b"damaged"])
def test_damaged_rates_are_measured_again(folder: Path, runs: list[float], content: bytes) -> None:
    runs += [3.0, 5.0]
    measured_peak()
    (path,) = folder.iterdir()
    path.write_bytes(content)
    assert measured_peak().memory_bytes_per_s == 5e9
    assert measured_peak().memory_bytes_per_s == 5e9


@pytest.mark.parametrize("rate", [float("nan"), -1.0, 0.0, 1e30, "1", None, True])
def test_impossible_rates_are_measured_again(folder: Path, runs: list[float], rate: object) -> None:
    runs += [3.0, 5.0]
    measured_peak()
    (path,) = folder.iterdir()
    path.write_text(json.dumps(json.loads(path.read_text()) | {"memory": rate}))
    assert measured_peak().memory_bytes_per_s == 5e9


def test_another_number_of_cores_is_another_machine(
    folder: Path, runs: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    runs += [3.0, 5.0]
    measured_peak()
    monkeypatch.setattr(module, "_cores", lambda: 1)
    peak = measured_peak()
    assert peak.memory_bytes_per_s == 5e9
    assert peak.source.endswith("on 1 core")
    assert len([*folder.iterdir()]) == 2


def test_without_a_folder_nothing_is_remembered(runs: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.files, "cache_folder", lambda: None)
    runs += [3.0, 5.0]
    assert [measured_peak().memory_bytes_per_s for _ in range(2)] == [3e9, 5e9]


def test_this_machine_has_plausible_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_RUNS_S", 0.02)
    peak: Any = module._peak(module._measured(module.time.perf_counter, 2), 2)
    assert isinstance(peak, Peak)
    assert 1e9 < peak.flops_per_s["f32"] < 1e15
    assert 1e8 < peak.memory_bytes_per_s < 1e14
    assert 1e7 < peak.transcendental.per_s < peak.flops_per_s["f32"]
    assert 1e6 < peak.comparisons.per_s < peak.direct_comparisons.per_s < 1e11
    assert 1e7 < peak.chained.per_s < peak.flops_per_s["f32"]
    assert 1e6 < peak.runs.per_s < 1e11
    assert 1e7 < peak.first_writes.per_s < peak.memory_bytes_per_s
    assert 1e8 < peak.strided.per_s < peak.memory_bytes_per_s
    assert all(1e8 < cache.strided_bytes_per_s < cache.bytes_per_s for cache in peak.caches)


@pytest.mark.parametrize("size", [MIB // 4, MIB, 4 * MIB])
def test_a_strided_copy_is_a_transposition(size: int) -> None:
    source, result = np.arange(size // 4, dtype=np.float32), np.zeros(size // 4, np.float32)
    module._transpose(source, result)
    assert np.array_equal(np.sort(result), source)
    stride = int(result[1] - result[0])
    assert source.size // stride in (stride, 2 * stride, stride // 2)


def test_every_second_run_is_copied() -> None:
    source, result = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    module._copy_runs(source, result)
    assert result.tolist() == [*range(16), *[0] * 16, *range(32, 48), *[0] * 16]
