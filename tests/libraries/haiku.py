"""Haiku: functions transformed to pairs of init and apply."""

from __future__ import annotations

import functools

import haiku as hk
import jax
import jax.numpy as jnp
import optax

from tests.libraries.program import Program

KEY = jax.random.PRNGKey(0)
X = jax.random.normal(KEY, (6, 4))


def network(x: jax.Array, *, is_training: bool) -> jax.Array:
    x = jax.nn.relu(hk.Linear(8)(x))
    x = hk.BatchNorm(create_scale=True, create_offset=True, decay_rate=0.9)(x, is_training)
    if is_training:
        x = hk.dropout(hk.next_rng_key(), 0.2, x)
    return hk.Linear(2)(x)


def attention(x: jax.Array) -> jax.Array:
    heads = hk.MultiHeadAttention(2, 4, w_init=hk.initializers.VarianceScaling(1.0))
    return jnp.tanh(heads(x, x, x))


NETWORK = hk.transform_with_state(network)
PARAMS, STATE = NETWORK.init(KEY, X, is_training=True)
ATTENTION = hk.without_apply_rng(hk.transform(attention))
OPTIMISER = optax.rmsprop(1e-3)


@functools.partial(jax.jit, static_argnames="is_training")
def evaluate(params: hk.Params, state: hk.State, key: jax.Array, x: jax.Array, is_training: bool) -> tuple:
    out, state = NETWORK.apply(params, state, key, x, is_training=is_training)
    return jax.nn.log_softmax(out), state


@jax.jit
def update(params: hk.Params, opt_state: optax.OptState, x: jax.Array) -> tuple:
    gradients = jax.grad(lambda p: jnp.sum(ATTENTION.apply(p, x) ** 2))(params)
    updates, opt_state = OPTIMISER.update(gradients, opt_state)
    return optax.apply_updates(params, updates), opt_state


WEIGHTS = ATTENTION.init(KEY, X)

PROGRAMS = (
    Program(
        "apply with state and a static keyword",
        evaluate,
        (PARAMS, STATE, KEY, X),
        {"is_training": True},
        line="return jax.nn.log_softmax(out), state",
    ),
    Program("a training update", update, (WEIGHTS, OPTIMISER.init(WEIGHTS), X), line="return jnp.tanh(heads(x, x, x))"),
    Program("apply of a transformed function", ATTENTION.apply, (WEIGHTS, X), line="return jnp.tanh(heads(x, x, x))"),
)
