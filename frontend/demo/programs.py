"""The programs behind the recorded fixtures of the demo page."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P


def dense(x, w, b):
    return x @ w + b


def loss_fn(params, x, y):
    h = jax.nn.gelu(dense(x, params["w1"], params["b1"]))
    h = jax.nn.gelu(dense(h, params["w2"], params["b2"]))
    logits = h @ params["w3"]
    return jnp.mean(jnp.square(logits - y))


def train_step(params, x, y):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    norm = jnp.sqrt(sum(jnp.vdot(g, g) for g in jax.tree.leaves(grads)))
    scale = jnp.minimum(1.0, 1.0 / norm)
    new = jax.tree.map(lambda p, g: p - 0.1 * scale * g, params, grads)
    return loss, new


def sharded_step(mesh):
    def step(x, w):
        partial = x @ w
        y = jax.lax.psum(partial, "model")
        mean = jax.lax.pmean(y, "data")
        full = jax.lax.all_gather(w, "model", axis=0, tiled=True)
        left = jax.lax.ppermute(y, "data", [(i, (i + 1) % 4) for i in range(4)])
        return jnp.sum((y - mean) * left) + jnp.sum(full)[None]

    return jax.shard_map(
        step, mesh=mesh, in_specs=(P("data", "model"), P("model", None)), out_specs=P(("data", "model")), check_vma=False
    )
