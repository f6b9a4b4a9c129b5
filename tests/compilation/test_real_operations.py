"""Operations of complex arithmetic and of FFTs against formulas by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import inspector
from inspector.compilation.cost import Cost
from inspector.engines.inline import InlineEngine
from inspector.errors import About, ExpectationError
from tests.absent import needs_gpu, needs_tpu

TARGETS = ["cpu", pytest.param("gpu:h100:1", marks=needs_gpu), pytest.param("tpu:v5e:1x1", marks=needs_tpu)]
N = 128


def of(*shape: int, dtype: Any = jnp.complex64) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


def cost_of(target: str, fun: Callable[..., Any], *args: Any) -> Cost:
    lowered = inspector.lower(fun, *args, target=target)
    cost = lowered.compile(target=target, engine=InlineEngine() if target == "cpu" else None).cost
    assert isinstance(cost, Cost)
    return cost


@pytest.mark.parametrize("target", TARGETS)
def test_a_complex_product_is_eight_real_operations_a_multiply_add(target: str) -> None:
    cost = cost_of(target, lambda a, b: a @ b, of(N, N), of(N, N))
    # A TPU's compiler writes it as real products, and may use three in the place of four.
    least = 6 if target.startswith("tpu") else 8
    assert least * N**3 <= cost.flops < 8.2 * N**3
    assert not isinstance(cost.flops, About)


@pytest.mark.parametrize(
    ("fun", "operations"),
    [
        (lambda a, b: a + b, 2),
        (lambda a, b: a - b, 2),
        (lambda a, b: a * b, 6),
        (lambda a, b: a * b + a, 8),
        (lambda a, b: (a * b).real, 6),
    ],
)
def test_complex_elementwise_operations_are_counted_in_real_ones(fun: Callable[..., Any], operations: int) -> None:
    assert cost_of("cpu", fun, of(N, N), of(N, N)).flops == operations * N**2


def test_a_complex_sum_adds_both_parts() -> None:
    assert cost_of("cpu", lambda a: a.sum(), of(N, N)).flops == pytest.approx(2 * N**2, rel=0.02)


@pytest.mark.parametrize("target", TARGETS[:2])
@pytest.mark.parametrize(
    ("fun", "operand", "points", "transforms", "per_point"),
    [
        (jnp.fft.fft, of(16, N), N, 16, 5),
        (jnp.fft.ifft, of(16, N), N, 16, 5),
        (jnp.fft.fft2, of(4, 32, 64), 32 * 64, 4, 5),
        (jnp.fft.fft, of(8, 96), 96, 8, 5),  # no power of two
        (jnp.fft.rfft, of(16, N, dtype=jnp.float32), N, 16, 2.5),
        (lambda x: jnp.fft.irfft(x), of(16, N // 2 + 1), N, 16, 2.5),
        (jnp.fft.rfft2, of(4, 32, 64, dtype=jnp.float32), 32 * 64, 4, 2.5),
    ],
)
def test_an_fft_is_about_5_n_log_n(
    target: str, fun: Callable[..., Any], operand: Any, points: int, transforms: int, per_point: float
) -> None:
    cost = cost_of(target, fun, operand)
    by_hand = per_point * points * math.log2(points) * transforms
    scaled = points * transforms  # an inverse is divided by the number of its points, twice that of complex ones
    assert by_hand <= cost.flops <= by_hand + 3 * scaled
    assert isinstance(cost.flops, About)
    assert "about" in repr(cost)
    assert "FFT counted as 5 N log2 N" in repr(cost)


def test_an_estimate_is_not_a_lower_bound() -> None:
    compiled = inspector.lower(jnp.fft.fft, of(16, N)).compile(engine=InlineEngine())
    with pytest.raises(ExpectationError, match="the number is an estimate: 1 FFT"):
        inspector.expect(compiled).flops(at_least=1)
    with pytest.raises(ExpectationError, match="the number is an estimate"):
        inspector.expect(compiled).flops(at_most=1e12)
