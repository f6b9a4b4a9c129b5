"""NumPyro: densities, samplers and variational inference of probabilistic programs."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.infer import NUTS, SVI, Predictive, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal
from numpyro.infer.util import log_density

from tests.libraries.program import Program

X = jnp.linspace(-1.0, 1.0, 6)
Y = 2.0 * X + 0.5
KEY = jax.random.PRNGKey(0)


def regression(x: jax.Array, y: jax.Array | None = None) -> None:
    slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
    offset = numpyro.sample("offset", dist.Normal(0.0, 1.0))
    with numpyro.plate("data", x.shape[0]):
        numpyro.sample("y", dist.Normal(slope * x + offset, 0.3), obs=y)


def joint(params: dict, x: jax.Array, y: jax.Array) -> jax.Array:
    return -log_density(regression, (x, y), {}, params)[0]


def log_prob(distribution: dist.Distribution, value: jax.Array) -> jax.Array:
    return jnp.sum(distribution.log_prob(value))


GUIDE = AutoNormal(regression)
SVI_ = SVI(regression, GUIDE, numpyro.optim.Adam(0.01), Trace_ELBO())
SVI_STATE = SVI_.init(KEY, X, Y)
SAMPLER = NUTS(regression, max_tree_depth=3)
NUTS_STATE = SAMPLER.init(KEY, 5, model_args=(X, Y), init_params=None, model_kwargs={})


@jax.jit
def svi_step(state: object, x: jax.Array, y: jax.Array) -> tuple:
    state, loss = SVI_.update(state, x, y)
    return state, jnp.sqrt(loss)


@jax.jit
def nuts_step(state: object, x: jax.Array, y: jax.Array) -> tuple:
    state = SAMPLER.sample(state, (x, y), {})
    return state.z, jnp.expm1(state.accept_prob)


def predictive(key: jax.Array, slope: jax.Array, x: jax.Array) -> jax.Array:
    draws = Predictive(regression, {"slope": slope, "offset": slope * 0.5})(key, x)
    return jnp.mean(draws["y"], axis=0)


PROGRAMS = (
    Program(
        "a log density and its gradient",
        jax.value_and_grad(joint),
        ({"slope": 0.1, "offset": 0.2}, X, Y),
        line="return -log_density(regression",
    ),
    Program(
        "a distribution as argument",
        log_prob,
        (dist.Normal(jnp.zeros(3), jnp.ones(3)), jnp.arange(3.0)),
        line="return jnp.sum(distribution.log_prob(value))",
    ),
    Program("a step of variational inference", svi_step, (SVI_STATE, X, Y), line="return state, jnp.sqrt(loss)"),
    Program("a step of NUTS", nuts_step, (NUTS_STATE, X, Y), line="return state.z, jnp.expm1(state.accept_prob)"),
    Program("predictive draws", predictive, (KEY, jnp.ones(2), X), line='return jnp.mean(draws["y"], axis=0)'),
)
