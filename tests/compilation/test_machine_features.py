"""The CPU of an executable, and whether this one can run it."""

from __future__ import annotations

import platform
from pathlib import Path

import jax
import numpy as np
import pytest

from inspector.compilation.machine_features import check_cpu
from inspector.errors import ExecutionError, Unavailable
from inspector.hlo.executable import cpu_features

CPUINFO = Path("/proc/cpuinfo")


@pytest.fixture(scope="module")
def local() -> bytes:
    raw = jax.jit(lambda x: x + 1).lower(np.ones(4)).compile().runtime_executable()
    return bytes(raw.serialize())


def without(executable: bytes, *names: str) -> bytes:
    """As from a CPU without these features: the bytes contain them as text."""
    for name in names:
        assert f"+{name},".encode() in executable
        executable = executable.replace(f"+{name},".encode(), f"-{name},".encode())
    return executable


@pytest.mark.skipif(
    platform.machine() != "x86_64" or not CPUINFO.exists(), reason="compares with what Linux tells of an x86-64 CPU"
)
@pytest.mark.parametrize("name", ["avx", "avx2", "avx512f", "fma", "aes", "bmi2", "avx512_bf16"])
def test_features_equal_those_of_linux(local: bytes, name: str) -> None:
    features = cpu_features(local)
    assert isinstance(features, frozenset)
    (flags,) = {line for line in CPUINFO.read_text().splitlines() if line.startswith("flags")}
    assert (name.replace("_", "") in features) == (name in flags.split())


def test_preferences_are_not_features(local: bytes) -> None:
    features = cpu_features(local)
    assert isinstance(features, frozenset)
    assert features
    assert not any(name.startswith(("prefer-", "+", "-")) for name in features)


@pytest.mark.parametrize("data", [b"", b"\x00", b"not an executable"])
def test_machine_code_without_features_is_unavailable(data: bytes, local: bytes) -> None:
    assert isinstance(cpu_features(data), Unavailable)
    check_cpu(data, local)
    check_cpu(local, data)


def test_the_same_cpu_and_an_older_one(local: bytes) -> None:
    names = sorted(cpu_features(local) or ())[:9]
    older = without(local, *names)
    check_cpu(local, local)
    check_cpu(older, local)
    with pytest.raises(ExecutionError, match=f"on a CPU with {names[0]}, which this CPU lacks.*illegal instruction"):
        check_cpu(local, without(local, names[0]))
    with pytest.raises(ExecutionError, match=rf"{names[7]} and 1 more, which this CPU lacks"):
        check_cpu(local, older)
