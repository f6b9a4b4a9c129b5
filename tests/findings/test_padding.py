"""Products that fill little of the last part of the matrix unit, and products that fill it or that memory bounds."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

import inspector
from inspector.errors import Unavailable
from tests.absent import needs_tpu
from tests.findings.examined import all_found, found, peak

KIND = "padding"
V5E, V6E = peak("tpu:v5e:1x1"), peak("tpu:v6e:1x1")


def of(*shape: int) -> Any:
    return jax.ShapeDtypeStruct(shape, jnp.bfloat16)


def product(x: Any, w: Any) -> Any:
    return jnp.tanh(x @ w)


def batched(x: Any, w: Any) -> Any:
    return jnp.einsum("bij,bjk->bik", x, w)


def layers(x: Any, ws: Any) -> Any:
    return jax.lax.scan(lambda x, w: (jnp.tanh(x @ w), None), x, ws)[0]


@pytest.mark.parametrize(
    ("fun", "args", "words", "part", "flops"),
    [
        (product, (of(4096, 1025), of(1025, 4096)), "contracted dimension", 1 / 9, 2 * 4096 * 1152 * 4096),
        (product, (of(2056, 4096), of(4096, 2056)), "number of rows", 1 / 17, 2 * 2056 * 4096 * 2176),
        (product, (of(2048, 2080), of(2080, 2048)), "contracted dimension", 1 / 17, 2 * 2048 * 2176 * 2048),
        (batched, (of(4, 2048, 1032), of(4, 1032, 2048)), "contracted dimension", 1 / 9, 4 * 2 * 2048 * 1152 * 2048),
        (layers, (of(8192, 2056), of(3, 2056, 2056)), "dimension", 1 / 17, 3 * 2 * 8192 * 2176 * 2056),
    ],
)
def test_dimensions_just_above_a_multiple(fun: Any, args: Any, words: str, part: float, flops: float) -> None:
    (finding,) = found(KIND, fun, *args, roofs=V5E)
    assert words in finding.title
    assert finding.gain_s == pytest.approx(part * flops / V5E.flops_per_s["bf16"], rel=0.15)
    assert finding.caution


@pytest.mark.slow
def test_the_proof_shortens_the_arguments() -> None:
    (finding,) = found(KIND, product, of(4096, 1025), of(1025, 4096), roofs=V5E)
    proof = finding.prove(run=True)
    assert proof.values == Unavailable("the remedy changes shapes of arguments")
    assert proof.compiled is not None
    assert [a.shape for a in proof.compiled.program.arguments] == [(4096, 1024), (1024, 4096)]


def test_a_function_that_takes_no_other_length() -> None:
    ones = jnp.ones((4096, 1), jnp.bfloat16)
    (finding,) = found(KIND, lambda x, w: jnp.concatenate([x, ones], 1) @ w, of(4096, 1024), of(1025, 4096), roofs=V5E)
    proof = finding.prove()
    assert proof.verdict == "cannot be tried"
    assert proof.reason.startswith("tracing the function again failed: TypeError: dot_general requires")


@pytest.mark.parametrize(
    ("args", "roofs"),
    [
        ((of(4096, 1024), of(1024, 4096)), V5E),
        ((of(4096, 4096), of(4096, 1032)), V5E),  # the unit keeps the rows
        ((of(4096, 1100), of(1100, 4096)), V5E),  # most of the last part is used
        ((of(4096, 8193), of(8193, 4096)), V5E),  # the last part is one of 65
        ((of(16_384, 8192), of(8192, 257)), V5E),  # the columns pass through the unit: 264 of them
        ((of(8, 1025), of(1025, 1024)), V5E),  # bound by memory
        ((of(4096, 64), of(64, 4096)), V5E),  # smaller than the unit
        ((of(4096, 1025), of(1025, 4096)), peak("gpu:h100")),
        ((of(4096, 1025), of(1025, 4096)), None),
    ],
)
def test_other_products(args: Any, roofs: Any) -> None:
    assert not all_found(KIND, product, *args, roofs=roofs)


def test_the_unit_is_that_of_the_chip() -> None:
    (finding,) = found(KIND, product, of(8192, 2304 + 8), of(2304 + 8, 8192), roofs=V6E)
    assert "9 times 256" in finding.title


@needs_tpu
@pytest.mark.slow
def test_the_gain_is_of_the_order_of_the_compile_by_hand() -> None:
    """Libtpu's own estimates differ by version: they save 21.8 µs with JAX 0.10.2, 4.8 µs with 0.12.0.1."""
    target = "tpu:v5e:1x1"
    (finding,) = found(KIND, product, of(2048, 1025), of(1025, 2048), target=target)
    before, after = (
        inspector.lower(product, of(2048, k), of(k, 2048), target=target)
        .compile(target=target)
        .roofline()
        .total.least_s
        for k in (1025, 1024)
    )
    assert 0.3 < finding.gain_s / (before - after) < 2


@needs_tpu
@pytest.mark.slow
def test_blocks_that_take_longer_than_the_padding() -> None:
    """Libtpu takes 2.7 times as long for 513 rows as for 512."""
    experts = lambda x, w: jax.nn.relu(jnp.einsum("ecd,edf->ecf", x, w))  # noqa: E731
    (finding,) = found(KIND, experts, of(16, 513, 2048), of(16, 2048, 4096), target="tpu:v5e:1x1")
    assert "times the time that the matrix unit needs" in finding.title
    assert finding.is_upper_bound
    assert finding.prove().gain_s == pytest.approx(finding.gain_s, rel=0.1)
    assert not all_found(KIND, experts, of(16, 512, 2048), of(16, 2048, 4096), target="tpu:v5e:1x1")


def convolved(x: Any, w: Any) -> Any:
    return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


@needs_tpu
@pytest.mark.slow
def test_dimensions_of_convolutions() -> None:
    """The gradient of a window of 3 by 3 and 32 channels has 288 rows, and no number of channels makes them 256."""
    gradient = jax.grad(lambda w, x: convolved(x, w).astype(jnp.float32).sum() ** 2)
    images = of(64, 32, 32, 32)
    assert not all_found(KIND, gradient, of(3, 3, 32, 256), images, target="tpu:v5e:1x1")
    (finding,) = all_found(KIND, convolved, of(64, 32, 32, 264), of(3, 3, 264, 256), target="tpu:v5e:1x1")
    assert finding.title.startswith("The contracted dimension of the convolution 64x32x32x264 times 3x3x264x256 is 264")
