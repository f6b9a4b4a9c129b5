"""Products of operands that were converted to a wider type, and products that need the wide type."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import inspector
from inspector._jax.edits.edited import edited
from tests.absent import needs_gpu
from tests.findings.examined import all_found, found, peak
from tests.findings.sharded import array

KIND = "upcast-product"
H100, V5E = peak("gpu:h100"), peak("tpu:v5e:1x1")
N = 2048
X = jax.ShapeDtypeStruct((N, N), jnp.bfloat16)
WIDE = jax.ShapeDtypeStruct((N, N), jnp.float32)
HALF = jax.ShapeDtypeStruct((N, N), jnp.float16)
HEADS = jax.ShapeDtypeStruct((1, 2048, 2, 1024), jnp.bfloat16)


def both(x: Any, w: Any) -> Any:
    return jnp.dot(x.astype(jnp.float32), w.astype(jnp.float32))


def mixed(x: Any, w: Any) -> Any:
    return x @ w


def scanned(x: Any, ws: Any) -> Any:
    def layer(x: Any, w: Any) -> Any:
        return jax.nn.relu(jnp.dot(x.astype(jnp.float32), w.astype(jnp.float32)))

    return jax.lax.scan(lambda x, w: (jax.jit(layer)(x, w).astype(jnp.bfloat16), None), x, ws)[0]


def scores(q: Any, k: Any) -> Any:
    return jnp.einsum("bqhd,bkhd->bhqk", q.astype(jnp.float32), k.astype(jnp.float32)).max(-1)


def converted_before_the_loop(x: Any, w: Any) -> Any:
    wide = w.astype(jnp.float32).T
    return jax.lax.fori_loop(0, 4, lambda _, x: jnp.tanh(x.astype(jnp.float32) @ wide).astype(jnp.bfloat16), x)


@pytest.mark.parametrize(
    ("fun", "args", "names"),
    [
        (both, (X, X), ("x", "w")),
        (both, (HALF, HALF), ("x", "w")),
        (mixed, (X, WIDE), ("x",)),
        (mixed, (WIDE, X), ("w",)),
        (scanned, (X, jax.ShapeDtypeStruct((4, N, N), jnp.bfloat16)), ("ws",)),
        (scores, (HEADS, HEADS), ("q", "k")),
        (converted_before_the_loop, (X, X), ("w",)),
    ],
)
def test_upcast_operands(fun: Any, args: Any, names: tuple[str, ...]) -> None:
    (finding,) = found(KIND, fun, *args, roofs=H100)
    narrow = "float16" if HALF in args else "bfloat16"
    assert f"converted from {narrow} to float32" in finding.title
    assert all(f"`{name}`" in finding.title for name in names)
    assert finding.frames[0].file == __file__
    assert bool(finding.caution) == (fun is mixed)


@pytest.mark.parametrize(
    ("fun", "args"),
    [
        (lambda x, w: jnp.dot(x, w, preferred_element_type=jnp.float32), (X, X)),
        (lambda x, w: x @ w.astype(jnp.bfloat16), (X, WIDE)),  # master weights, rounded on purpose
        (lambda q, k, v: jax.nn.softmax((q @ k).astype(jnp.float32)).astype(jnp.bfloat16) @ v, (X, X, X)),
        (lambda x, w: jnp.tanh(x) @ w, (WIDE, WIDE)),
        (lambda x, w: (x.astype(jnp.float32) * 2).astype(jnp.bfloat16) @ w, (X, X)),
    ],
)
def test_products_in_their_own_type(fun: Any, args: Any) -> None:
    assert not all_found(KIND, fun, *args, roofs=H100)


def test_where_the_narrow_type_is_not_faster() -> None:
    assert not all_found(KIND, both, X, X)  # CPUs compute in float32
    assert not all_found(KIND, both, X, X, roofs=V5E)  # one pass of bfloat16 either way


def test_the_gain_follows_from_the_rates() -> None:
    large = jax.ShapeDtypeStruct((4096, 4096), jnp.bfloat16)
    (finding,) = found(KIND, both, large, large, roofs=H100)
    flops = 2 * 4096**3
    assert finding.gain_s == pytest.approx(
        flops / H100.flops_per_s["tf32"] - flops / H100.flops_per_s["bf16"], rel=0.01
    )


def test_a_function_that_is_called_twice_is_named_in_full() -> None:
    def twice(x: Any, w: Any, v: Any) -> Any:
        product = jax.jit(lambda a, b: a @ b)
        return product(x, w) + product(w, v)

    compiled = inspector.lower(twice, X, X, WIDE).compile(target="cpu")
    (finding,) = compiled.findings(H100, kinds=[KIND])
    (edit,) = finding.edits
    assert edit.op_names == ("jit(twice)/jit(<lambda>)/dot_general",)
    narrowed = edited(
        compiled.program.module, [("NarrowProducts", {"op_names": edit.op_names, "element_type": "bf16"})]
    )
    assert narrowed.places == 1  # the product of narrow operands has the same name


def chained(x: Any, w: Any, v: Any) -> Any:
    return (x @ w) @ v  # both have the same name and line


def on_two_lines(x: Any, w: Any, v: Any) -> Any:
    y = jax.nn.relu(x @ w)
    return y.astype(jnp.bfloat16) @ v


def test_the_gain_leaves_out_the_other_products_of_the_line() -> None:
    (alone,), (one_of_two,) = (
        found(KIND, fun, *args, roofs=H100) for fun, args in ((mixed, (X, WIDE)), (chained, (X, WIDE, WIDE)))
    )
    assert one_of_two.gain_s == pytest.approx(alone.gain_s, rel=0.1)


def test_the_proof_of_a_line_leaves_the_products_of_other_lines() -> None:
    compiled = inspector.lower(on_two_lines, X, WIDE, WIDE).compile(target="cpu")
    findings = compiled.findings(H100, kinds=[KIND])
    assert len({finding.frames[0].line for finding in findings}) == 2
    for finding in findings:
        (edit,) = finding.edits
        arguments = {"op_names": edit.op_names, "element_type": "bf16", "stacks": edit.stacks}
        assert edited(compiled.program.module, [("NarrowProducts", arguments)]).places == 1


def gated(x: Any, w: Any, v: Any) -> Any:
    """XLA combines the products. Before jaxlib 0.12, it then rounds the weights in kernels of their own."""
    return jax.nn.silu(x @ w) * (x @ v)


def gated_on_two_lines(x: Any, w: Any, v: Any) -> Any:
    """XLA combines the products, unless only those of one line are narrow."""
    gate = jax.nn.silu(x @ w)
    return gate * (x @ v)


@needs_gpu
@pytest.mark.parametrize("fun", [gated, gated_on_two_lines, chained, on_two_lines])
def test_the_gain_of_several_products_is_that_of_the_proof(fun: Any) -> None:
    for finding in found(KIND, fun, X, WIDE, WIDE, target="gpu:h100"):
        assert finding.gain_s == pytest.approx(finding.prove().gain_s, rel=0.05)


@needs_gpu
@pytest.mark.parametrize(("fun", "args"), [(both, (X, X)), (mixed, (X, WIDE))])
def test_the_proof_equals_the_compile_by_hand(fun: Any, args: Any) -> None:
    args = tuple(jax.ShapeDtypeStruct((2048, 2048), each.dtype) for each in args)

    def narrow(x: Any, w: Any) -> Any:
        return jnp.dot(x, w.astype(jnp.bfloat16), preferred_element_type=jnp.float32)

    (finding,) = found(KIND, fun, *args, target="gpu:h100")
    before, after = (
        inspector.lower(f, *args, target="gpu:h100").compile(target="gpu:h100").roofline().total.least_s
        for f in (fun, narrow)
    )
    proof = finding.prove()
    assert proof.verdict == "proven"
    assert proof.gain_s == pytest.approx(before - after, rel=1e-6)
    assert finding.gain_s == pytest.approx(proof.gain_s, rel=0.1)


@needs_gpu
def test_convolutions_of_cudnn_have_no_wide_results() -> None:
    def convolved(x: Any, w: Any) -> Any:
        return jax.lax.conv(x.astype(jnp.float32), w.astype(jnp.float32), (1, 1), "SAME")

    x, w = (jax.ShapeDtypeStruct(shape, jnp.bfloat16) for shape in ((16, 128, 32, 32), (128, 128, 3, 3)))
    assert not all_found(KIND, convolved, x, w, target="gpu:h100")


@needs_gpu
def test_products_beside_collectives_have_a_caution() -> None:
    """XLA for GPUs sums the gradients beside the other products, in an order that depends on their length: the proof saves 29 % more."""

    def step(w: Any, x: Any) -> Any:
        def loss(w: Any) -> Any:
            h = x
            for name in ("a", "b", "c"):
                h = jax.nn.relu(jnp.dot(h.astype(jnp.float32), w[name].astype(jnp.float32)).astype(jnp.bfloat16))
            return jnp.mean(h.astype(jnp.float32) ** 2)

        return jax.tree.map(lambda w, g: w - g, w, jax.grad(loss)(w))

    w = {name: array((2048, 2048), dtype=jnp.bfloat16) for name in ("a", "b", "c")}
    args = w, array((16384, 2048), "d", dtype=jnp.bfloat16)
    (finding,) = found(KIND, step, *args, target="gpu:h100:8")
    assert "Collectives run beside these products." in finding.caution
    (alone,) = found(
        KIND, step, *jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), args), target="gpu:h100:1"
    )
    assert "Collectives run" not in alone.caution


def test_an_argument_and_a_computed_array() -> None:
    def fun(x: Any, w: Any) -> Any:
        return jnp.tanh(x).astype(jnp.float32) @ w.astype(jnp.float32)

    x, w = (jax.ShapeDtypeStruct((1024, 1024), jnp.bfloat16) for _ in range(2))
    (finding,) = found(KIND, fun, x, w, roofs=peak("gpu:h100"))
    assert finding.title.startswith("Both operands (`w` and a computed array) of the product")


def attention(q: jax.Array, k: jax.Array, v: jax.Array, probabilities: Any) -> jax.Array:
    scores = jnp.einsum("bthd,bshd->bhts", q, k, preferred_element_type=jnp.float32) / 8
    p = jax.nn.softmax(scores, -1).astype(probabilities)
    if probabilities == jnp.float32:
        v = v.astype(jnp.float32)
    return jnp.einsum("bhts,bshd->bthd", p, v, preferred_element_type=jnp.float32).astype(jnp.bfloat16)


@needs_gpu
def test_probabilities_that_are_stored_in_float32() -> None:
    """Against the program that rounds them: memory bounds the product, whose rate in float32 is enough."""
    heads = jax.ShapeDtypeStruct((16, 256, 12, 64), jnp.bfloat16)
    wide, narrow = (
        inspector.lower(functools.partial(attention, probabilities=dtype), *[heads] * 3).compile(target="gpu:h100:1")
        for dtype in (jnp.float32, jnp.bfloat16)
    )
    (finding,) = wide.findings(kinds=[KIND])
    assert "the other one, f32[16, 12, 256, 256], is written and read in float32" in finding.title
    saved_s = float(wide.roofline().total.least_s) - float(narrow.roofline().total.least_s)
    assert finding.gain_s == pytest.approx(saved_s, rel=0.1)
    assert finding.gain_bytes == pytest.approx(wide.memory.peak_bytes - narrow.memory.peak_bytes, rel=0.1)
    assert finding.prove().verdict == "proven"
    assert not narrow.findings(kinds=[KIND])


@needs_gpu
def test_a_wide_operand_that_others_read_too() -> None:
    def fun(x: jax.Array, v: jax.Array) -> Any:
        p = jax.nn.softmax(x, -1)
        return p @ v.astype(jnp.float32), p

    x, v = jax.ShapeDtypeStruct((4096, 4096), jnp.float32), jax.ShapeDtypeStruct((4096, 64), jnp.bfloat16)
    findings = inspector.lower(fun, x, v).compile(target="gpu:h100:1").findings(kinds=[KIND])
    assert not [each for each in findings if "written and read" in each.title]
