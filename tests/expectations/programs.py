"""Programs of which something is expected."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

P = PartitionSpec
S = jax.ShapeDtypeStruct


def mesh() -> Mesh:
    return Mesh(np.array(jax.devices()[:8]).reshape(4, 2), ("data", "model"))


def sharded(shape: tuple[int, ...], *axes: Any) -> S:
    return S(shape, jnp.float32, sharding=NamedSharding(mesh(), P(*axes)))


def two_sums(x: jax.Array) -> jax.Array:
    """One all-reduce over data, one all-gather over model."""

    def local(x: jax.Array) -> jax.Array:
        summed = lax.psum(x, "data")
        return lax.all_gather(summed * 2, "model", axis=1, tiled=True)

    return jax.shard_map(local, mesh=mesh(), in_specs=P("data", "model"), out_specs=P(), check_vma=False)(x)


def over_both(x: jax.Array) -> jax.Array:
    """One all-reduce over data and model together."""
    return jax.shard_map(
        lambda x: lax.psum(x, ("data", "model")),
        mesh=mesh(),
        in_specs=P("data", "model"),
        out_specs=P(),
        check_vma=False,
    )(x)


def looped(x: jax.Array) -> jax.Array:
    """One all-reduce that runs three times."""

    def local(x: jax.Array) -> jax.Array:
        return lax.fori_loop(0, 3, lambda _, y: lax.psum(jnp.sin(y), "data"), x)

    return jax.shard_map(local, mesh=mesh(), in_specs=P("data"), out_specs=P("data"), check_vma=False)(x)


def replicated_on_the_way(x: jax.Array) -> jax.Array:
    """From one sharding to another that XLA's partitioner cannot reach but by replicating."""
    three = Mesh(np.array(jax.devices()[:8]).reshape(2, 2, 2), ("a", "b", "c"))
    y = lax.with_sharding_constraint(x * 2, NamedSharding(three, P("a", None, "b")))
    return lax.with_sharding_constraint(jnp.sin(y), NamedSharding(three, P(None, None, ("a", "b", "c"))))


def dense(w: jax.Array, x: jax.Array) -> jax.Array:
    return jnp.tanh(x @ w) @ w.T


def called_back(x: jax.Array) -> jax.Array:
    return jax.pure_callback(lambda v: np.asarray(v) * 2, S(x.shape, x.dtype), x) + 1
