"""Defaults, as a process without XLA_FLAGS has them. The test process has XLA_FLAGS."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from inspector._jax.libraries import flag_defaults
from inspector.errors import Unavailable
from inspector.toolchain.xla import options_message


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "inspector"


def test_the_environment_does_not_change_them() -> None:
    assert "device_count=8" in os.environ["XLA_FLAGS"]
    data = flag_defaults.installed_defaults()
    assert isinstance(data, bytes)
    found = type(options_message()).FromString(data).executable_build_options.debug_options
    assert found.xla_force_host_platform_device_count == 1
    assert found.xla_backend_optimization_level == 3


def test_the_second_reading_starts_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    first = flag_defaults.installed_defaults()
    monkeypatch.setattr(subprocess, "run", lambda *a, **k: pytest.fail("started a process although cached"))
    assert flag_defaults.installed_defaults() == first


def test_a_failed_process_is_a_reason_and_not_cached(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flag_defaults, "_SCRIPT", "raise SystemExit('no such luck')")
    found = flag_defaults.installed_defaults()
    assert isinstance(found, Unavailable)
    assert "no such luck" in found.reason
    assert not cache.exists() or not list(cache.iterdir())
