"""BlackJAX: samplers as pairs of init and step."""

from __future__ import annotations

import functools

import blackjax
import jax
import jax.numpy as jnp

from tests.libraries.program import Program

POSITION = {"x": jnp.array([0.3, -0.2])}
KEY = jax.random.key(0)


def logdensity(position: dict) -> jax.Array:
    return -0.5 * jnp.sum((position["x"] - 1.0) ** 2)


HMC = blackjax.hmc(logdensity, step_size=0.1, inverse_mass_matrix=jnp.ones(2), num_integration_steps=3)
NUTS = blackjax.nuts(logdensity, step_size=0.2, inverse_mass_matrix=jnp.ones(2), max_num_doublings=3)
WALK = blackjax.additive_step_random_walk(logdensity, blackjax.mcmc.random_walk.normal(jnp.ones(2) * 0.1))


@functools.partial(jax.jit, static_argnums=(2,))
def chain(key: jax.Array, state: object, length: int) -> jax.Array:
    def step(state: object, key: jax.Array) -> tuple:
        state, info = HMC.step(key, state)
        return state, (state.position["x"], info.acceptance_rate)

    _, (positions, rates) = jax.lax.scan(step, state, jax.random.split(key, length))
    return jnp.sort(positions, axis=0), rates


PROGRAMS = (
    Program("a step of NUTS, a bound function", NUTS.step, (KEY, NUTS.init(POSITION)), line="return -0.5 * jnp.sum(("),
    Program(
        "a chain of a static length",
        chain,
        (KEY, HMC.init(POSITION), 4),
        line="return jnp.sort(positions, axis=0), rates",
    ),
    Program(
        "a step of every chain",
        jax.vmap(WALK.step),
        (jax.random.split(KEY, 3), jax.vmap(WALK.init)({"x": jnp.zeros((3, 2))})),
        line="return -0.5 * jnp.sum((",
    ),
)
