"""Optimistix: root finding, least squares, minimization."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import optimistix as optx

from tests.libraries.program import Program


def implicit(y: jax.Array, args: float) -> jax.Array:
    return y - jnp.tanh(y * args + 1.0)


def root(y0: jax.Array, args: float) -> jax.Array:
    return optx.root_find(implicit, optx.Newton(rtol=1e-4, atol=1e-4), y0, args).value


def residuals(params: dict, data: tuple) -> jax.Array:
    x, y = data
    return params["a"] * jnp.exp(-params["b"] * x) - y


@jax.jit
def fit(params: dict, data: tuple) -> dict:
    solver = optx.LevenbergMarquardt(rtol=1e-4, atol=1e-4)
    return optx.least_squares(residuals, solver, params, data, max_steps=32, throw=False).value


def fixed_point_gradient(scale: jax.Array) -> jax.Array:
    def fixed_point(y: jax.Array, scale: jax.Array) -> jax.Array:
        return jnp.cos(y * scale)

    def at(scale: jax.Array) -> jax.Array:
        return optx.fixed_point(
            fixed_point, optx.FixedPointIteration(rtol=1e-3, atol=1e-3), jnp.array(0.5), scale
        ).value

    return jax.grad(at)(scale)


X = jnp.linspace(0.0, 2.0, 6)

PROGRAMS = (
    Program("a root", root, (jnp.array([0.5, 0.2]), 1.5), line="return y - jnp.tanh(y * args + 1.0)"),
    Program(
        "a least-squares fit of a dictionary",
        fit,
        ({"a": jnp.array(1.0), "b": jnp.array(0.5)}, (X, 2.0 * jnp.exp(-X))),
        line='return params["a"] * jnp.exp(-params["b"] * x) - y',
    ),
    Program("the implicit gradient", fixed_point_gradient, (jnp.array(0.9),), line="return jnp.cos(y * scale)"),
)
