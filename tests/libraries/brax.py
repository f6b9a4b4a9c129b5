"""Brax: environments whose states are pytrees."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from brax import envs

from tests.libraries.program import Program

ENVIRONMENT = envs.get_environment("fast")
STATE = ENVIRONMENT.reset(jax.random.PRNGKey(0))


def rollout(state: envs.State, actions: jax.Array) -> jax.Array:
    _, rewards = jax.lax.scan(lambda s, a: ((n := ENVIRONMENT.step(s, jnp.clip(a, -1, 1))), n.reward), state, actions)
    return jnp.cumsum(rewards)


PROGRAMS = (
    Program(
        "a rollout",
        rollout,
        (STATE, jnp.ones((3, ENVIRONMENT.action_size))),
        line="return jnp.cumsum(rewards)",
    ),
    Program(
        "reset of an environment, a bound method",
        jax.jit(ENVIRONMENT.reset),
        (jax.random.PRNGKey(1),),
    ),
)
