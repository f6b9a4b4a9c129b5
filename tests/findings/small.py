"""Programs with many small collectives for the tests of detectors. On a mesh of eight devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

from tests.findings.sharded import DM, Program, array, manual

COUNT = 12
RIGHT = [(i, (i + 1) % 8) for i in range(8)]


def _program(body: Any, count: int = COUNT, length: int = 128) -> Program:
    return manual(body, (P("d"),) * count, P("d")), tuple(array((8 * length,), "d") for _ in range(count))


def _exchanged(x: jax.Array) -> jax.Array:
    return lax.all_to_all(x, "d", 0, 0, tiled=True)


def exchange_of_each_leaf() -> Program:
    return _program(lambda *xs: [_exchanged(x) * 0.1 for x in xs])


def shift_of_each_field() -> Program:
    return _program(lambda *xs: [lax.ppermute(x, "d", RIGHT) - x for x in xs])


def exchanges_in_a_loop() -> Program:
    def f(*xs: Any) -> Any:
        return lax.fori_loop(0, 10, lambda _, c: tuple(jnp.tanh(_exchanged(x)) for x in c), xs)

    return _program(f)


def gradients_exchanged_in_layers() -> Program:
    """The exchanges of one layer do not depend on each other, and those of the next layer depend on them."""

    def f(*xs: Any) -> Any:
        total = sum(_exchanged(x) for x in xs)
        return [_exchanged(x * total) for x in xs]

    return _program(f)


def both_ways_over_two_axes() -> Program:
    def f(*xs: Any) -> Any:
        return [lax.all_to_all(x, "d", 0, 0, tiled=True) + lax.all_to_all(x, "m", 0, 0, tiled=True) for x in xs]

    arrays = tuple(array((64, 8), "d", "m", mesh=DM) for _ in range(6))
    return manual(f, (P("d", "m"),) * 6, P("d", "m"), DM), arrays


# Silent


def chain_of_exchanges() -> Program:
    def f(x: Any) -> Any:
        for _ in range(COUNT):
            x = jnp.tanh(_exchanged(x))
        return x

    return _program(f, 1)


def stacked_exchange() -> Program:
    def f(*xs: Any) -> Any:
        stacked = _exchanged(jnp.stack(xs, -1))
        return [stacked[:, i] * 0.1 for i in range(len(xs))]

    return _program(f)


def few_exchanges() -> Program:
    return _program(lambda *xs: [_exchanged(x) * 0.1 for x in xs], 3)


def large_exchanges() -> Program:
    return _program(lambda *xs: [_exchanged(x) * 0.1 for x in xs], 4, 1 << 23)


def sums_that_xla_combines() -> Program:
    body = manual(lambda *xs: [lax.psum(x, "d") * 0.1 for x in xs], (P("d"),) * COUNT, P())
    return body, _program(lambda: None)[1]


def exchanges_of_different_kinds() -> Program:
    """No kind of which there are four."""

    def f(a: Any, b: Any, c: Any) -> Any:
        shifted = [lax.ppermute(x, "d", RIGHT) for x in (a, b, c)]
        back = [lax.ppermute(x, "d", [(i, j) for j, i in RIGHT]) for x in (a, b, c)]
        return [_exchanged(x) for x in (a, b, c)] + shifted + back

    return _program(f, 3)


def ring_attention() -> Program:
    """Keys, values, a mask and a count go round the ring; each step needs the block of the last one."""

    def f(q: Any, k: Any, v: Any) -> Any:
        def step(carry: Any, _: Any) -> Any:
            o, k, v = carry
            return (o + jnp.tanh(q @ k.T) @ v, lax.ppermute(k, "d", RIGHT), lax.ppermute(v, "d", RIGHT)), None

        return lax.scan(step, (q * 0, k, v), None, length=8)[0][0]

    return manual(f, (P("d"),) * 3, P("d")), tuple(array((512, 64), "d") for _ in range(3))


FOUND = (exchange_of_each_leaf, exchanges_in_a_loop, gradients_exchanged_in_layers, both_ways_over_two_axes)
SILENT = (chain_of_exchanges, stacked_exchange, few_exchanges, large_exchanges, sums_that_xla_combines)

RECORDED: dict[str, tuple[Callable[[], Program], ...]] = {
    "tpu:v5e:2x4": (*FOUND, *SILENT, shift_of_each_field, exchanges_of_different_kinds, ring_attention),
    "gpu:h100:8": (*FOUND, *SILENT),
}
"""Programs by the target for which they are recorded."""
