"""Equinox: modules as arguments and as functions, filtered transformations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from tests.libraries.program import Program

KEY = jax.random.PRNGKey(0)
X = jax.random.normal(KEY, (8, 4))
Y = jnp.sin(X[:, :1])
MLP = eqx.nn.MLP(4, 1, 16, 2, key=KEY)
OPTIMISER = optax.adam(1e-2)


def loss(model: eqx.nn.MLP, x: jax.Array, y: jax.Array) -> jax.Array:
    prediction = jax.vmap(model)(x)
    return jnp.mean((prediction - y) ** 2)


@eqx.filter_jit
def predict(model: eqx.nn.MLP, x: jax.Array) -> jax.Array:
    return jnp.tanh(jax.vmap(model)(x))


@eqx.filter_jit
def train_step(model: eqx.nn.MLP, state: optax.OptState, x: jax.Array, y: jax.Array) -> tuple:
    value, gradients = eqx.filter_value_and_grad(loss)(model, x, y)
    updates, state = OPTIMISER.update(gradients, state, eqx.filter(model, eqx.is_array))
    return eqx.apply_updates(model, updates), state, value


class Counter(eqx.Module):
    """A module with static fields, state, and a method that is jitted."""

    weight: jax.Array
    steps: int = eqx.field(static=True)
    name: str = "counter"

    @eqx.filter_jit
    def rollout(self, x: jax.Array) -> jax.Array:
        def step(carry: jax.Array, _: None) -> tuple:
            carry = jnp.cos(carry @ self.weight)
            return carry, carry.sum()

        return jax.lax.scan(step, x, None, length=self.steps)[1]


class Normed(eqx.Module):
    """Batch normalization keeps its running statistics in a state beside the model."""

    linear: eqx.nn.Linear
    norm: eqx.nn.BatchNorm

    def __init__(self, key: jax.Array) -> None:
        self.linear = eqx.nn.Linear(4, 3, key=key)
        self.norm = eqx.nn.BatchNorm(3, axis_name="batch", mode="batch")

    def __call__(self, x: jax.Array, state: eqx.nn.State) -> tuple:
        return self.norm(self.linear(x), state)


@eqx.filter_jit
def normed_batch(model: Normed, state: eqx.nn.State, x: jax.Array) -> tuple:
    both = jax.vmap(model, axis_name="batch", in_axes=(0, None), out_axes=(0, None))
    out, state = both(x, state)
    return jax.nn.relu(out), state


@eqx.filter_jit(donate="all-except-first")
def donating(model: eqx.nn.Linear, x: jax.Array) -> jax.Array:
    return x + jax.vmap(model)(x)


@eqx.filter_jit
def checked(x: jax.Array) -> jax.Array:
    x = eqx.error_if(x, jnp.any(x > 1e6), "too large")
    return jnp.sqrt(jnp.abs(x))


ARRAYS, REST = eqx.partition(MLP, eqx.is_array)


def gradient_by_hand(model: eqx.nn.MLP, x: jax.Array, y: jax.Array) -> tuple:
    return eqx.filter_value_and_grad(loss)(eqx.combine(model, REST), x, y)


def call_by_hand(*args: Any) -> jax.Array:
    return eqx.combine(args[0], REST)(*args[1:])


def lowered_by_hand(function: Callable[..., Any], name: str, *args: Any) -> Any:
    """Lowers as `jax.jit` does what takes the model's arrays and closes over the rest."""
    function.__name__ = name
    return jax.jit(function).lower(ARRAYS, *args)


COUNTER = Counter(jax.random.normal(KEY, (4, 4)), 5)
NORMED, STATE = eqx.nn.make_with_state(Normed)(KEY)
DROPOUT = eqx.nn.Sequential([eqx.nn.Linear(4, 4, key=KEY), eqx.nn.Dropout(0.5), eqx.nn.Lambda(jax.nn.gelu)])

PROGRAMS = (
    Program("filter_jit with a module argument", predict, (MLP, X), line="return jnp.tanh(jax.vmap(model)(x))"),
    Program(
        "train step with Optax",
        train_step,
        (MLP, OPTIMISER.init(eqx.filter(MLP, eqx.is_array)), X, Y),
        line="return jnp.mean((prediction - y) ** 2)",
    ),
    Program(
        "a filtered gradient, not jitted",
        eqx.filter_value_and_grad(loss),
        (MLP, X, Y),
        line="return jnp.mean((prediction - y) ** 2)",
        bare=lambda: lowered_by_hand(gradient_by_hand, "loss", X, Y),
    ),
    Program(
        "a jitted method of a module",
        COUNTER.rollout,
        (X,),
        line="carry = jnp.cos(carry @ self.weight)",
        bare=lambda: Counter.rollout.lower(COUNTER, X),
    ),
    Program("state beside a model", normed_batch, (NORMED, STATE, X), line="return jax.nn.relu(out), state"),
    Program("donated arguments", donating, (eqx.nn.Linear(4, 4, key=KEY), X + 0), line="return x + jax.vmap(model)(x)"),
    Program("a check at run time", checked, (X,), line="return jnp.sqrt(jnp.abs(x))"),
    Program(
        "a keyword argument",
        eqx.filter_jit(lambda model, x, *, key: model(x, key=key) * 2.0),
        (DROPOUT, X[0]),
        {"key": jax.random.key(3)},
        line="lambda model, x, *, key: model(x, key=key) * 2.0",
    ),
    Program(
        "a module itself",
        MLP,
        (X[0],),
        bare=lambda: lowered_by_hand(call_by_hand, "MLP", X[0]),
    ),
)
