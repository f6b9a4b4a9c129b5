"""Flax nnx: modules that are objects with state, changed in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import nnx

from tests.libraries.program import Program

X = jax.random.normal(jax.random.key(0), (8, 4))
Y = jnp.sin(X[:, :1])


class Mlp(nnx.Module):
    """Two layers with dropout."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.first = nnx.Linear(4, 16, rngs=rngs)
        self.dropout = nnx.Dropout(0.1, rngs=rngs)
        self.second = nnx.Linear(16, 1, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.second(self.dropout(jax.nn.relu(self.first(x))))


class Counted(nnx.Module):
    """Counts its calls in a variable."""

    def __init__(self) -> None:
        self.scale = nnx.Param(jnp.full(4, 2.0))
        self.calls = nnx.Variable(jnp.array(0))

    def __call__(self, x: jax.Array) -> jax.Array:
        self.calls[...] += 1
        return x * self.scale[...] + self.calls[...]


@nnx.jit
def train_step(model: Mlp, optimizer: nnx.Optimizer, x: jax.Array, y: jax.Array) -> jax.Array:
    def loss(model: Mlp) -> jax.Array:
        return jnp.mean((model(x) - y) ** 2)

    value, gradients = nnx.value_and_grad(loss)(model)
    optimizer.update(model, gradients)
    return value


@nnx.jit
def counted(model: Counted, x: jax.Array) -> jax.Array:
    return jnp.exp(model(x))


@jax.jit
def functional(state: nnx.State, x: jax.Array) -> jax.Array:
    model = nnx.merge(GRAPH, state)
    return jnp.square(model(x))


def predict(model: nnx.Linear, x: jax.Array) -> jax.Array:
    return jnp.log1p(jnp.abs(model(x)))


def changing(function: Callable[..., Any], *objects: Any) -> Callable[..., Any]:
    """The call with what it changes in place: the objects' states, then what it returns."""

    def call(*arrays: jax.Array) -> tuple[list[Any], Any]:
        result = function(*objects, *arrays)
        return [nnx.state(each) for each in objects], result

    return call


MODEL = Mlp(nnx.Rngs(0))
OPTIMISER = nnx.Optimizer(MODEL, optax.adam(1e-2), wrt=nnx.Param)
COUNTED = Counted()
LINEAR = nnx.Linear(4, 3, rngs=nnx.Rngs(1))
GRAPH, LINEAR_STATE = nnx.split(LINEAR)

PROGRAMS = (
    Program(
        "a train step",
        train_step,
        (MODEL, OPTIMISER, X, Y),
        line="return jnp.mean((model(x) - y) ** 2)",
        plain=lambda: changing(train_step, MODEL, OPTIMISER)(X, Y),
    ),
    Program(
        "a module that counts its calls",
        counted,
        (COUNTED, X),
        line="return jnp.exp(model(x))",
        plain=lambda: changing(counted, COUNTED)(X),
    ),
    Program("split and merged, under jax.jit", functional, (LINEAR_STATE, X), line="return jnp.square(model(x))"),
    Program(
        "a function of a module, not jitted",
        predict,
        (LINEAR, X),
        line="return jnp.log1p(jnp.abs(model(x)))",
    ),
)
