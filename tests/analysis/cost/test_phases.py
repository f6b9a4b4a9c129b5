"""Forward, backward, recomputed and the rest: as JAX marks them, and through the calls of unoptimized modules."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

import inspector
from inspector.analysis.cost.phases import Phases
from inspector.hlo.module import Module
from inspector.hlo.source import merged_names, phases


@pytest.mark.parametrize(
    ("op_name", "expected"),
    [
        ("", ()),
        ("jit(f)/add", ("rest",)),
        ("jit(f)/jvp(layer)/dot_general", ("forward",)),
        ("jit(f)/transpose(jvp(layer))/dot_general", ("backward",)),
        ("jit(f)/transpose(jvp())/checkpoint/rematted_computation/sin", ("recomputed",)),
        ("jit(f)/shard_map/(jvp()/psum_invariant:transpose(jvp())/psum_invariant)", ("forward", "backward")),
        ("(params['a']:jit(f)/transpose(jvp())/mul)", ("backward", "rest")),
        ("jit(f)/jvp(a)/mul;jit(f)/sub", ("forward", "rest")),
    ],
)
def test_marks(op_name: str, expected: tuple[str, ...]) -> None:
    assert phases(op_name) == expected


def test_names_are_cut_outside_of_brackets_only() -> None:
    assert list(merged_names("f/(a(b:c)/x:y)")) == ["f/a(b:c)/x", "f/y"]
    assert list(merged_names("f/g[a:b]")) == ["f/g[a:b]"]


def loss(w: jax.Array, x: jax.Array) -> jax.Array:
    inner = jax.jit(lambda h: jax.lax.psum(jnp.sin(h), "i"))
    again = jax.checkpoint(lambda h: jnp.cos(jax.lax.pmax(jnp.tanh(h), "i")) if False else jnp.cos(jnp.tanh(h)))
    return jnp.sum(inner(again(x @ w)))


def step(w: jax.Array, x: jax.Array) -> jax.Array:
    return w - 0.1 * jax.grad(loss)(w, x)


def test_a_step() -> None:
    """The sum inside of a jitted function, and its transpose, both named `psum` before optimization."""
    lowered = inspector.lower(step, jnp.ones((4, 4)), jnp.ones((4, 4)), axis_env=[("i", 2)])
    found = sorted((c.phases, c.inserted_by) for c in lowered.collectives())
    assert found == [(("backward",), "autodiff"), (("forward",), "user")]
    module = Module.from_proto(lowered.hlo_proto)
    of = Phases(module)
    tanh = {of.of(i) for i in module.instructions() if i.opcode == "tanh"}
    assert tanh == {("forward",), ("recomputed",)}
    assert {of.of(i) for i in module.instructions() if i.opcode == "subtract"} >= {("rest",)}


def test_the_table_of_instructions() -> None:
    lowered = inspector.lower(step, jnp.ones((4, 4)), jnp.ones((4, 4)), axis_env=[("i", 2)])
    table = lowered.compile(target="cpu:2").instructions()
    assert set(table["phase"].dropna()) == {"forward", "backward", "recomputed", "rest"}
    assert set(table[table["opcode"] == "subtract"]["phase"]) == {"recomputed", "rest"}
