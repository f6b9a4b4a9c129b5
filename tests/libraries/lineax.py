"""Lineax: linear operators and solvers as pytrees."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import lineax as lx

from tests.libraries.program import Program

MATRIX = jnp.eye(4) * 3.0 + jnp.ones((4, 4)) * 0.5
VECTOR = jnp.arange(4.0)


def solve(operator: lx.AbstractLinearOperator, vector: jax.Array) -> jax.Array:
    solution = lx.linear_solve(operator, vector, lx.CG(rtol=1e-5, atol=1e-5))
    return jnp.negative(solution.value)


@jax.jit
def least_squares(matrix: jax.Array, vector: jax.Array) -> jax.Array:
    operator = lx.MatrixLinearOperator(jnp.concatenate([matrix, matrix * 2.0]))
    return lx.linear_solve(operator, jnp.concatenate([vector, vector]), lx.QR()).value


def jacobian_solve(y: jax.Array) -> jax.Array:
    operator = lx.JacobianLinearOperator(lambda y, _: jnp.sinh(y) + MATRIX @ y, y)
    return lx.linear_solve(operator, VECTOR, lx.AutoLinearSolver(well_posed=True)).value


PROGRAMS = (
    Program(
        "an operator as argument",
        solve,
        (lx.MatrixLinearOperator(MATRIX, lx.positive_semidefinite_tag), VECTOR),
        line="return jnp.negative(solution.value)",
    ),
    Program("least squares by QR", least_squares, (MATRIX, VECTOR), line="jnp.concatenate([matrix, matrix * 2.0])"),
    Program("a solve with a Jacobian", jacobian_solve, (VECTOR,), line="lambda y, _: jnp.sinh(y) + MATRIX @ y, y)"),
)
