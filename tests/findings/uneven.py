"""Programs with arrays that are split evenly and unevenly for the tests of detectors. On a mesh of eight devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from tests.findings.sharded import DM, D, Program, array


def _split(x: jax.Array, *spec: Any, mesh: Any = D) -> jax.Array:
    return lax.with_sharding_constraint(x, NamedSharding(mesh, P(*spec)))


def _rows(count: int) -> Program:
    return lambda x, w: jnp.tanh(_split(x, "d") @ w), (array((count, 512)), array((512, 1024)))


def ten_rows() -> Program:
    return _rows(10)


def twelve_heads(count: int = 12) -> Program:
    def f(x: Any, w: Any) -> Any:
        q = _split((x @ w).reshape(8, 128, count, 64), None, None, "d")
        return jnp.einsum("bqhd,bkhd->bhqk", q, q)

    return f, (array((8, 128, 512)), array((512, count * 64)))


def experts_in_a_loop() -> Program:
    def f(x: Any, w: Any) -> Any:
        return lax.scan(
            lambda c, _: (jnp.tanh(_split(jnp.einsum("ebd,edf->ebf", c, w), "d")), None), x, None, length=5
        )[0]

    return f, (array((9, 64, 256)), array((9, 256, 256)))


def six_rows_over_one_of_two_axes() -> Program:
    return lambda x, w: jnp.tanh(_split(x @ w, "d", "m", mesh=DM)) * 2, (array((6, 512)), array((512, 1024)))


def jitted_function() -> Program:
    @jax.jit
    def layer(x: Any, w: Any) -> Any:
        return jnp.tanh(_split(x @ w, None, "d"))

    return lambda x, w: layer(x, w) + 1, (array((256, 512)), array((512, 100)))


def gathered_heads(count: int = 12) -> Program:
    """The rows of the products are 1.5 heads on each device: an exchange makes two of them, and the padding is gathered."""

    def f(x: Any, w: Any) -> Any:
        return _split(jnp.tanh(_split((x @ w).reshape(8, 512, count, 64), None, None, "d")))

    return f, (array((8, 512, 512)), array((512, count * 64)))


def gathered_rows() -> Program:
    return lambda x, w: _split(_split(jnp.tanh(x @ w), "d")), (array((9, 64)), array((64, 1 << 20)))


# Silent


def sixteen_rows() -> Program:
    return _rows(16)


def sixteen_heads() -> Program:
    return twelve_heads(16)


def large_vocabulary() -> Program:
    """Seven rows of padding in 50,264."""
    return lambda x, w: _split(x @ w, None, "d"), (array((64, 128)), array((128, 50257)))


def whole_rows() -> Program:
    return lambda x, w: jnp.tanh(_split(x, None, "d") @ w), (array((10, 512)), array((512, 1024)))


def split_arguments() -> Program:
    return lambda x, w: jnp.tanh(x @ w), (array((64, 512), "d"), array((512, 10)))


FOUND = (ten_rows, twelve_heads, six_rows_over_one_of_two_axes, experts_in_a_loop, jitted_function)
SILENT = (sixteen_rows, sixteen_heads, large_vocabulary, whole_rows, split_arguments)

RECORDED: dict[str, tuple[Callable[[], Program], ...]] = {
    "tpu:v5e:2x4": (*FOUND, *SILENT),
    "gpu:h100:8": (*FOUND, *SILENT),
}
"""Programs by the target for which they are recorded."""
