"""Random sharded programs for tests: a few operations on two or three arrays that are split over a mesh of eight devices."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec

MESHES = (((8,), ("d",)), ((4, 2), ("d", "m")), ((2, 4), ("d", "m")), ((2, 2, 2), ("d", "m", "e")))

Program = tuple[Callable[..., Any], tuple[jax.ShapeDtypeStruct, ...]]


def sharded_program(seed: int) -> Program:
    """A function and its arguments; the same for the same seed."""
    source = random.Random(seed)
    sizes, names = source.choice(MESHES)
    mesh = AbstractMesh(sizes, names, axis_types=(AxisType.Auto,) * len(names))
    arguments = tuple(
        jax.ShapeDtypeStruct((64, 64), jnp.float32, sharding=NamedSharding(mesh, _spec(source, names)))
        for _ in range(source.choice((2, 3)))
    )
    steps = [source.choice(_STEPS) for _ in range(source.randint(2, 5))]
    constraints = [_spec(source, names) if source.random() < 0.4 else None for _ in steps]

    def forward(*arrays: jax.Array) -> jax.Array:
        value = arrays[0]
        for number, (step, spec) in enumerate(zip(steps, constraints, strict=True)):
            value = step(value, arrays[1 + number % (len(arrays) - 1)])
            if spec is not None:
                value = jax.lax.with_sharding_constraint(value, NamedSharding(mesh, spec))
        return value

    if source.random() < 0.4:
        return jax.grad(lambda *arrays: jnp.mean(forward(*arrays) ** 2), argnums=source.choice((0, 1))), arguments
    return forward, arguments


def _spec(source: random.Random, names: tuple[str, ...]) -> PartitionSpec:
    left = [name for name in names if source.random() < 0.8]
    source.shuffle(left)
    rows = left[: source.randint(0, len(left))]
    columns = left[len(rows) :]
    return PartitionSpec(*(tuple(each) or None for each in (rows, columns)))


def _loop(x: jax.Array, y: jax.Array) -> jax.Array:
    found: jax.Array = jax.lax.fori_loop(0, 3, lambda _, carry: jnp.tanh(carry @ y), x)
    return found


def _scan(x: jax.Array, y: jax.Array) -> jax.Array:
    carry, rows = jax.lax.scan(lambda carry, row: (carry + row, jnp.sin(carry)), jnp.zeros(64), x)
    return rows @ y + carry


def _cond(x: jax.Array, y: jax.Array) -> jax.Array:
    found: jax.Array = jax.lax.cond(x[0, 0] > 0, lambda a: jnp.sin(a @ y), lambda a: jnp.cos(a) * 2, x)
    return found


_STEPS: tuple[Callable[[jax.Array, jax.Array], jax.Array], ...] = (
    lambda x, y: x @ y,
    lambda x, y: jnp.tanh(x @ y),
    lambda x, y: jax.nn.softmax(x, axis=-1) + y,
    lambda x, y: x.T @ y,
    lambda x, y: (x + y) * 2.0,
    lambda x, y: x - x.mean(0) + y.sum(1)[:, None],
    lambda x, y: jnp.cumsum(x, 0) * y,
    lambda x, y: jnp.sort(x, 1) + y.T,
    lambda x, y: jnp.concatenate([x[:32], y[32:]], 0),
    lambda x, y: jnp.einsum("abc,dc->abd", x.reshape(8, 8, 64), y).reshape(64, 64),
    lambda x, y: x[jnp.argsort(y[:, 0])],
    lambda x, y: jnp.fft.ifft(jnp.fft.fft(x, axis=1), axis=1).real + y,
    lambda x, y: jnp.where(x > y, jnp.roll(x, 3, 0), y[::-1]),
    _loop,
    _scan,
    _cond,
)
