"""Imports JAX in a process that only compiles, and that somebody waits for."""

from __future__ import annotations

import contextlib
import importlib.metadata
from collections.abc import Iterator


@contextlib.contextmanager
def without_rocm() -> Iterator[None]:
    """Around the first import of JAX in a process that has no use for AMD's devices.

    JAX's import reads the description of every installed package in search of their plugin (0.10 to 0.12), which is a
    tenth of it among 150 packages, and more among more.
    """
    distributions = importlib.metadata.distributions
    importlib.metadata.distributions = lambda **_: iter(())
    try:
        yield
    finally:
        importlib.metadata.distributions = distributions
