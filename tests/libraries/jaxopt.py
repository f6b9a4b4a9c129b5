"""JAXopt: solvers that are objects, with implicit gradients by custom_vjp."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import jaxopt

from tests.libraries.program import Program

X = jnp.linspace(-1.0, 1.0, 12).reshape(6, 2)
Y = X @ jnp.array([1.0, -2.0])


def ridge(w: jax.Array, penalty: jax.Array, data: tuple) -> jax.Array:
    x, y = data
    return jnp.mean((x @ w - y) ** 2) + penalty * jnp.sum(w**2)


SOLVER = jaxopt.GradientDescent(ridge, maxiter=5, stepsize=0.1)
PROXIMAL = jaxopt.ProjectedGradient(ridge, jaxopt.projection.projection_non_negative, maxiter=5, stepsize=0.1)


def validation(penalty: jax.Array, data: tuple) -> jax.Array:
    w = SOLVER.run(jnp.zeros(2), penalty, data).params
    return jnp.sum(jnp.abs(data[0] @ w - data[1]))


PROGRAMS = (
    Program(
        "a bound update",
        SOLVER.update,
        (jnp.zeros(2), SOLVER.init_state(jnp.zeros(2), 0.1, (X, Y)), 0.1, (X, Y)),
        line="return jnp.mean((x @ w - y) ** 2) + penalty",
    ),
    Program(
        "the implicit gradient of a hyperparameter",
        jax.grad(validation),
        (0.1, (X, Y)),
        line="return jnp.sum(jnp.abs(data[0] @ w - data[1]))",
    ),
    Program(
        "run with a keyword",
        PROXIMAL.run,
        (jnp.zeros(2),),
        {"hyperparams_proj": None, "penalty": jnp.array(0.1), "data": (X, Y)},
        line="return jnp.mean((x @ w - y) ** 2) + penalty",
    ),
)
