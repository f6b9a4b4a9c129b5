"""Programs with rings of permutes for the tests of detectors. On a mesh of eight devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

from tests.findings.sharded import Program, array, manual

N = 8
RIGHT = [(i, (i + 1) % N) for i in range(N)]
LEFT = [(j, i) for i, j in RIGHT]
X, W = array((8 * 512, 512), "d"), array((512, 512))


def _shifted(x: jax.Array, pairs: Any = RIGHT) -> jax.Array:
    return lax.ppermute(x, "d", pairs)


def _program(body: Any, *more: Any) -> Program:
    return manual(body, (P("d"), *(P() for _ in more)), P("d")), (X, *more)


def unrolled_sum() -> Program:
    def f(x: Any) -> Any:
        total, block = x, x
        for _ in range(N - 1):
            block = _shifted(block)
            total = total + block
        return jnp.tanh(total)

    return _program(f)


def sum_in_a_loop() -> Program:
    def f(x: Any) -> Any:
        def step(_: Any, carry: Any) -> Any:
            block, total = carry
            block = _shifted(block, LEFT)
            return block, total + block

        return lax.fori_loop(0, N - 1, step, (x, x))[1]

    return _program(f)


def sum_in_a_scan() -> Program:
    def f(x: Any) -> Any:
        def step(carry: Any, _: Any) -> Any:
            block, total = carry
            return (_shifted(block), total + block), None

        return lax.scan(step, (x, jnp.zeros_like(x)), None, length=N)[0][1]

    return _program(f)


def unrolled_maximum() -> Program:
    def f(x: Any) -> Any:
        total = block = x
        for _ in range(N - 1):
            block = _shifted(block)
            total = jnp.maximum(total, block)
        return total

    return _program(f)


def unrolled_concatenation() -> Program:
    def f(x: Any) -> Any:
        blocks = [x]
        for _ in range(N - 1):
            blocks.append(_shifted(blocks[-1]))
        return jnp.concatenate(blocks)[:, :8]

    return _program(f)


def buffer_in_a_loop() -> Program:
    def f(x: Any) -> Any:
        me = lax.axis_index("d")

        def step(i: Any, carry: Any) -> Any:
            block, whole = carry
            whole = lax.dynamic_update_slice(whole, block, (((me - i) % N) * 512, 0))
            return _shifted(block), whole

        return lax.fori_loop(0, N, step, (x, jnp.zeros((N * 512, 512))))[1]

    return _program(f)


def wrapped_buffer_in_a_loop() -> Program:
    """The own block is written before the loop, and the others by a function that `jax.lax` wraps around the update."""

    def f(x: Any) -> Any:
        me = lax.axis_index("d")
        whole = lax.dynamic_update_index_in_dim(jnp.zeros((N, *x.shape)), x, me, 0)

        def step(i: Any, carry: Any) -> Any:
            whole, block = carry
            block = _shifted(block)
            return lax.dynamic_update_index_in_dim(whole, block, (me - i - 1) % N, 0), block

        return lax.fori_loop(0, N - 1, step, (whole, x))[0][:, :, :8]

    return _program(f)


def unrolled_buffer() -> Program:
    """Each block is written by a function that `jax.lax` wraps around the update."""

    def f(x: Any) -> Any:
        me = lax.axis_index("d")
        whole, block = jnp.zeros((N, *x.shape)), x
        for i in range(N):
            whole = lax.dynamic_update_index_in_dim(whole, block, (me - i) % N, 0)
            if i < N - 1:
                block = _shifted(block)
        return whole[:, :, :8]

    return _program(f)


# Silent


def collective_matmul() -> Program:
    def f(x: Any, w: Any) -> Any:
        def step(_: Any, carry: Any) -> Any:
            block, total = carry
            return _shifted(block), total + block @ w

        return lax.fori_loop(0, N, step, (x, jnp.zeros_like(x)))[1]

    return _program(f, W)


def unrolled_collective_matmul() -> Program:
    def f(x: Any, w: Any) -> Any:
        total, block = x @ w, x
        for _ in range(N - 1):
            block = _shifted(block)
            total = total + block @ w
        return total

    return _program(f, W)


def halo_exchange() -> Program:
    return _program(lambda x: x + _shifted(x) + _shifted(x, LEFT))


def pipeline() -> Program:
    def f(x: Any, w: Any) -> Any:
        return lax.fori_loop(0, N - 1, lambda _, c: _shifted(jnp.tanh(c @ w)), x)

    return _program(f, W)


def two_shifts() -> Program:
    return _program(lambda x: x + _shifted(_shifted(x)))


def reduce_scatter_ring() -> Program:
    """Each device sends on the sum that it has so far, not the block that it received."""

    def f(x: Any) -> Any:
        return lax.fori_loop(0, N - 1, lambda i, c: _shifted(c) + x * i, x)

    return _program(f)


def line_of_devices() -> Program:
    def f(x: Any) -> Any:
        total = block = x
        for _ in range(N - 1):
            block = _shifted(block, RIGHT[:-1])
            total = total + block
        return total

    return _program(f)


def weighted_sum() -> Program:
    def f(x: Any) -> Any:
        total, block = x, x
        for i in range(N - 1):
            block = _shifted(block)
            total = total + block * (0.5 + i)
        return total

    return _program(f)


def sum_and_product_in_a_loop() -> Program:
    """The blocks take part in other work too."""

    def f(x: Any) -> Any:
        def step(_: Any, carry: Any) -> Any:
            block, total, product = carry
            block = _shifted(block)
            return block, total + block, jnp.tanh(product * block)

        return lax.fori_loop(0, N - 1, step, (x, x, x))[1:]

    return _program(f)


def sum_beside_products() -> Program:
    """The loop also computes products, which stay."""

    def f(x: Any, w: Any) -> Any:
        def step(_: Any, carry: Any) -> Any:
            block, total, y = carry
            block = _shifted(block)
            return block, total + block, jnp.tanh(y @ w)

        return lax.fori_loop(0, N - 1, step, (x, x, x))[1:]

    return _program(f, W)


FOUND = (
    unrolled_sum, sum_in_a_loop, sum_in_a_scan, unrolled_maximum, unrolled_concatenation, buffer_in_a_loop, unrolled_buffer,
    wrapped_buffer_in_a_loop,
)  # fmt: skip
SILENT = (
    collective_matmul, unrolled_collective_matmul, halo_exchange, pipeline, two_shifts, reduce_scatter_ring, line_of_devices,
    weighted_sum, sum_and_product_in_a_loop,
)  # fmt: skip

RECORDED: dict[str, tuple[Callable[[], Program], ...]] = {
    "tpu:v5e:2x4": (*FOUND, *SILENT),
    "gpu:h100:8": (*FOUND, *SILENT),
}
"""Programs by the target for which they are recorded."""
