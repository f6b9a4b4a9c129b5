"""RLax: losses of reinforcement learning."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import rlax

from tests.libraries.program import Program


@jax.jit
def q_loss(q: jax.Array, action: jax.Array, reward: jax.Array, q_next: jax.Array) -> jax.Array:
    errors = jax.vmap(rlax.q_learning)(q, action, reward, jnp.full(3, 0.9), q_next)
    return jnp.mean(rlax.huber_loss(errors))


PROGRAMS = (
    Program(
        "Q-learning",
        jax.value_and_grad(q_loss),
        (jnp.ones((3, 2)), jnp.array([0, 1, 1]), jnp.arange(3.0), jnp.zeros((3, 2))),
        line="return jnp.mean(rlax.huber_loss(errors))",
    ),
)
