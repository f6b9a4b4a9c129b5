"""JAX itself, as libraries and users use it: wrappers, methods, callbacks, keys, meshes."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback
from jax.sharding import NamedSharding, PartitionSpec

from tests.libraries.program import Program

X = jnp.linspace(0.0, 1.0, 8)
BATCH = {"x": X.reshape(4, 2), "y": X[:4]}
SEEN: list[float] = []


class Model:
    """Holds arrays, so it is not hashable by value; its method is jitted with `self` static."""

    def __init__(self) -> None:
        self.weight = jnp.arange(4.0).reshape(2, 2)

    @functools.partial(jax.jit, static_argnums=0)
    def apply(self, x: jax.Array) -> jax.Array:
        return jnp.arctan(x @ self.weight)

    def __call__(self, x: jax.Array, power: int = 2) -> jax.Array:
        return jnp.sum((x @ self.weight) ** power)


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Config:
    """A registered dataclass with a static field that is a function."""

    scale: jax.Array
    activation: Any = dataclasses.field(metadata={"static": True})


def configured(config: Config, x: jax.Array) -> jax.Array:
    return config.activation(x * config.scale)


@jax.custom_vjp
def clipped(x: jax.Array) -> jax.Array:
    return jnp.log1p(x)


def _forward(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    return clipped(x), x


def _backward(x: jax.Array, g: jax.Array) -> tuple[jax.Array]:
    return (jnp.clip(g / (1.0 + x), -0.5, 0.5),)


clipped.defvjp(_forward, _backward)


def total(x: jax.Array) -> jax.Array:
    return clipped(x).sum()


@functools.partial(jax.checkpoint, policy=jax.checkpoint_policies.dots_saveable)
def layer(w: jax.Array, x: jax.Array) -> jax.Array:
    return jnp.tanh(x @ w)


def checkpointed(ws: list[jax.Array], x: jax.Array) -> jax.Array:
    return jnp.sum(functools.reduce(lambda x, w: layer(w, x), ws, x) ** 2)


def host(x: jax.Array) -> jax.Array:
    doubled = jax.pure_callback(lambda v: np.asarray(v) * 2, jax.ShapeDtypeStruct(x.shape, x.dtype), x)
    return jnp.floor(doubled * 10.0)


def recorded(x: jax.Array) -> jax.Array:
    io_callback(lambda v: SEEN.append(float(v)), None, x.sum(), ordered=True)
    jax.debug.print("sum {}", x.sum())
    return jnp.ceil(x * 10.0)


def keys(key: jax.Array) -> tuple[jax.Array, jax.Array]:
    key, used = jax.random.split(key)
    return key, jax.random.permutation(used, 8)


def keyworded(*, batch: dict, params: jax.Array, reduce: str = "mean") -> jax.Array:
    return getattr(jnp, reduce)((batch["x"] @ params - batch["y"]) ** 2)


def mesh_step(w: jax.Array, x: jax.Array) -> jax.Array:
    return jax.lax.with_sharding_constraint(jnp.sin(x @ w), NamedSharding(MESH, PartitionSpec("data", "model")))


MESH = jax.make_mesh((4, 2), ("data", "model"), axis_types=(jax.sharding.AxisType.Auto,) * 2)


@jax.jit
@functools.partial(jax.shard_map, mesh=MESH, in_specs=PartitionSpec("data", "model"), out_specs=PartitionSpec("data"))
def normalized(x: jax.Array) -> jax.Array:
    return jax.lax.psum(jnp.abs(x).sum(axis=1), "model")


def placed(array: jax.Array, *spec: str | None) -> jax.Array:
    return jax.device_put(array, NamedSharding(MESH, PartitionSpec(*spec)))


MODEL = Model()
PROGRAMS = (
    Program(
        "a jitted method, self static",
        MODEL.apply,
        (X.reshape(4, 2),),
        line="return jnp.arctan(x @ self.weight)",
        bare=lambda: Model.apply.lower(MODEL, X.reshape(4, 2)),
    ),
    Program("a bound method", MODEL.__call__, (X[:2],), line="return jnp.sum((x @ self.weight) ** power)"),
    Program(
        "a callable object, static argument",
        MODEL,
        (X[:2], 3),
        jit={"static_argnums": 1},
        line="return jnp.sum((x @ self.weight) ** power)",
    ),
    Program(
        "a registered dataclass with a static function",
        configured,
        (Config(jnp.array(2.0), jax.nn.softplus), X),
        line="return config.activation(x * config.scale)",
    ),
    # JAX gives what a backward rule does the place of the call.
    Program("custom_vjp", jax.grad(total), (X,), line="return clipped(x).sum()"),
    Program("checkpoint", jax.jit(jax.grad(checkpointed)), ([jnp.eye(8)] * 2, X), line="return jnp.tanh(x @ w)"),
    Program("pure_callback", host, (X,), line="return jnp.floor(doubled * 10.0)"),
    Program("io_callback and debug.print", jax.jit(recorded), (X,), line="return jnp.ceil(x * 10.0)"),
    Program("typed keys", keys, (jax.random.key(5),), line="return key, jax.random.permutation(used, 8)"),
    Program(
        "typed keys of another kind",
        keys,
        (jax.random.key(5, impl="rbg"),),
        line="return key, jax.random.permutation(used, 8)",
    ),
    Program(
        "keywords only, one static",
        keyworded,
        kwargs={"batch": BATCH, "params": jnp.ones(2), "reduce": "sum"},
        jit={"static_argnames": "reduce"},
        line='return getattr(jnp, reduce)((batch["x"] @ params',
    ),
    Program(
        "a partial of a jitted function",
        functools.partial(jax.jit(keyworded, static_argnames="reduce"), params=jnp.ones(2), reduce="max"),
        kwargs={"batch": BATCH},
        line='return getattr(jnp, reduce)((batch["x"] @ params',
        bare=lambda: jax.jit(keyworded, static_argnames="reduce").lower(batch=BATCH, params=jnp.ones(2), reduce="max"),
    ),
    Program(
        "arguments sharded over a mesh, a donated one",
        mesh_step,
        (placed(jnp.eye(8), None, "model"), placed(jnp.ones((8, 8)), "data", None)),
        jit={"donate_argnums": 1},
        line="return jax.lax.with_sharding_constraint(jnp.sin(x @ w)",
    ),
    Program(
        "shard_map over a mesh",
        normalized,
        (jnp.arange(32.0).reshape(8, 4),),
        line='return jax.lax.psum(jnp.abs(x).sum(axis=1), "model")',
    ),
)
