"""Imports JAX quickly in a process that only compiles."""

from __future__ import annotations

import contextlib
import importlib.metadata
from collections.abc import Iterator


@contextlib.contextmanager
def without_rocm() -> Iterator[None]:
    """Skips the search for AMD's plugin during the first import of JAX; for processes that do not use AMD devices.

    For this search, JAX's import reads the metadata of every installed package (0.10 to 0.12), which is a tenth of
    the import time with 150 packages, and more with more packages.
    """
    distributions = importlib.metadata.distributions
    importlib.metadata.distributions = lambda **_: iter(())
    try:
        yield
    finally:
        importlib.metadata.distributions = distributions
