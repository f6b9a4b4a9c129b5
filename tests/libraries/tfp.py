"""TensorFlow Probability on JAX: samplers and bijectors."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from tensorflow_probability.substrates import jax as tfp

from tests.libraries.program import Program

KERNEL = tfp.mcmc.HamiltonianMonteCarlo(lambda x: -0.5 * jnp.sum((x - 1.0) ** 2), step_size=0.1, num_leapfrog_steps=2)


@jax.jit
def one_step(x: jax.Array, key: jax.Array) -> tuple:
    x, results = KERNEL.one_step(x, KERNEL.bootstrap_results(x), seed=key)
    return jnp.tanh(x), results.is_accepted


def density(mean: jax.Array, x: jax.Array) -> jax.Array:
    normal = tfp.distributions.MultivariateNormalDiag(mean, jnp.ones(2))
    return tfp.bijectors.Softplus()(normal.log_prob(x))


PROGRAMS = (
    Program("a step of HMC", one_step, (jnp.zeros(2), jax.random.PRNGKey(0)), line="return jnp.tanh(x), results"),
    Program("a density", density, (jnp.zeros(2), jnp.ones(2)), line="return tfp.bijectors.Softplus()(normal"),
)
