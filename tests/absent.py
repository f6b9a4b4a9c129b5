"""Marks of tests that compile for devices that are not here."""

from __future__ import annotations

import pytest

from inspector._jax.compiling.ahead_of_time import absent_platform

needs_tpu = pytest.mark.skipif(
    absent_platform("tpu") is not None, reason="libtpu is not installed: pip install 'jax-inspector[tpu]'"
)
needs_gpu = pytest.mark.skipif(
    absent_platform("gpu") is not None, reason="no CUDA plugin: pip install 'jax-inspector[cuda]'"
)
