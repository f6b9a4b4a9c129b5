"""64-bit floats by accident, and on purpose."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inspector
from inspector.errors import Unavailable
from tests.absent import needs_gpu, needs_tpu
from tests.findings.corpus.cases import TPU
from tests.findings.corpus.record import recorded
from tests.findings.examined import all_found, found, peak

KIND = "float64"
X = jax.ShapeDtypeStruct((256, 256), np.float32)
WIDE = jax.ShapeDtypeStruct((256, 256), np.float64)
HALF = jax.ShapeDtypeStruct((256, 256), jnp.bfloat16)
WEIGHTS = np.linspace(0, 1, 256)


@pytest.fixture(autouse=True)
def _with_64_bits() -> Iterator[None]:
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


def in_a_function(x: Any) -> Any:
    return jax.jit(lambda x: jnp.tanh(x * np.float64(2.5)))(x).sum()


@pytest.mark.parametrize(
    ("fun", "x"),
    [
        (lambda x: jnp.tanh(x * WEIGHTS), X),
        (lambda x: jnp.tanh(x @ jnp.ones((256, 256))), X),  # the default dtype
        (lambda x: x.astype(float) * 2, HALF),
        (in_a_function, X),
        (lambda x: jax.lax.scan(lambda c, _: (jnp.sin(c), None), x * WEIGHTS, None, length=3)[0], X),
    ],
)
def test_accidents(fun: Any, x: Any) -> None:
    (finding,) = found(KIND, fun, x)
    assert "f64[256,256]" in finding.title
    assert finding.frames[0].file == __file__
    assert 0.1 < finding.share <= 0.75  # a kernel that only converts is saved as a whole


def test_every_line_that_makes_one_is_named() -> None:
    def fun(x: Any, y: Any) -> Any:
        wide = x * WEIGHTS
        other = jnp.sin(y).astype(float)
        return jnp.tanh(wide).sum() + jnp.tanh(other + 1).sum()

    (finding,) = found(KIND, fun, X, HALF)
    line = fun.__code__.co_firstlineno
    assert finding.frames[0].line == line + 1
    assert finding.title.endswith(f" Others are made at test_float64.py:{line + 2}.")
    assert "each of these lines" in finding.remedy


@pytest.mark.parametrize(
    ("fun", "x"),
    [
        (lambda x: jnp.tanh(x * 2.5), X),  # a Python scalar
        (lambda x: jnp.tanh(x), WIDE),
        (lambda x: jnp.tanh(x * WEIGHTS.astype(np.float32)), X),
        (lambda x: x[jnp.arange(128)], X),  # 64-bit integers
        (lambda x: x.sum() * np.float64(0.5), X),  # a scalar
        (lambda x: jnp.sum(jnp.tanh(x), dtype=jnp.float64), X),  # summed in 64 bits on purpose
        (lambda x: jnp.mean(x * x, axis=1, dtype=np.float64).astype(np.float32), X),
    ],
)
def test_other_programs(fun: Any, x: Any) -> None:
    assert not all_found(KIND, fun, x)


@pytest.mark.parametrize(
    "fun",
    [
        lambda x: jnp.sum(x.astype(float) * 2),
        lambda x: jnp.sum(x, dtype=np.float64) + jnp.tanh(x @ np.ones((256, 256))).sum(),
        lambda x: jnp.max(x.astype(float) - 1),
        lambda x: jnp.sum(jnp.sum(x, axis=1, dtype=np.float64) ** 2),
    ],
)
def test_more_than_a_sum_in_64_bits(fun: Any) -> None:
    assert all_found(KIND, fun, X)


def attention(scale: Any) -> Any:
    return lambda q, k: jax.nn.softmax(q @ k.T * scale, -1) @ k


def normalized(scale: Any) -> Any:
    return lambda x, _: jax.nn.softmax(x * scale, -1)


@needs_gpu
@pytest.mark.parametrize(
    ("make", "shapes", "is_upper_bound"),
    [
        (attention, ((1024, 128), (1024, 128)), True),
        (attention, ((1024, 128), (2048, 128)), True),
        (normalized, ((4096, 1024), (1, 1)), False),
    ],
)
def test_the_gain_is_that_by_hand_or_an_upper_bound(make: Any, shapes: Any, is_upper_bound: bool) -> None:
    """XLA adds up the parts of a product in a second kernel, and may choose other parts in 32 bits."""
    args = [jax.ShapeDtypeStruct(shape, np.float32) for shape in shapes]
    (finding,) = found(KIND, make(np.sqrt(0.01)), *args, target="gpu:h100")
    before, after = (
        inspector.lower(make(scale), *args).compile(target="gpu:h100").roofline().total.least_s
        for scale in (np.sqrt(0.01), 0.1)
    )
    assert finding.is_upper_bound == is_upper_bound
    if is_upper_bound:
        assert before - after <= 1.01 * finding.gain_s < 1.5 * (before - after)
        assert "in parts" in finding.caution
    else:
        assert finding.gain_s == pytest.approx(before - after, rel=0.1)


def converted_too_late(x: Any) -> Any:
    """The products are in 32 bits, and a sum of few 64-bit values is left in their kernel."""
    y = (x * WEIGHTS[:1]).astype(jnp.float32) @ jnp.ones((256, 256), jnp.float32)
    return (jnp.tanh(y) * WEIGHTS[:1]).mean(-1).astype(jnp.float32)


def test_products_in_32_bits_gain_nothing() -> None:
    rows = jax.ShapeDtypeStruct((1024, 256), jnp.float32)
    roofs = dataclasses.replace(peak("gpu:h100"), memory_bytes_per_s=1e15)  # the product bounds the kernel
    (finding,) = all_found(KIND, converted_too_late, rows, roofs=roofs)
    assert finding.share < 0.01


@pytest.mark.parametrize(
    "name", ["grid_of_numpy", "noise_of_the_default_type", "accumulator_of_the_default_type", "scale_of_numpy"]
)
def test_tpus_compute_with_pairs_of_float32(name: str) -> None:
    (finding,) = recorded(name, TPU).findings(kinds=[KIND])
    assert finding.share > 0.25
    assert not isinstance(finding.gain_s, Unavailable)


def widened(x: Any) -> Any:
    return jnp.tanh(x * WEIGHTS) @ jnp.ones((256, 256))


def in_32_bits(x: Any) -> Any:
    return jnp.tanh(x * WEIGHTS.astype(np.float32)) @ jnp.ones((256, 256), np.float32)


def test_the_proof_equals_the_compile_by_hand() -> None:
    (finding,) = found(KIND, widened, X)
    assert finding.prove().values == "results agree within 1e-04"
    proof = finding.prove(run=False)  # times of a small program depend on the machine's load
    before, after = (inspector.lower(f, X).compile(target="cpu").memory.peak_bytes for f in (widened, in_32_bits))
    assert proof.gain_bytes == before - after


@pytest.mark.parametrize(
    "fun",
    [
        lambda x: jnp.linalg.cholesky((x @ x.T) * WEIGHTS + jnp.eye(256)),  # LAPACK's function depends on the type
        lambda x: x + jax.random.normal(jax.random.key(0), x.shape),  # bits become floats
        lambda x: jnp.fft.fft(x * WEIGHTS),
        lambda x: jax.lax.scan(lambda c, _: (jnp.sin(c) * 2, c.sum()), x * WEIGHTS, None, length=3),
        lambda x: jax.scipy.special.erf(jnp.sort(x * WEIGHTS)),
        lambda x: jnp.where(x > 0, x * WEIGHTS, jnp.inf),
    ],
)
def test_programs_of_32_bits(fun: Any) -> None:
    finding, *_ = all_found(KIND, fun, X)
    proof = finding.prove(time_limit_s=20)
    assert proof.verdict in ("proven", "no gain")
    assert isinstance(proof.values, str)
    assert proof.values.startswith(("results agree", "equal results"))


def test_lines_that_inherit_64_bits_are_not_named() -> None:
    """The random numbers are wide, and so are the products with them. The functions that make the numbers have no line of the user."""

    def sample(w: Any, key: Any) -> Any:
        first = jax.random.normal(key, (256, 256))

        def step(x: Any, key: Any) -> Any:
            return jnp.tanh(x @ w) + jax.random.normal(key, x.shape), None

        return jax.lax.scan(step, first, jax.random.split(key, 3))[0]

    (finding,) = all_found(KIND, sample, X, jax.ShapeDtypeStruct((2,), np.uint32))
    line = sample.__code__.co_firstlineno
    assert finding.frames[0].line == line + 1
    assert finding.title.endswith(f"Others are made at test_float64.py:{line + 4}.")


def test_a_scalar_argument_in_64_bits_hides_no_array() -> None:
    finding, *_ = all_found(KIND, lambda x, t: (x * WEIGHTS, t + 1), X, jax.ShapeDtypeStruct((), np.float64))
    assert finding.title.startswith("The program computes in 64-bit floats, although its large arguments are narrower.")


def test_a_program_that_needs_the_digits_has_different_results() -> None:
    finding, *_ = all_found(KIND, lambda x: jnp.sin(x * WEIGHTS * 1e6), X)
    proof = finding.prove(run=True)
    assert proof.verdict == "different results"
    assert proof.gain_bytes > 0
    assert str(proof).startswith("different results: ")
    assert "the results differ by" in str(proof)


@pytest.mark.slow
@needs_tpu
def test_the_proof_on_a_tpu() -> None:
    (finding,) = all_found(KIND, widened, X, target=TPU)
    proof = finding.prove()
    assert proof.verdict == "proven"
    before, after = (inspector.lower(f, X, target=TPU).compile(target=TPU) for f in (widened, in_32_bits))
    saved_s = before.roofline().total.least_s - after.roofline().total.least_s
    assert proof.gain_s == pytest.approx(saved_s, rel=0.1)


@needs_gpu
def test_random_bits_in_a_kernel_of_their_own() -> None:
    """Both halves of 64 random bits are in memory; 32 bits are made in the kernel that needs them."""

    def noisy(x: Any, key: Any) -> Any:
        return jnp.tanh(x + jax.random.normal(key, x.shape) * jax.random.uniform(jax.random.fold_in(key, 1), x.shape))

    (finding,) = found(
        KIND,
        noisy,
        jax.ShapeDtypeStruct((1024, 512), jnp.float32),
        jax.ShapeDtypeStruct((2,), jnp.uint32),
        target="gpu:h100:8",
    )
    assert finding.gain_s == pytest.approx(finding.prove(run=False).gain_s, rel=0.1)


@pytest.mark.parametrize(("length", "is_found"), [(128, True), (4096, False)])
def test_a_small_argument_in_64_bits_widens_large_ones(length: int, is_found: bool) -> None:
    def step(b: Any, x: Any) -> Any:
        return b - 1e-3 * jax.grad(lambda b: jnp.tanh(x[:, : b.size] @ b).sum())(b)

    b, x = jax.ShapeDtypeStruct((length,), np.float64), jax.ShapeDtypeStruct((64, 4096), np.float32)
    findings = all_found(KIND, step, b, x)
    assert bool(findings) == is_found
    if is_found:
        assert findings[0].title.endswith(" `b` is passed in 64 bits.")
        assert findings[0].remedy.endswith(", and for `b`")
        assert findings[0].prove(run=True).values == "results agree within 1e-04"
