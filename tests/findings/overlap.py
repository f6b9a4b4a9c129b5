"""Programs with collectives and work beside them for the tests of detectors. On a mesh of eight devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

from tests.findings.sharded import Program, array, gathered, manual

G, H, K = array((8 * 512, 512), "d"), array((8 * 4096, 1024), "d"), array((1024, 1024))


def _worked(x: jax.Array, w: jax.Array) -> jax.Array:
    return jnp.tanh(jnp.tanh(x @ w) @ w) @ w


def _beside(exchange: Callable[[jax.Array], jax.Array], out: Any) -> Program:
    return manual(lambda g, x, w: (exchange(g), _worked(x, w)), (P("d"), P("d"), P()), (out, P("d"))), (G, H, K)


def sum_beside_products() -> Program:
    return _beside(lambda g: lax.psum(g, "d"), P())


def exchange_beside_products() -> Program:
    return _beside(lambda g: lax.all_to_all(g, "d", 0, 0, tiled=True), P("d"))


def sum_used_before_products() -> Program:
    def f(g: Any, x: Any, w: Any) -> Any:
        total = jnp.tanh(lax.psum(g, "d"))
        return total @ total, _worked(x, w)

    return manual(f, (P("d"), P("d"), P()), (P(), P("d"))), (G, H, K)


def sum_in_a_loop_beside_products() -> Program:
    def f(g: Any, x: Any, w: Any) -> Any:
        def body(carry: Any, _: Any) -> Any:
            g, x = carry
            return (jnp.tanh(lax.psum(g, "d")), _worked(x, w)), None

        return lax.scan(body, (g, x), None, length=4)[0]

    return manual(f, (P("d"), P("d"), P()), (P("d"), P("d"))), (G, H, K)


def exchanges_beside_one_product() -> Program:
    """The wide product can run beside one of the two exchanges, which depend on each other."""

    def f(x: Any, expert: Any, up: Any, down: Any) -> Any:
        there = lax.all_to_all(x, "d", 0, 0, tiled=True)
        back = lax.all_to_all(jnp.tanh(there @ expert) @ expert.T, "d", 0, 0, tiled=True)
        return back + jax.nn.relu(x @ up) @ down

    def of(*shape: int) -> Any:
        return array(shape, dtype=jnp.bfloat16)

    args = array((8 * 4096, 2048), "d", dtype=jnp.bfloat16), of(2048, 2048), of(2048, 8192), of(8192, 2048)
    return manual(f, (P("d"), P(), P(), P()), P("d")), args


def large_sum_beside_products() -> Program:
    """libtpu takes two of the six products."""

    def f(g: Any, x: Any, w: Any) -> Any:
        y = x
        for _ in range(6):
            y = jnp.tanh(y @ w)
        return lax.psum(g, "d"), y

    args = (
        array((8 * 2048, 1024), "d"),
        array((8 * 1024, 2048), "d", dtype=jnp.bfloat16),
        array((2048, 2048), dtype=jnp.bfloat16),
    )
    return manual(f, (P("d"), P("d"), P()), (P(), P("d"))), args


# Silent


def products_need_the_sum() -> Program:
    def f(g: Any, x: Any, w: Any) -> Any:
        total = lax.psum(g, "d")
        return _worked(x * total[0, 0], w)

    return manual(f, (P("d"), P("d"), P()), P("d")), (G, H, K)


def sum_of_products() -> Program:
    def f(x: Any, w: Any) -> Any:
        y = _worked(x, w)
        return lax.psum(y.T @ y, "d")

    return manual(f, (P("d"), P()), P()), (H, K)


def too_little_work() -> Program:
    return manual(lambda g, x, w: (lax.psum(g, "d"), jnp.tanh(x @ w)), (P("d"), P("d"), P()), (P(), P("d"))), (
        G,
        array((64, 256), "d"),
        array((256, 256)),
    )


def weight_gathered_beside_products() -> Program:
    """GPUs and TPUs overlap gathers by default."""

    def f(g: Any, x: Any, w: Any) -> Any:
        y = _worked(x, w)
        return y @ gathered(g)

    return manual(f, (P("d"), P("d"), P()), P("d")), (array((1024, 1024), "d"), H, K)


FOUND = (
    sum_beside_products,
    exchange_beside_products,
    sum_used_before_products,
    sum_in_a_loop_beside_products,
)
PARTLY = (exchanges_beside_one_product, large_sum_beside_products)
"""Programs of which a part of the exposed time can be hidden."""
SILENT = (
    products_need_the_sum,
    sum_of_products,
    too_little_work,
    weight_gathered_beside_products,
)

RECORDED: dict[str, tuple[Callable[[], Program], ...]] = {
    "tpu:v5e:2x4": (*FOUND, *PARTLY, *SILENT),
    "gpu:h100:8": SILENT,
}
"""Programs by the target for which they are recorded."""
