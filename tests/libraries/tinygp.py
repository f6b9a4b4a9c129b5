"""tinygp: Gaussian processes as pytrees."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import tinygp

from tests.libraries.program import Program

X = jnp.linspace(0.0, 3.0, 6)


def build(params: dict, x: jax.Array) -> tinygp.GaussianProcess:
    kernel = jnp.exp(params["amplitude"]) * tinygp.kernels.Matern32(jnp.exp(params["scale"]))
    return tinygp.GaussianProcess(kernel, x, diag=0.1)


def loss(params: dict, x: jax.Array, y: jax.Array) -> jax.Array:
    return -jnp.reshape(build(params, x).log_probability(y), ())


PROGRAMS = (
    Program(
        "a likelihood and its gradient",
        jax.jit(jax.value_and_grad(loss)),
        ({"amplitude": 0.1, "scale": 0.2}, X, jnp.sin(X)),
        line="kernel = jnp.exp(params[",
    ),
    Program(
        "a process as argument",
        lambda gp, y: gp.condition(y).gp.loc * 2.0,
        (build({"amplitude": 0.1, "scale": 0.2}, X), jnp.sin(X)),
        line="lambda gp, y: gp.condition(y).gp.loc * 2.0",
    ),
)
