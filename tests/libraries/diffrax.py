"""Diffrax: solvers of differential equations, with adjoints of their own."""

from __future__ import annotations

import diffrax as dfx
import equinox as eqx
import jax
import jax.numpy as jnp

from tests.libraries.program import Program

Y0 = jnp.array([2.0, 0.5])


def lotka_volterra(t: jax.Array, y: jax.Array, args: tuple) -> jax.Array:
    a, b, c, d = args
    return jnp.stack([a * y[0] - b * y[0] * y[1], -c * y[1] + d * y[0] * y[1]])


@jax.jit
def solve(y0: jax.Array, rates: tuple) -> jax.Array:
    saved = dfx.SaveAt(ts=jnp.linspace(0.0, 2.0, 5))
    controller = dfx.PIDController(rtol=1e-4, atol=1e-6)
    solution = dfx.diffeqsolve(
        dfx.ODETerm(lotka_volterra), dfx.Tsit5(), 0.0, 2.0, 0.1, y0, rates, saveat=saved, stepsize_controller=controller
    )
    return solution.ys


@eqx.filter_jit
@eqx.filter_value_and_grad
def neural_ode(field: eqx.nn.MLP, y0: jax.Array) -> jax.Array:
    term = dfx.ODETerm(lambda t, y, args: field(y))
    solution = dfx.diffeqsolve(term, dfx.Heun(), 0.0, 1.0, 0.25, y0, adjoint=dfx.RecursiveCheckpointAdjoint())
    return jnp.sum(solution.ys**2)


def brownian(key: jax.Array) -> jax.Array:
    path = dfx.VirtualBrownianTree(0.0, 1.0, tol=1e-1, shape=(2,), key=key)
    terms = dfx.MultiTerm(
        dfx.ODETerm(lambda t, y, args: -y), dfx.ControlTerm(lambda t, y, args: 0.1 * jnp.eye(2), path)
    )
    return jnp.abs(dfx.diffeqsolve(terms, dfx.Euler(), 0.0, 1.0, 0.25, Y0).ys)


PROGRAMS = (
    Program("an adaptive solve", solve, (Y0, (1.1, 0.4, 0.4, 0.1)), line="return jnp.stack([a * y[0] - b"),
    Program(
        "the gradient through a neural equation",
        neural_ode,
        (eqx.nn.MLP(2, 2, 8, 1, key=jax.random.key(0)), Y0),
        line="return jnp.sum(solution.ys**2)",
    ),
    Program("a stochastic equation", brownian, (jax.random.key(1),), line="return jnp.abs(dfx.diffeqsolve("),
)
