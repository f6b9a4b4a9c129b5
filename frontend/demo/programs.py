"""The programs behind the recorded fixtures of the demo page."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

Params = dict[str, jax.Array]


def dense(x: jax.Array, w: jax.Array, b: jax.Array) -> jax.Array:
    """One layer."""
    return x @ w + b


def loss_fn(params: Params, x: jax.Array, y: jax.Array) -> jax.Array:
    """The mean square error of three layers."""
    h = jax.nn.gelu(dense(x, params["w1"], params["b1"]))
    h = jax.nn.gelu(dense(h, params["w2"], params["b2"]))
    logits = h @ params["w3"]
    return jnp.mean(jnp.square(logits - y))


def train_step(params: Params, x: jax.Array, y: jax.Array) -> tuple[jax.Array, Params]:
    """One step of gradient descent with a clipped norm."""
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    norm = jnp.sqrt(sum(jnp.vdot(g, g) for g in jax.tree.leaves(grads)))
    scale = jnp.minimum(1.0, 1.0 / norm)
    new = jax.tree.map(lambda p, g: p - 0.1 * scale * g, params, grads)
    return loss, new


def sharded_loss(w1: jax.Array, w2: jax.Array, x: jax.Array) -> jax.Array:
    """The mean square of two layers, whose shardings are the arguments'."""
    h = jax.nn.relu(x @ w1)
    return jnp.mean((h @ w2) ** 2)


def sharded_step(mesh: Mesh) -> Callable[[jax.Array, jax.Array], jax.Array]:
    """One of each collective over the axes `data` and `model`."""

    def step(x: jax.Array, w: jax.Array) -> jax.Array:
        partial = x @ w
        y = jax.lax.psum(partial, "model")
        mean = jax.lax.pmean(y, "data")
        full = jax.lax.all_gather(w, "model", axis=0, tiled=True)
        left = jax.lax.ppermute(y, "data", [(i, (i + 1) % 4) for i in range(4)])
        return jnp.sum((y - mean) * left) + jnp.sum(full)[None]

    specs = (P("data", "model"), P("model", None))
    out_specs = P(("data", "model"))
    return jax.shard_map(step, mesh=mesh, in_specs=specs, out_specs=out_specs, check_vma=False)
