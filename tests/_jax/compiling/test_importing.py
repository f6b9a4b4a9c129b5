"""Slow parts of the import of JAX are omitted where they are not used."""

from __future__ import annotations

import importlib.metadata
import json

import pytest

from inspector._jax.compiling.importing import without_rocm
from tests.conftest import RunPython

COUNT = """
import contextlib, importlib.metadata as metadata, json, sys
from inspector._jax.compiling.importing import without_rocm
reads = []
read = metadata.PathDistribution.read_text
def counted(distribution, name):
    reads.append(name)
    return read(distribution, name)
metadata.PathDistribution.read_text = counted
with {around}:
    import jax.numpy
print(json.dumps([len(reads), jax.devices()[0].platform, len(list(metadata.distributions())) > 0]))
"""


def reads_of(python: RunPython, around: str) -> int:
    count, platform, are_found_after = json.loads(python(COUNT.format(around=around)).stdout)
    assert (platform, are_found_after) == ("cpu", True)
    assert isinstance(count, int)
    return count


@pytest.mark.slow
def test_jax_reads_of_no_package_in_search_of_rocm(one_device_python: RunPython) -> None:
    packages = len(list(importlib.metadata.distributions()))
    assert reads_of(one_device_python, "contextlib.nullcontext()") >= packages, "JAX no longer looks: delete this"
    assert reads_of(one_device_python, "without_rocm()") < packages / 4


def test_packages_are_found_again_whatever_happens() -> None:
    found = importlib.metadata.distributions
    try:
        with without_rocm():
            raise RuntimeError
    except RuntimeError:
        assert importlib.metadata.distributions is found
