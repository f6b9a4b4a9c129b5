"""Chex: dataclasses as pytrees, variants, assertions on values."""

from __future__ import annotations

import chex
import jax
import jax.numpy as jnp

from tests.libraries.program import Program


@chex.dataclass(frozen=True)
class Particles:
    """A pytree with fields."""

    position: chex.Array
    velocity: chex.Array


PARTICLES = Particles(position=jnp.zeros((3, 2)), velocity=jnp.ones((3, 2)))


def move(particles: Particles, dt: float) -> Particles:
    chex.assert_equal_shape([particles.position, particles.velocity])
    return particles.replace(position=particles.position + dt * jnp.tanh(particles.velocity))


def tall(x: jax.Array, *, scale: float) -> jax.Array:
    return jnp.cumsum(x * scale, axis=0)


PROGRAMS = (
    Program("a dataclass in and out", move, (PARTICLES, 0.5), line="jnp.tanh(particles.velocity))"),
    Program(
        "donated",
        move,
        (PARTICLES.replace(position=jnp.ones((3, 2))), 0.5),
        jit={"donate_argnums": 0},
        line="jnp.tanh(particles.velocity))",
    ),
    Program(
        "a static keyword",
        jax.jit(tall, static_argnames="scale"),
        (jnp.ones((3, 2)),),
        {"scale": 2.0},
        line="return jnp.cumsum(x * scale, axis=0)",
    ),
)
