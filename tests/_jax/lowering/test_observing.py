"""The log of a program's collectives, from the program alone."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax import lax
from jax._src.lax import parallel
from jax.extend.core import Primitive

from inspector._jax.lowering.observing import COLLECTIVES, ObserveLimits, observed_jaxpr

ENVIRONMENT = [("i", 2)]


def logged_of(fun: Any, *args: Any, executions: int = 16) -> Any:
    closed = jax.make_jaxpr(fun, axis_env=ENVIRONMENT)(*args)
    return observed_jaxpr(closed, ENVIRONMENT, ObserveLimits(executions, 1 << 20))


def test_a_log_has_room_for_all_iterations_of_a_loop() -> None:
    def fun(x: Any) -> Any:
        def row(c: Any, _: Any) -> Any:
            return lax.scan(lambda d, _: (d + lax.psum(d, "i"), None), c, None, length=3)

        return lax.scan(row, x, None, length=2)[0]

    made, (one,) = logged_of(fun, np.float32(1))
    assert one.capacity == 6
    assert [aval.shape for aval in made.out_avals] == [(), (), (6,), (6,)]
    made, (one,) = logged_of(fun, np.float32(1), executions=4)
    assert one.capacity == 4
    assert [aval.shape for aval in made.out_avals] == [(), (), (4,), (4,)]


def test_a_loop_without_rounds_logs_nothing() -> None:
    made, (one,) = logged_of(
        lambda x: lax.scan(lambda c, _: (lax.psum(c, "i"), None), x, None, length=0)[0], np.float32(1)
    )
    assert one.capacity == 0
    assert "no iterations" in one.reason
    assert len(made.out_avals) == 1


def test_collectives_in_unsupported_primitives_are_reported_with_the_reason() -> None:
    def fun(x: Any) -> Any:
        return lax.custom_linear_solve(lambda v: v + lax.psum(v, "i"), x, lambda _, b: b / 3)

    _, logged = logged_of(fun, np.ones(2, np.float32))
    assert {one.reason for one in logged} == {"it is inside a custom_linear_solve"}


def test_every_collective_is_a_primitive_of_jax() -> None:
    primitives = (found for found in vars(parallel).values() if isinstance(found, Primitive))
    assert {primitive.name for primitive in primitives} >= COLLECTIVES
