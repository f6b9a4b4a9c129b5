"""Products at a higher precision than the default, and products that need it or for which it is free."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

import inspector
from inspector.errors import Unavailable
from tests.absent import needs_gpu, needs_tpu
from tests.findings.examined import all_found, found, peak

KIND = "highest-precision"
V5E, H100 = peak("tpu:v5e:1x1"), peak("gpu:h100")
X = jax.ShapeDtypeStruct((2048, 2048), jnp.float32)
IMAGES, WINDOW = (jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((8, 32, 32, 256), (3, 3, 256, 256)))


def highest(x: Any, w: Any) -> Any:
    return jnp.tanh(jnp.dot(x, w, precision="highest"))


def high(x: Any, w: Any) -> Any:
    return jax.jit(lambda x, w: jnp.matmul(x, w, precision=jax.lax.Precision.HIGH))(x, w)


def everywhere(x: Any, w: Any) -> Any:
    with jax.default_matmul_precision("float32"):
        return jnp.tanh(jnp.tanh(x @ w) @ w)


def convolved(x: Any, w: Any) -> Any:
    return jax.lax.conv_general_dilated(
        x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), precision="highest"
    )


@pytest.mark.parametrize(
    ("fun", "args", "roofs", "part"),
    [
        (highest, (X, X), V5E, 5 / 6),
        (high, (X, X), V5E, 2 / 3),
        (everywhere, (X, X), V5E, 5 / 6),
        (convolved, (IMAGES, WINDOW), V5E, 5 / 6),
        (highest, (X, X), H100, 1 - 67 / 495),
    ],
)
def test_raised_precision(fun: Any, args: Any, roofs: Any, part: float) -> None:
    (finding,) = found(KIND, fun, *args, roofs=roofs)
    assert finding.share == pytest.approx(part, abs=0.08)
    assert "accuracy" in finding.caution
    assert finding.frames[0].file == __file__
    assert ("1 other product" in finding.title) == (fun is everywhere)


def some(x: Any, w: Any) -> Any:
    x = jnp.tanh(x @ w)
    return jnp.dot(x, w, precision="highest")


def test_only_the_raised_products_are_named() -> None:
    (finding,) = found(KIND, some, X, X, roofs=V5E)
    assert len(finding.instructions) == 1
    assert finding.share == pytest.approx(5 / 7, abs=0.08)


@pytest.mark.parametrize(
    ("fun", "dtype", "roofs"),
    [
        (lambda x, w: x @ w, jnp.float32, V5E),
        (highest, jnp.float32, None),
        (high, jnp.float32, H100),  # TF32 either way
        (lambda x, w: jnp.linalg.qr(x)[0] @ w, jnp.float32, V5E),  # JAX's own algorithm
    ],
)
def test_other_products(fun: Any, dtype: Any, roofs: Any) -> None:
    x = jax.ShapeDtypeStruct((512, 512), dtype)
    assert not all_found(KIND, fun, x, x, roofs=roofs)


def gradient(precision: str | None) -> Any:
    """XLA merges the products of the gradients of `w` with their transposes, and names them after these."""

    def loss(w: Any, x: Any) -> Any:
        for each in w:
            x = jnp.cos(jax.lax.dot_general(x, each, (((1,), (0,)), ((), ())), precision=precision))
        return x.sum()

    return jax.grad(loss)


@needs_gpu
def test_products_that_are_merged_with_their_transposes() -> None:
    x = jax.ShapeDtypeStruct((1024, 1024), jnp.float32)
    before, after = (inspector.lower(gradient(p), [x, x], x).compile(target="gpu:h100") for p in ("highest", None))
    (finding,) = before.findings(kinds=[KIND])
    products = [each for each in before.roofline().points if "dot" in each.name or "gemm" in each.name]
    assert len(finding.instructions) == len(products) == 5
    total_s = [float(each.roofline().total.least_s) for each in (before, after)]
    assert finding.gain_s == pytest.approx(total_s[0] - total_s[1], rel=0.05)


@needs_tpu
@pytest.mark.slow
def test_the_proof_equals_the_compile_by_hand() -> None:
    target = "tpu:v5e:1x1"
    (finding,) = found(KIND, highest, X, X, target=target)
    proof = finding.prove()
    before, after = (
        inspector.lower(fun, X, X, target=target).compile(target=target).roofline().total.least_s
        for fun in (highest, lambda x, w: jnp.tanh(x @ w))
    )
    assert proof.verdict == "proven"
    assert proof.gain_s == pytest.approx(before - after, rel=0.02)
    assert finding.gain_s == pytest.approx(proof.gain_s, rel=0.2)


def attention(precision: str | None, *, is_causal: bool = True) -> Any:
    def f(q: Any, k: Any, v: Any) -> Any:
        scores = jnp.einsum("bhqd,bhkd->bhqk", q, k, precision=precision)
        if is_causal:
            scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -1e9)
        return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores), v, precision=precision)

    return f


def whole_attention(precision: str | None) -> Any:
    """Libtpu makes one kernel of it."""
    return attention(precision, is_causal=False)


def projected_attention(precision: str | None) -> Any:
    def f(q: Any, k: Any, v: Any) -> Any:
        return jnp.einsum("bhqd,hde->bqe", whole_attention(precision)(q, k, v), v[0, :, :128], precision=precision)

    return f


def both_attentions(precision: str | None) -> Any:
    return lambda q, k, v: whole_attention(precision)(attention(precision)(q, k, v), k, v)


def layers(precision: str) -> Any:
    """The compiler rounds the stacked weights to bfloat16 in front of the loop if the precision is the default."""
    return lambda x, w: jax.lax.scan(lambda x, w: (jnp.tanh(jnp.dot(x, w, precision=precision)), None), x, w)[0]


def gated(precision: str) -> Any:
    def f(x: Any, w: Any) -> Any:
        return jnp.dot(jax.nn.gelu(jnp.dot(x, w, precision=precision)), w, precision=precision)

    return f


ATTENTION = ((4, 16, 1024, 128),) * 3


@needs_tpu
@pytest.mark.slow
@pytest.mark.parametrize(
    ("types", "part"), [(("bfloat16", "float32"), 0.64), (("float16", "float16"), 0.64), (("bfloat16",) * 2, 0.0)]
)
def test_narrow_operands(types: tuple[str, str], part: float) -> None:
    """bfloat16 takes one pass at any precision, and so each type has other passes."""
    args = jax.ShapeDtypeStruct((4096, 2048), types[0]), jax.ShapeDtypeStruct((2048, 2048), types[1])
    every = found(KIND, lambda x, w: jnp.matmul(x, w, precision="highest"), *args, target="tpu:v5e:1x1")
    assert len(every) == (part > 0)
    for each in every:
        assert each.share == pytest.approx(part, abs=0.05)
        assert each.gain_s == pytest.approx(each.prove().gain_s, rel=0.1)


@needs_tpu
@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "shapes", "is_upper_bound"),
    [
        (attention, ATTENTION, True),
        (whole_attention, ATTENTION, False),
        (projected_attention, ATTENTION, False),
        (both_attentions, ATTENTION, False),
        (layers, ((512, 1024), (8, 1024, 1024)), True),
        (gated, ((2048, 2048), (2048, 2048)), False),
    ],
)
def test_the_gain_is_that_of_the_proof_or_an_upper_bound(make: Any, shapes: Any, is_upper_bound: bool) -> None:
    args = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    (finding,) = found(KIND, make("highest"), *args, target="tpu:v5e:1x1")
    proven_s = finding.prove().gain_s
    assert finding.is_upper_bound == is_upper_bound
    if is_upper_bound:
        assert 0 < proven_s < finding.gain_s < 4 * proven_s
        assert "the proof shows the gain" in finding.caution
    else:
        assert finding.gain_s == pytest.approx(proven_s, rel=0.1)


@needs_tpu
@pytest.mark.parametrize("make", [attention, whole_attention, both_attentions])
def test_attention_at_the_default_precision(make: Any) -> None:
    args = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ATTENTION]
    assert not all_found(KIND, make(None), *args, target="tpu:v5e:1x1")


@needs_tpu
def test_narrow_operands_take_one_pass_at_any_precision() -> None:
    x, w = (jax.ShapeDtypeStruct((2048, 2048), jnp.bfloat16) for _ in range(2))
    assert not all_found(KIND, highest, x, w, target="tpu:v5e:1x1")


@needs_tpu
def test_a_kernel_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gain is unknown and says why; a program at the default precision stays silent."""
    monkeypatch.setattr("inspector.compilation.cost.body_of", lambda *_: None)
    args = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ATTENTION]
    (finding,) = all_found(KIND, whole_attention("highest"), *args, target="tpu:v5e:1x1")
    assert finding.gain == "unknown"
    assert "cannot be read" in finding.caution
    assert not isinstance(finding.edits, Unavailable)
    assert not all_found(KIND, whole_attention(None), *args, target="tpu:v5e:1x1")
