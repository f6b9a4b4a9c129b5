"""Products of a fused weight whose parts the devices exchange, and others."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import inspector
from inspector.analysis.findings.edits import InterleaveColumns
from inspector.errors import Unavailable
from inspector.stages.findings import Finding
from tests.absent import needs_gpu
from tests.findings.examined import all_found, peak
from tests.findings.sharded import Program, array, mesh_of

KIND = "resharding"
MESH = mesh_of((2, 4), ("data", "model"))
X = array((512, 256), "data", mesh=MESH)
OUT = array((1024, 256), "model", mesh=MESH)


def by_columns(y: Any) -> Any:
    return jax.lax.with_sharding_constraint(y, NamedSharding(MESH, P("data", "model")))


def gated(x: Any, w: Any, b: Any, out: Any) -> Any:
    gate, up = jnp.split(x @ w + b, 2, -1)
    return by_columns(jax.nn.silu(gate) * up) @ out


def three_parts(x: Any, w: Any, b: Any, out: Any) -> Any:
    q, k, v = jnp.split(x @ w + b, 3, -1)
    return by_columns(jnp.tanh(q * k) + v) @ out


def by_parts(x: Any, w: Any, b: Any, out: Any) -> Any:
    """The weight has a dimension for the parts."""
    y = jnp.einsum("nd,dce->nce", x, w) + b
    return by_columns(jax.nn.silu(y[:, 0]) * y[:, 1]) @ out


def rows_cut(x: Any, w: Any, b: Any, out: Any) -> Any:
    first, second = jnp.split(x @ w + b, 2, 0)
    return by_columns(first * second)[:, :1024] @ out


def program(fun: Any, parts: int) -> Program:
    w, b = array((256, parts * 1024), None, "model", mesh=MESH), array((parts * 1024,), "model", mesh=MESH)
    return fun, (X, w, b, OUT)


def found(fun: Any, *args: Any) -> list[Finding]:
    return [
        each
        for each in all_found(KIND, fun, *args, target="cpu:8", roofs=peak("gpu:h100:8"))
        if "split over devices: XLA exchanges the parts" in each.title
    ]


@pytest.mark.parametrize(("fun", "parts"), [(gated, 2), (three_parts, 3)])
def test_parts_that_devices_exchange(fun: Any, parts: int) -> None:
    function, args = program(fun, parts)
    (finding,) = found(function, *args)
    assert finding.title.startswith(
        f"The product with `w`, f32[512, {parts * 1024}], is cut into {parts} parts at test_split_products.py:"
    )
    assert finding.remedy.startswith(
        f"w = w.reshape(256, {parts}, 1024)  # store w so, split over devices along its last dimension"
    )
    (edit,) = finding.edits
    assert isinstance(edit, InterleaveColumns)
    assert edit.parameters == (1, 2)  # the weight and its bias
    assert finding.prove(run=False).verdict == "proven"
    assert finding.prove(run=True).values == "equal results"


def slices(x: Any, w: Any, b: Any, out: Any) -> Any:
    y = x @ w + b
    gate, up = y[:, :1024], y[:, 1024:]
    return by_columns(jax.nn.silu(gate) * up) @ out


@pytest.mark.parametrize("fun", [gated, slices])
def test_gradients_of_the_parts(fun: Any) -> None:
    """The columns of the gradients have the new order too, so that results which depend on it are only compared here."""

    def gradients(x: Any, w: Any, b: Any, out: Any) -> Any:
        made = jax.grad(lambda w, b: jnp.square(fun(x, w, b, out)).mean(), (0, 1))(w, b)
        return (made[0] * w).sum(), (made[1] * jnp.sin(b)).sum(), jnp.abs(made[0]).max()

    _, args = program(fun, 2)
    (finding,) = found(gradients, *args)
    (edit,) = finding.edits
    assert isinstance(edit, InterleaveColumns)
    assert edit.parameters == ()
    assert isinstance(finding.prove(run=True).values, Unavailable)
    (same,) = found(gradients, *args)
    object.__setattr__(same, "edits", (dataclasses.replace(edit, parameters=(1, 2)),))
    assert same.prove(run=True).values in ("equal results", "results agree within 1e-04")


def act(y: Any, out: Any) -> Any:
    gate, up = jnp.split(y, 2, -1)
    return by_columns(jax.nn.silu(gate) * up) @ out


def scaled_rows(x: Any, w: Any, b: Any, out: Any) -> Any:
    return act((x @ w) * x[:, :1] + b, out)


def repeated_bias(x: Any, w: Any, b: Any, out: Any) -> Any:
    return act(x @ w + jnp.tanh(out[:1, :1]) + b.reshape(1, -1), out)


def a_part_used_twice(x: Any, w: Any, b: Any, out: Any) -> Any:
    y = x @ w + b
    return act(y, out) + y[:, :1024].sum(1, keepdims=True)


@pytest.mark.parametrize("fun", [scaled_rows, repeated_bias, a_part_used_twice])
def test_results_agree(fun: Any) -> None:
    function, args = program(fun, 2)
    (finding,) = found(function, *args)
    assert finding.prove(run=True).values in ("equal results", "results agree within 1e-04")


def returned_too(x: Any, w: Any, b: Any, out: Any) -> Any:
    y = x @ w + b
    return act(y, out), y


def with_a_computed_bias(x: Any, w: Any, b: Any, out: Any) -> Any:
    return act(x @ w + jnp.cumsum(b), out)


def weight_returned_too(x: Any, w: Any, b: Any, out: Any) -> Any:
    return act(x @ w + b, out), w * 2


def bias_changed_too(x: Any, w: Any, b: Any, out: Any) -> Any:
    return act(x @ w + b, out), b.at[5].set(0.0)


def weight_added_up_too(x: Any, w: Any, b: Any, out: Any) -> Any:
    return act(x @ w + b, out), (w * jnp.arange(2048.0)).sum()


@pytest.mark.parametrize(
    "fun",
    [
        returned_too,
        with_a_computed_bias,
        weight_returned_too,
        bias_changed_too,
        weight_added_up_too,
    ],
)
def test_results_are_not_compared_in_another_order(fun: Any) -> None:
    function, args = program(fun, 2)
    (finding,) = found(function, *args)
    proof = finding.prove(run=True)
    assert isinstance(proof.values, Unavailable)
    assert "the order of columns" in proof.values.reason


@pytest.mark.parametrize("shape", [(2048, 512), (512, 4096)])
def test_residuals_in_another_form_are_not_reordered(shape: tuple[int, int]) -> None:
    def fun(x: Any, w: Any, r: Any, out: Any) -> Any:
        return act(x @ w + (r.T if len(r) == 2048 else r[:, :2048]), out)

    _, args = program(fun, 2)
    (finding,) = found(fun, *args[:2], array(shape, mesh=MESH), OUT)
    assert isinstance(finding.prove(run=True).values, Unavailable)


def layer(x: Any, params: Any) -> Any:
    return x + gated(x, *params), None


def unrolled(x: Any, stack: Any) -> Any:
    for number in range(3):
        x, _ = layer(x, jax.tree.map(lambda each, number=number: each[number], stack))
    return x


def scanned(x: Any, stack: Any) -> Any:
    return jax.lax.scan(layer, x, stack)[0]


@pytest.mark.parametrize("has_gradient", [False, True])
@pytest.mark.parametrize("fun", [unrolled, scanned])
def test_layers(fun: Any, has_gradient: bool) -> None:
    """One finding for all layers. The gain is the time of the exchanges in all of them, and in their gradients."""

    def loss(stack: Any, x: Any) -> Any:
        return jnp.square(fun(x, stack)).mean()

    shapes = (256, 2048), (2048,), (1024, 256)
    splits = (None, None, "model"), (None, "model"), (None, "model")
    stack = tuple(array((3, *shape), *split, mesh=MESH) for shape, split in zip(shapes, splits, strict=True))
    (finding,) = found(jax.grad(loss) if has_gradient else loss, stack, X)
    assert finding.gain_s == pytest.approx(finding.prove(run=False).gain_s, rel=0.35)
    if not has_gradient:
        assert finding.prove(run=True).values in ("equal results", "results agree within 1e-04")


def test_silent() -> None:
    w, b = array((256, 2, 1024), None, None, "model", mesh=MESH), array((2, 1024), None, "model", mesh=MESH)
    assert not found(by_parts, X, w, b, OUT)
    function, args = program(rows_cut, 2)
    assert not found(function, *args)
    transposed, x = array((2048, 2048), "model", mesh=MESH), array((512, 2048), "data", mesh=MESH)
    assert not found(lambda x, w, out: act(x @ w.T, out), x, transposed, OUT)


@needs_gpu
def test_the_gain_is_that_by_hand() -> None:
    function, args = program(gated, 2)
    w, b = array((256, 2, 1024), None, None, "model", mesh=MESH), array((2, 1024), None, "model", mesh=MESH)
    before = inspector.lower(function, *args).compile(target="gpu:h100:8")
    after = inspector.lower(by_parts, X, w, b, OUT).compile(target="gpu:h100:8")
    (finding,) = before.findings(kinds=[KIND])
    saved_s = before.roofline().total.least_s - after.roofline().total.least_s
    assert finding.gain_s == pytest.approx(saved_s, rel=0.4)  # JAX 0.12 fuses more kernels
    assert finding.prove().gain_s == pytest.approx(saved_s, rel=0.02)
