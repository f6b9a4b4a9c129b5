"""Programs that are kernels, and programs that contain one."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

import inspector
from inspector.analysis.pallas.kernel_share import is_mostly_kernels
from tests.kernels import matmul, scale, struct

X = struct(256, 256)


def two_kernels(x: Any) -> Any:
    return jax.jit(lambda y: matmul(y, y))(scale(x).T).astype(jnp.bfloat16)


def one_of_several(x: Any) -> Any:
    return jnp.sum(jnp.tanh(scale(jnp.sin(x) @ x)) ** 2)


@pytest.mark.parametrize("options", [{"platform": "tpu"}, {"platform": "tpu", "interpret": True}])
@pytest.mark.parametrize(("fun", "expected"), [(scale, True), (two_kernels, True), (one_of_several, False)])
def test_nearly_all_computing_instructions_are_of_kernels(fun: Any, expected: bool, options: dict[str, Any]) -> None:
    lowered = inspector.lower(fun, X, **options)
    assert is_mostly_kernels(lowered.module(), lowered.kernels) is expected


@pytest.mark.filterwarnings("ignore:Using ``pl.pallas_call`` for Mosaic GPU:DeprecationWarning")  # JAX 0.10 and 0.11
@pytest.mark.filterwarnings("ignore:The Pallas Triton backend is deprecated:DeprecationWarning")  # JAX 0.12
def test_kernels_of_a_gpu_and_programs_without_any() -> None:
    lowered = inspector.lower(scale, X, platform="gpu")
    assert is_mostly_kernels(lowered.module(), lowered.kernels)
    for fun in (lambda x: x + 1, lambda x: x.T):
        without = inspector.lower(fun, X)
        assert not is_mostly_kernels(without.module(), without.kernels)
