"""Arguments that each execution transposes before it uses them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inspector
from tests.absent import needs_gpu, needs_tpu
from tests.findings.corpus.cases import TPU, TPUS
from tests.findings.corpus.record import recorded
from tests.findings.examined import all_found, peak
from tests.findings.sharded import array


def f32(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32)


W, X = f32(64, 128, 256), f32(32, 256)


def heads(w: jax.Array, x: jax.Array) -> jax.Array:
    return jnp.einsum("abc,xc->xab", w.transpose(1, 0, 2), x).sum(0)


def swapped(params: Any, x: jax.Array) -> jax.Array:
    return jnp.sort(params["w"].transpose(2, 0, 1), axis=-1)[..., :8] * x.sum()


def in_jit(w: jax.Array, x: jax.Array) -> jax.Array:
    return jax.jit(heads)(w, x)


def merged_behind(w: jax.Array, x: jax.Array) -> jax.Array:
    """The kernel that transposes also merges dimensions."""
    return x @ w.transpose(1, 0, 2).reshape(256, 64 * 128)


PROGRAMS = [
    (heads, (W, X), "w"),
    (merged_behind, (f32(64, 256, 128), X), "w"),
    (swapped, ({"w": f32(128, 64, 256)}, f32(32, 128)), "params['w']"),
    (in_jit, (W, X), "w"),
]


@pytest.mark.slow
@needs_tpu
def test_tpus_write_images_in_their_order() -> None:
    def features(w: jax.Array, x: jax.Array) -> jax.Array:
        names = ("NHWC", "HWIO", "NHWC")
        return jax.lax.conv_general_dilated(x.transpose(0, 2, 3, 1), w, (1, 1), "SAME", dimension_numbers=names)

    args = f32(3, 3, 32, 64), f32(16, 32, 64, 64)
    assert not all_found("transposed-argument", features, *args, target="tpu:v5e:1x1")
    assert all_found("transposed-argument", features, *args, target="cpu")


@pytest.mark.parametrize(("fun", "args", "path"), PROGRAMS)
def test_transposed_weights(fun: Any, args: tuple[Any, ...], path: str) -> None:
    (finding,) = all_found("transposed-argument", fun, *args)
    assert finding.title.startswith(f"`{path}` (8 MiB) is transposed in each execution")
    assert finding.remedy.startswith(f"{path} = {path}.transpose(")
    (estimated,) = all_found("transposed-argument", fun, *args, roofs=peak("gpu:h100:8"))
    assert estimated.prove(run=False).verdict == "proven"
    assert finding.prove(run=True).values == "equal results"


@pytest.mark.parametrize("spec", [("d",), (None, "d")])
def test_the_proof_of_a_split_argument(spec: Any) -> None:
    args = (array((128, 64, 256), *spec), array((32, 256)))
    (finding,) = all_found("transposed-argument", heads, *args, target="cpu:8", roofs=peak("gpu:h100:8"))
    proof = finding.prove(run=True)
    assert proof.values == "equal results"
    assert proof.gain_bytes == 128 * 64 * 256 * 4 // 8  # each device has its part only


@needs_gpu
def test_the_proof_equals_the_compile_by_hand() -> None:
    target = "gpu:h100"
    (finding,) = all_found("transposed-argument", heads, W, X, target=target)
    order = [int(axis) for axis in finding.remedy.partition("transpose(")[2].partition(")")[0].split(",")]

    def by_hand(stored: jax.Array, x: jax.Array) -> jax.Array:
        return heads(stored.transpose(*np.argsort(order)), x)

    shape = f32(*(W.shape[axis] for axis in order))
    before, after = (
        inspector.lower(fun, w, X, target=target).compile(target=target).roofline().total.least_s
        for fun, w in ((heads, W), (by_hand, shape))
    )
    proof = finding.prove()
    assert proof.gain_s == pytest.approx(float(before) - float(after), rel=0.01)
    assert finding.gain_s == pytest.approx(proof.gain_s, rel=0.1)


@pytest.mark.parametrize(
    ("fun", "args"),
    [
        (lambda w, x: x @ w.T, (f32(512, 256), X)),  # the product reads it in any order
        (lambda w, x: jnp.sin(w.T) + x, (f32(512, 256), f32(256, 512))),  # part of other work
        (lambda w, x: (heads(w, x), w * 2), (W, X)),  # used in its own order too
        (lambda w, x: heads(jnp.tanh(w), x), (W, X)),  # a computed value
        (lambda w: w.reshape(128, -1).sum(0), (W,)),
    ],
)
def test_arguments_that_may_stay(fun: Any, args: tuple[Any, ...]) -> None:
    assert all_found("transposed-argument", fun, *args) == []


def test_a_small_one_is_folded_away() -> None:
    def step(w: jax.Array, a: jax.Array, x: jax.Array) -> Any:
        return heads(w, x), a @ a @ a

    args = (f32(16, 32, 64), f32(1024, 1024), f32(32, 64))
    (finding,) = all_found("transposed-argument", step, *args, roofs=peak("gpu:h100:8"))
    assert finding.is_small


def test_an_argument_in_the_usual_order_of_a_tpu() -> None:
    """The TPU stores (1024, 1024, 8) with the last dimension outermost, and the kernel writes it in a third order."""
    (finding,) = recorded("bias_with_heads_last", TPU).findings(kinds=["transposed-argument"])
    assert finding.remedy.startswith("bias = bias.transpose(2, 1, 0)")


@pytest.mark.parametrize("name", ["weight_split_by_rows", "experts_split_by_features"])
def test_an_argument_that_is_transposed_for_an_exchange(name: str) -> None:
    """Without the exchange, nothing is transposed."""
    kinds = ["transposed-argument", "resharded-argument"]
    assert [each.kind for each in recorded(name, TPUS).findings(kinds=kinds)] == ["resharded-argument"]


@pytest.mark.skipif(jax.__version_info__ >= (0, 12), reason="XLA copies the argument in the same order first")
def test_a_transposition_in_front_of_a_loop() -> None:
    """XLA makes the transposition a view, and copies it for the loop."""

    def scanned(x: Any, v: Any) -> Any:
        return jax.lax.scan(lambda v, x: (jnp.tanh(0.9 * v + x), None), v, x.swapaxes(0, 1))[0]

    args = jax.ShapeDtypeStruct((64, 128, 512), jnp.float32), jax.ShapeDtypeStruct((64, 512), jnp.float32)
    (finding,) = all_found("transposed-argument", scanned, *args, roofs=peak("gpu:h100:1"))
    assert finding.title.startswith("`x` (16 MiB) is transposed in each execution before it is used")
    assert finding.remedy.startswith("x = x.transpose(1, 0, 2)")
    proof = finding.prove(run=False)
    assert proof.verdict == "proven"
    assert proof.gain_bytes == 16 << 20
