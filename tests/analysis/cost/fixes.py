"""Programs before and after a fix of each kind, for tests that compare totals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import inspector
from inspector.stages.compiled import Compiled

MESH = AbstractMesh((8,), ("data",), axis_types=(AxisType.Auto,))
WHOLE, ROWS, COLUMNS = P(), P("data"), P(None, "data")

Build = Callable[[str], Compiled]
"""Compiles a program for a target."""


def array(*shape: int, spec: P = WHOLE, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(MESH, spec))


def _built(fun: Callable[..., Any], *args: Any, **options: Any) -> Build:
    return lambda target: inspector.lower(jax.jit(fun, **options), *args, target=target).compile(target=target)


def _donation() -> dict[str, tuple[Build, Build]]:
    big, wide = array(4096, 4096), array(4096, 4096, dtype=jnp.bfloat16)

    def rows(w: Any, g: Any) -> Any:
        return lax.dynamic_update_slice(w, g, (8, 0))

    def column(cache: Any, new: Any, place: Any) -> Any:
        return lax.dynamic_update_slice(cache, new, (0, place, 0))

    def counted(w: Any, places: Any) -> Any:
        return w.at[places].add(1.0)

    def loop(w: Any) -> Any:
        return lax.fori_loop(
            0, 8, lambda i, w: lax.dynamic_update_slice(w, jnp.ones((8, 4096), w.dtype), (i * 8, 0)), w
        )

    def pair(w: Any, m: Any, g: Any) -> Any:
        return lax.dynamic_update_slice(w, g, (0, 0)), lax.dynamic_update_slice(m, g * g, (16, 0))

    cache = array(64, 4096, 128, dtype=jnp.bfloat16)
    cases: dict[str, tuple[Callable[..., Any], tuple[Any, ...], tuple[int, ...]]] = {
        "rows": (rows, (big, array(8, 4096)), (0,)),
        "rows of bfloat16": (rows, (wide, array(16, 4096, dtype=jnp.bfloat16)), (0,)),
        "cache": (column, (cache, array(64, 1, 128, dtype=jnp.bfloat16), array(dtype=jnp.int32)), (0,)),
        "scatter": (counted, (big, array(64, dtype=jnp.int32)), (0,)),
        "loop": (loop, (big,), (0,)),
        "two arrays": (pair, (big, array(4096, 4096), array(8, 4096)), (0, 1)),
    }
    return {
        name: (_built(fun, *args), _built(fun, *args, donate_argnums=donated))
        for name, (fun, args, donated) in cases.items()
    }


def _mlp(x: Any, w: Any) -> Any:
    return jnp.mean(jax.nn.gelu(x @ w) ** 2)


def _softmax(x: Any, w: Any) -> Any:
    return jax.nn.softmax(x @ w, axis=-1)


def _norm(x: Any, w: Any) -> Any:
    mean = jnp.mean(x, -1, keepdims=True)
    return (x - mean) * lax.rsqrt(jnp.var(x, -1, keepdims=True) + 1e-5) @ w


def _attention(x: Any, w: Any) -> Any:
    q = (x @ w).reshape(-1, 16, 128)
    scores = jax.nn.softmax(jnp.einsum("qhd,khd->hqk", q, q), axis=-1)
    return jnp.einsum("hqk,khd->qhd", scores, q)


def _layers(x: Any, w: Any) -> Any:
    return lax.scan(lambda c, _: (jax.nn.relu(c @ w[:, :1024]), None), x, None, length=8)[0]


def _bfloat16() -> dict[str, tuple[Build, Build]]:
    def args(dtype: Any, rows: int = 4096) -> tuple[Any, Any]:
        return array(rows, 1024, spec=ROWS, dtype=dtype), array(1024, 2048, dtype=dtype)

    cases: dict[str, tuple[Callable[..., Any], int]] = {
        "gradient": (jax.grad(_mlp, 1), 4096),
        "softmax": (_softmax, 16384),
        "norm": (_norm, 16384),
        "attention": (_attention, 4096),
        "scan": (_layers, 16384),
        "fill": (lambda x, w: jnp.zeros((2048, 1024, 16), x.dtype) + (x[0, 0] + w[0, 0]), 4096),
    }
    return {
        name: (_built(fun, *args(jnp.float32, rows)), _built(fun, *args(jnp.bfloat16, rows)))
        for name, (fun, rows) in cases.items()
    }


def _rematerialization() -> dict[str, tuple[Build, Build]]:
    x, w = array(16384, 1024, spec=ROWS, dtype=jnp.bfloat16), array(1024, 2048, dtype=jnp.bfloat16)

    def block(x: Any, w: Any) -> Any:
        return jax.nn.gelu(x @ w)

    def of(layer: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
        def two(w: Any) -> Any:
            return _mlp(layer(jnp.ones((2048, 1024), w.dtype), w), w.T)

        def scan(x: Any, w: Any) -> Any:
            def one(c: Any, w: Any) -> Any:
                return layer(c, w) @ w.T, None

            return jnp.sum(lax.scan(one, x, jnp.stack([w] * 4))[0].astype(jnp.float32))

        return {
            "two layers": lambda x, w: _mlp(layer(x, w), w.T),
            "three layers": lambda x, w: _mlp(layer(layer(x, w), w.T), w),
            "scan": scan,
            "sum": lambda x, w: jnp.sum(layer(layer(x, w), w.T).astype(jnp.float32) ** 2),
            "constant input": lambda x, w: two(w) + jnp.sum(x).astype(w.dtype) * 0,
        }

    plain, saved = of(block), of(jax.checkpoint(block))
    return {name: (_built(jax.grad(plain[name], 1), x, w), _built(jax.grad(saved[name], 1), x, w)) for name in plain}


def _resharding() -> dict[str, tuple[Build, Build]]:
    x, y = array(4096, 1024, spec=ROWS), array(4096, 4096, spec=COLUMNS)
    half, w = array(8192, 4096, spec=ROWS, dtype=jnp.bfloat16), array(4096, 1024, dtype=jnp.bfloat16)
    whole, rows, columns = (NamedSharding(MESH, spec) for spec in (WHOLE, ROWS, COLUMNS))

    def to(spec: Any) -> Callable[[Any], Any]:
        return lambda x: jnp.sin(lax.with_sharding_constraint(jnp.tanh(x), spec))

    return {
        "result": (
            _built(lambda x: x * 2, x, out_shardings=whole), _built(lambda x: x * 2, x, out_shardings=rows)
        ),
        "transposed": (
            _built(lambda x: x + 1, y, out_shardings=rows), _built(lambda x: x + 1, y, out_shardings=columns)
        ),
        "intermediate": (
            _built(to(columns), x, out_shardings=rows), _built(to(rows), x, out_shardings=rows)
        ),
        "gathered weights": (
            _built(lambda x, w: x @ w, half, array(4096, 1024, spec=ROWS, dtype=jnp.bfloat16), out_shardings=rows),
            _built(lambda x, w: x @ w, half, w, out_shardings=rows),
        ),
        "whole gradient": (
            _built(jax.grad(_mlp, 0), array(4096, 1024, spec=ROWS), array(1024, 2048), out_shardings=whole),
            _built(jax.grad(_mlp, 0), array(4096, 1024, spec=ROWS), array(1024, 2048), out_shardings=rows),
        ),
    }  # fmt: skip


def fixes() -> Mapping[str, Mapping[str, tuple[Build, Build]]]:
    """Returns the programs before and after each fix, by kind and name."""
    return {
        "donation": _donation(),
        "bfloat16": _bfloat16(),
        "rematerialization": _rematerialization(),
        "resharding": _resharding(),
    }
