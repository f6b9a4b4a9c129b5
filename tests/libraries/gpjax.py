"""GPJax: Gaussian processes."""

from __future__ import annotations

import gpjax as gpx
import jax
import jax.numpy as jnp

from tests.libraries.program import Program

X = jnp.linspace(0.0, 1.0, 6).reshape(-1, 1)
DATA = gpx.Dataset(X, jnp.sin(6.0 * X))
PRIOR = gpx.gps.Prior(mean_function=gpx.mean_functions.Zero(), kernel=gpx.kernels.RBF())
POSTERIOR = PRIOR * gpx.likelihoods.Gaussian(num_datapoints=6)


def objective(posterior: object, data: gpx.Dataset) -> jax.Array:
    return -jnp.asarray(gpx.objectives.conjugate_mll(posterior, data))


def predict(x: jax.Array) -> jax.Array:
    return jnp.tanh(POSTERIOR.predict(x, train_data=DATA).mean)


PROGRAMS = (Program("a prediction", predict, (X + 0.05,), line="return jnp.tanh(POSTERIOR.predict"),)
