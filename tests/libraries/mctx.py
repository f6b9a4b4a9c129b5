"""Mctx: tree search with a model as a function."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import mctx

from tests.libraries.program import Program


def recurrent(params: jax.Array, key: jax.Array, action: jax.Array, embedding: jax.Array) -> tuple:
    embedding = jnp.tanh(embedding + params[action])
    output = mctx.RecurrentFnOutput(
        reward=embedding.sum(-1), discount=jnp.ones(action.shape), prior_logits=embedding, value=embedding.max(-1)
    )
    return output, embedding


@functools.partial(jax.jit, static_argnames="simulations")
def search(params: jax.Array, key: jax.Array, simulations: int) -> jax.Array:
    root = mctx.RootFnOutput(prior_logits=jnp.zeros((2, 3)), value=jnp.zeros(2), embedding=jnp.zeros((2, 3)))
    found = mctx.gumbel_muzero_policy(params, key, root, recurrent, num_simulations=simulations)
    return jnp.argmax(found.action_weights, axis=-1)


PROGRAMS = (
    Program(
        "a search",
        search,
        (jnp.eye(3), jax.random.PRNGKey(0)),
        {"simulations": 4},
        line="embedding = jnp.tanh(embedding + params[action])",
    ),
)
