"""Parts of models and optimizers that the programs of the corpus share. All of them are written as XLA likes them."""

from __future__ import annotations

import itertools
import math
from typing import Any

import jax
import jax.numpy as jnp

from tests.findings.corpus.cases import struct

HEADS = 8


def normed(x: jax.Array, scale: jax.Array) -> jax.Array:
    """Root mean square norm in float32."""
    wide = x.astype(jnp.float32)
    return (wide * jax.lax.rsqrt(jnp.mean(wide**2, -1, keepdims=True) + 1e-6)).astype(x.dtype) * scale


def attention(q: jax.Array, k: jax.Array, v: jax.Array, causal: bool = True) -> jax.Array:
    """Attention of (batch, length, heads, features), with the softmax in float32."""
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k, preferred_element_type=jnp.float32) / math.sqrt(q.shape[-1])
    if causal:
        n, m = scores.shape[-2:]
        scores = jnp.where(jnp.arange(n)[:, None] >= jnp.arange(m), scores, -1e9)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, -1).astype(v.dtype), v)


def block(p: Any, x: jax.Array) -> jax.Array:
    """A layer of a decoder."""
    y = normed(x, p["norm1"])
    q, k, v = (jnp.einsum("btd,dhk->bthk", y, p[name]) for name in "qkv")
    x = x + jnp.einsum("bthk,hkd->btd", attention(q, k, v), p["out"])
    y = normed(x, p["norm2"])
    return x + jax.nn.gelu(y @ p["up"]) @ p["down"]


def block_params(d: int = 512, dtype: Any = jnp.float32, layers: tuple[int, ...] = ()) -> dict[str, Any]:
    heads = {name: struct(*layers, d, HEADS, d // HEADS, dtype=dtype) for name in "qkv"}
    return {
        **heads,
        "out": struct(*layers, HEADS, d // HEADS, d, dtype=dtype),
        "up": struct(*layers, d, 4 * d, dtype=dtype),
        "down": struct(*layers, 4 * d, d, dtype=dtype),
        "norm1": struct(*layers, d, dtype=dtype),
        "norm2": struct(*layers, d, dtype=dtype),
    }


def decoder_params(layers: int, d: int = 512, vocabulary: int = 4096, dtype: Any = jnp.float32) -> dict[str, Any]:
    return {
        "embedding": struct(vocabulary, d, dtype=dtype),
        "layers": [block_params(d, dtype) for _ in range(layers)],
        "norm": struct(d, dtype=dtype),
    }


def cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    chosen = jnp.take_along_axis(logits, labels[..., None], -1)[..., 0]
    return jnp.mean(jax.nn.logsumexp(logits, -1) - chosen)


def decoder_loss(params: Any, tokens: jax.Array) -> jax.Array:
    x = params["embedding"][tokens]
    for p in params["layers"]:
        x = block(p, x)
    x = normed(x, params["norm"])
    logits = jnp.einsum("btd,vd->btv", x, params["embedding"], preferred_element_type=jnp.float32)
    return cross_entropy(logits[:, :-1], tokens[:, 1:])


def mlp(params: Any, x: jax.Array) -> jax.Array:
    """Layers as pairs of a weight and a bias."""
    for w, b in params[:-1]:
        x = jax.nn.gelu(x @ w + b)
    w, b = params[-1]
    return x @ w + b


def mlp_params(*widths: int, dtype: Any = jnp.float32) -> list[Any]:
    return [(struct(n, m, dtype=dtype), struct(m, dtype=dtype)) for n, m in itertools.pairwise(widths)]


def adam(params: Any, gradients: Any, m: Any, v: Any, rate: float = 1e-3) -> tuple[Any, Any, Any]:
    m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, gradients)
    v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, gradients)
    params = jax.tree.map(lambda p, m, v: p - rate * m / (jnp.sqrt(v) + 1e-8), params, m, v)
    return params, m, v


def sgd(params: Any, gradients: Any, rate: float = 1e-2) -> Any:
    return jax.tree.map(lambda p, g: p - rate * g, params, gradients)
