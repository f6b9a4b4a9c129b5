"""Sharded programs for the tests of detectors, with a mistake or similar to a program with one. On a mesh of eight devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

Program = tuple[Callable[..., Any], tuple[Any, ...]]


def mesh_of(sizes: tuple[int, ...], names: tuple[str, ...]) -> AbstractMesh:
    return AbstractMesh(sizes, names, axis_types=(AxisType.Auto,) * len(names))


D = mesh_of((8,), ("d",))
DM = mesh_of((4, 2), ("d", "m"))


def array(shape: tuple[int, ...], *spec: Any, mesh: AbstractMesh = D, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, P(*spec)))


def manual(fun: Callable[..., Any], in_specs: Any, out_specs: Any, mesh: AbstractMesh = D) -> Callable[..., Any]:
    return jax.shard_map(fun, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False)


def gathered(w: jax.Array) -> jax.Array:
    return lax.all_gather(w, "d", axis=0, tiled=True)


X, W = array((64, 256), "d"), array((256, 256), "d")


def gather_in_scan() -> Program:
    def f(x: Any, w: Any) -> Any:
        return lax.scan(lambda c, _: (jnp.tanh(c @ gathered(w)), None), x, None, length=10)[0]

    return manual(f, (P("d"), P("d")), P("d")), (X, W)


def sum_of_bfloat16_in_fori_loop() -> Program:
    def f(x: Any, y: Any) -> Any:
        return lax.fori_loop(0, 20, lambda _, c: c * 0.9 + lax.psum(y.astype(jnp.bfloat16), "d"), x)

    return manual(f, (P(), P("d")), P()), (array((32, 256)), W)


def invariant_sum_beside_another() -> Program:
    """XLA for GPUs combines both sums of an iteration, of which the loop changes one."""

    def f(x: Any, scale: Any) -> Any:
        def body(_: Any, x: Any) -> Any:
            return jnp.tanh(lax.psum(x * 0.1, "d")) / (lax.psum(scale, "d") + 1)

        return lax.fori_loop(0, 12, body, x)

    return manual(f, (P(), P("d")), P()), (array((256, 1024)), array((8 * 256, 1024), "d"))


def gather_in_while_of_unknown_length() -> Program:
    def f(x: Any, w: Any) -> Any:
        return lax.while_loop(lambda c: c[0, 0] < 1.0, lambda c: jnp.tanh(c @ gathered(w)), x)

    return manual(f, (P("d"), P("d")), P("d")), (X, W)


def weight_gathered_by_partitioner() -> Program:
    def f(x: Any, params: Any) -> Any:
        return lax.scan(lambda c, _: (jnp.tanh(c @ params["w"]), None), x, None, length=10)[0]

    return f, (array((512, 256), "d"), {"w": W})


def weight_gathered_over_one_axis(before: bool = False) -> Program:
    def f(x: Any, w: Any) -> Any:
        if before:
            w = lax.with_sharding_constraint(w, NamedSharding(DM, P(None, "m")))
        return lax.scan(lambda c, _: (jnp.tanh(c @ w @ w.T), None), x, None, length=10)[0]

    return f, (array((512, 256), "d", mesh=DM), array((256, 512), "d", "m", mesh=DM))


def weight_gathered_over_one_axis_before() -> Program:
    return weight_gathered_over_one_axis(before=True)


def accumulated_gradients() -> Program:
    def f(w: Any, xs: Any) -> Any:
        def body(g: Any, x: Any) -> Any:
            return g + jax.grad(lambda w: jnp.mean(jnp.tanh(x @ w) ** 2))(w), None

        return lax.scan(body, jnp.zeros_like(w), xs)[0]

    return f, (W, array((6, 512, 256), None, "d"))


def layers_by_partitioner() -> Program:
    def f(x: Any, ws: Any) -> Any:
        return lax.scan(lambda c, w: (jnp.tanh(c @ w), None), x, ws)[0]

    return f, (array((512, 256), "d"), array((10, 256, 256), None, "d"))


def layers_gathered_by_hand() -> Program:
    def f(x: Any, ws: Any) -> Any:
        return lax.scan(lambda c, w: (jnp.tanh(c @ gathered(w)), None), x, ws)[0]

    return manual(f, (P("d"), P(None, "d")), P("d")), (X, array((10, 256, 256), None, "d"))


def gather_of_updated_weight() -> Program:
    def f(x: Any, w: Any) -> Any:
        return lax.fori_loop(
            0, 10, lambda _, w: w + 0.1 * lax.psum_scatter(x.T @ (x @ gathered(w)), "d", tiled=True), w
        )

    return manual(f, (P("d"), P("d")), P("d")), (X, W)


def gather_before_scan() -> Program:
    def f(x: Any, w: Any) -> Any:
        whole = gathered(w)
        return lax.scan(lambda c, _: (jnp.tanh(c @ whole), None), x, None, length=10)[0]

    return manual(f, (P("d"), P("d")), P("d")), (X, W)


_IN_LOOPS: tuple[Callable[[], Program], ...] = (
    gather_in_scan, gather_in_while_of_unknown_length, weight_gathered_by_partitioner, accumulated_gradients,
    layers_by_partitioner, layers_gathered_by_hand, gather_of_updated_weight, gather_before_scan,
)  # fmt: skip

RECORDED: dict[str, tuple[Callable[[], Program], ...]] = {
    "tpu:v5e:2x4": _IN_LOOPS,
    "gpu:h100:8": (
        *_IN_LOOPS,
        invariant_sum_beside_another,
        sum_of_bfloat16_in_fori_loop,
        weight_gathered_over_one_axis,
    ),
}
"""Programs by the target for which they are recorded."""
