"""Programs whose collectives depend on the order of the devices in the mesh, for the tests of detectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from tests.findings.sharded import DM, Program, array, manual, mesh_of

DATA_FIRST = mesh_of((2, 4), ("data", "model"))
N = 2048
DATA, MODEL, BOTH = "data", "model", ("data", "model")


def _sums(axes: Any, mesh: Any = DATA_FIRST) -> Program:
    fun = manual(lambda x: lax.psum(x, axes), P("data", "model"), P(), mesh)
    return fun, (array((N, N), "data", "model", mesh=mesh),)


def sums_over_data() -> Program:
    return _sums(DATA)


def sums_over_the_longer_axis() -> Program:
    """JAX lays an axis of four over the two rows of the slice."""
    fun = manual(lambda x: lax.psum(x, "d"), P("d", "m"), P(), DM)
    return fun, (array((N, N), "d", "m", mesh=DM),)


def weights_gathered_in_layers() -> Program:
    def f(x: Any, ws: Any) -> Any:
        def layer(x: Any, w: Any) -> Any:
            return jnp.tanh(x @ lax.all_gather(w, "data", axis=0, tiled=True)), None

        return lax.scan(layer, x, ws)[0]

    fun = manual(f, (P(), P(None, "data", None)), P(), DATA_FIRST)
    return fun, (array((8, N), mesh=DATA_FIRST), array((4, N, N), None, "data", mesh=DATA_FIRST))


def step_of_a_partitioned_model() -> Program:
    """The partitioner adds up the gradients over the batch."""

    def f(w: Any, x: Any) -> Any:
        return jax.grad(lambda w: jnp.tanh(x @ w).sum())(w)

    fun = jax.jit(f, out_shardings=NamedSharding(DATA_FIRST, P(None, "model")))
    return fun, (array((N, N), None, "model", mesh=DATA_FIRST), array((16, N), "data", mesh=DATA_FIRST))


# Silent


def sums_over_data_in_the_other_order() -> Program:
    """The devices are in the order that the finding of `sums_over_data` shows."""
    devices = np.array(sorted(jax.devices(), key=lambda device: device.id))
    return _sums(DATA, Mesh(devices.reshape(4, 2).transpose(1, 0), BOTH))


def sums_over_both() -> Program:
    return _sums(BOTH)


def one_axis() -> Program:
    return manual(lambda x: lax.psum(x, "d"), P("d"), P()), (array((N, N), "d"),)


def sums_behind_products() -> Program:
    """Most of the time is not communication."""

    def f(x: Any, w: Any) -> Any:
        x = lax.fori_loop(0, 64, lambda _, x: jnp.tanh(x @ w), x)
        return x, lax.psum(w[:256], "data")

    fun = manual(f, (P(), P()), (P(), P()), DATA_FIRST)
    return fun, (array((N, N), mesh=DATA_FIRST), array((N, N), mesh=DATA_FIRST))


def no_collectives() -> Program:
    return manual(jnp.tanh, P("data", "model"), P("data", "model"), DATA_FIRST), (
        array((N, N), "data", "model", mesh=DATA_FIRST),
    )


FOUND = (sums_over_data, sums_over_the_longer_axis, weights_gathered_in_layers, step_of_a_partitioned_model)
SILENT = (sums_over_data_in_the_other_order, sums_over_both, one_axis, no_collectives)

RECORDED: dict[str, tuple[Callable[[], Program], ...]] = {
    "tpu:v5e:2x4": (*FOUND, *SILENT, sums_behind_products),
    "gpu:h100:8": (sums_over_data,),
}
"""Programs by the target for which they are recorded."""
