"""Programs that exchange values in a wider type than they need, for the tests of detectors. On a mesh of eight devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from tests.findings.sharded import D, Program, array, manual

NARROW, WIDE = jnp.bfloat16, jnp.float32
X, W = array((8 * 256, 512), "d", dtype=NARROW), array((512, 2048), dtype=NARROW)
UP, DOWN = array((512, 4096), None, "d", dtype=NARROW), array((4096, 512), "d", dtype=NARROW)
TOKENS = array((1024, 512), dtype=NARROW)
RIGHT = [(i, (i + 1) % 8) for i in range(8)]


def _loss(w: Any, x: Any) -> Any:
    return jnp.square(jnp.tanh(x @ w).astype(WIDE)).sum()


def _step(reduced: Callable[[Any], Any]) -> Program:
    """A step of data-parallel training with weights in bfloat16."""

    def f(x: Any, w: Any) -> Any:
        return w - NARROW(1e-3) * reduced(jax.grad(_loss)(w, x))

    return manual(f, (P("d"), P()), P()), (X, W)


def sum_of_widened_gradients() -> Program:
    return _step(lambda g: lax.psum(g.astype(WIDE), "d").astype(NARROW))


def mean_of_widened_gradients() -> Program:
    return _step(lambda g: lax.pmean(g.astype(WIDE), "d").astype(NARROW))


def sums_of_a_tree_of_gradients() -> Program:
    def f(x: Any, w: Any, v: Any) -> Any:
        gradients = jax.grad(lambda wv: _loss(wv[1], jnp.tanh(x @ wv[0])))((w, v))
        sums = lax.psum(jax.tree.map(lambda g: g.astype(WIDE), gradients), "d")
        return jax.tree.map(lambda g: g.astype(NARROW), sums)

    return manual(f, (P("d"), P(), P()), P()), (X, array((512, 1024), dtype=NARROW), array((1024, 512), dtype=NARROW))


def scattered_sum_of_widened_gradients() -> Program:
    def f(x: Any, w: Any) -> Any:
        gradient = jax.grad(_loss)(w, x).astype(WIDE)
        return lax.psum_scatter(gradient, "d", tiled=True).astype(NARROW)

    return manual(f, (P("d"), P()), P("d")), (X, W)


def _row_parallel(result: Callable[[Any, Any], Any]) -> Program:
    """A block of tensor parallelism, whose second product the partitioner adds up over the devices."""

    def f(x: Any, up: Any, down: Any) -> Any:
        return result(jax.nn.gelu(x @ up), down)

    return jax.jit(f, out_shardings=NamedSharding(D, P())), (TOKENS, UP, DOWN)


def product_in_float32() -> Program:
    return _row_parallel(lambda h, w: jnp.matmul(h, w, preferred_element_type=WIDE).astype(NARROW))


def product_with_a_float32_scale() -> Program:
    """The scale makes one operand float32, and with it the result."""
    scale = jnp.linspace(0.5, 1.5, 4096)
    return _row_parallel(lambda h, w: ((h * scale) @ w).astype(NARROW))


def largest_of_widened() -> Program:
    """The largest values are the same in the narrower type."""
    return _step(lambda g: g / lax.pmax(jnp.abs(g).astype(WIDE), "d").astype(NARROW))


def _exchanged(exchange: Callable[[Any], Any], out: Any) -> Program:
    """The result stays in float32, so that XLA for TPUs sends float32."""

    def f(x: Any, w: Any) -> Any:
        return jnp.exp(exchange((x @ w).astype(WIDE))).sum(0)

    return manual(f, (P("d"), P()), out), (X, W)


def gather_of_widened() -> Program:
    return _exchanged(lambda y: lax.all_gather(y, "d", tiled=True), P())


def exchange_of_widened() -> Program:
    return _exchanged(lambda y: lax.all_to_all(y, "d", 1, 0, tiled=True), P("d"))


# Silent


def sum_of_narrow_gradients() -> Program:
    return _step(lambda g: lax.psum(g, "d"))


def sum_that_stays_wide() -> Program:
    """The optimizer's state is in float32."""

    def f(x: Any, w: Any, m: Any) -> Any:
        m = 0.9 * m + lax.psum(jax.grad(_loss)(w, x).astype(WIDE), "d")
        return (w - 1e-3 * m).astype(NARROW), m

    return manual(f, (P("d"), P(), P()), P()), (X, W, array((512, 2048)))


def sum_of_wide_values() -> Program:
    """The terms were computed in float32."""
    return _step(lambda g: lax.psum(jnp.tanh(g.astype(WIDE)), "d").astype(NARROW))


def product_whose_result_stays_wide() -> Program:
    return _row_parallel(lambda h, w: jax.nn.softmax(jnp.matmul(h, w, preferred_element_type=WIDE)).astype(NARROW))


def gather_that_xla_narrows() -> Program:
    def f(x: Any, w: Any) -> Any:
        return x @ lax.all_gather(w, "d", tiled=True).astype(NARROW)

    return manual(f, (P("d"), P("d")), P("d")), (X, array((512, 2048), "d"))


def shift_that_xla_narrows() -> Program:
    def f(x: Any, w: Any) -> Any:
        def stage(y: Any, _: Any) -> Any:
            y = jnp.tanh(y @ w).astype(WIDE)
            return lax.ppermute(y, "d", RIGHT).astype(NARROW), None

        return lax.scan(stage, x, None, length=8)[0]

    return manual(f, (P("d"), P()), P("d")), (X, array((512, 512), dtype=NARROW))


FOUND = (
    sum_of_widened_gradients, mean_of_widened_gradients, sums_of_a_tree_of_gradients, scattered_sum_of_widened_gradients,
    product_in_float32, product_with_a_float32_scale, largest_of_widened,
)  # fmt: skip
ON_TPUS = (gather_of_widened, exchange_of_widened)
SILENT = (
    sum_of_narrow_gradients, sum_that_stays_wide, sum_of_wide_values, product_whose_result_stays_wide, gather_that_xla_narrows,
    shift_that_xla_narrows,
)  # fmt: skip

RECORDED: dict[str, tuple[Callable[[], Program], ...]] = {
    "tpu:v5e:2x4": (*FOUND, *ON_TPUS, *SILENT),
    "gpu:h100:8": (*FOUND, *SILENT),
}
"""Programs by the target for which they are recorded."""
