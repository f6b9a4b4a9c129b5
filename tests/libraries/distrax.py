"""Distrax: distributions and bijectors as pytrees."""

from __future__ import annotations

import distrax
import jax
import jax.numpy as jnp

from tests.libraries.program import Program


def policy_loss(policy: distrax.Categorical, actions: jax.Array, advantages: jax.Array) -> jax.Array:
    return -jnp.mean(policy.log_prob(actions) * advantages) - 0.01 * jnp.mean(policy.entropy())


def flow(params: dict, x: jax.Array) -> jax.Array:
    bijector = distrax.Chain([distrax.ScalarAffine(params["shift"], jnp.exp(params["scale"])), distrax.Tanh()])
    base = distrax.Normal(jnp.zeros_like(x), 1.0)
    return jnp.sum(distrax.Transformed(base, distrax.Inverse(bijector)).log_prob(x))


@jax.jit
def sample(mixture: distrax.MixtureSameFamily, key: jax.Array) -> tuple:
    draws, densities = mixture.sample_and_log_prob(seed=key, sample_shape=(5,))
    return jnp.sort(draws), densities


MIXTURE = distrax.MixtureSameFamily(
    distrax.Categorical(logits=jnp.zeros(2)), distrax.Normal(jnp.array([-1.0, 1.0]), jnp.array([0.5, 0.5]))
)

PROGRAMS = (
    Program(
        "a policy as argument",
        policy_loss,
        (distrax.Categorical(logits=jnp.ones((4, 3))), jnp.array([0, 1, 2, 1]), jnp.ones(4)),
        line="return -jnp.mean(policy.log_prob(actions) * advantages)",
    ),
    Program(
        "the gradient of a flow",
        jax.jit(jax.grad(flow)),
        ({"shift": 0.1, "scale": 0.2}, jnp.linspace(-0.5, 0.5, 4)),
        line="return jnp.sum(distrax.Transformed(",
    ),
    Program("draws of a mixture", sample, (MIXTURE, jax.random.key(2)), line="return jnp.sort(draws), densities"),
)
