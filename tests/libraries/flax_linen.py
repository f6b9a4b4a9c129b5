"""Flax linen: modules that are applied to a dictionary of variables."""

from __future__ import annotations

import functools
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax.training.train_state import TrainState

from tests.libraries.program import Program

KEY = jax.random.key(0)
IMAGES = jax.random.normal(jax.random.key(1), (4, 8, 8, 1))
LABELS = jnp.array([0, 1, 2, 1])


class Cnn(nn.Module):
    """A small classifier with batch normalization and dropout."""

    features: int = 4

    @nn.compact
    def __call__(self, x: jax.Array, *, train: bool = True) -> jax.Array:
        x = nn.Conv(self.features, (3, 3))(x)
        x = nn.BatchNorm(use_running_average=not train)(x)
        x = nn.max_pool(nn.relu(x), (2, 2), (2, 2)).reshape(x.shape[0], -1)
        x = nn.Dropout(0.5, deterministic=not train)(x)
        return nn.Dense(3)(x)


class Recurrent(nn.Module):
    """A lifted scan over time."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        cell = nn.scan(nn.GRUCell, variable_broadcast="params", split_rngs={"params": False}, in_axes=1, out_axes=1)(6)
        carry = jnp.zeros((x.shape[0], 6))
        _, out = cell(carry, x)
        return out.mean(axis=1)


class State(TrainState):
    """A train state with what batch normalization keeps."""

    batch_stats: Any = None


@functools.partial(jax.jit, donate_argnums=0)
def train_step(state: State, images: jax.Array, labels: jax.Array, key: jax.Array) -> tuple[State, jax.Array]:
    def loss(params: Any) -> tuple[jax.Array, Any]:
        variables = {"params": params, "batch_stats": state.batch_stats}
        logits, changed = state.apply_fn(variables, images, rngs={"dropout": key}, mutable=["batch_stats"])
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, labels)
        return losses.mean(), changed

    (value, changed), gradients = jax.value_and_grad(loss, has_aux=True)(state.params)
    return state.apply_gradients(grads=gradients, batch_stats=changed["batch_stats"]), value


def rematerialized(params: Any, x: jax.Array) -> jax.Array:
    model = nn.Sequential([nn.remat(nn.Dense)(8), nn.tanh, nn.remat(nn.Dense)(1)])
    return jnp.sum(model.apply(params, x) ** 2)


CNN = Cnn()
VARIABLES = CNN.init({"params": KEY, "dropout": KEY}, IMAGES)
STATE = State.create(
    apply_fn=CNN.apply, params=VARIABLES["params"], tx=optax.sgd(0.1, 0.9), batch_stats=VARIABLES["batch_stats"]
)
GRU = Recurrent()
SEQUENCE = jax.random.normal(KEY, (2, 5, 3))
DENSE = nn.Sequential([nn.Dense(8), nn.tanh, nn.Dense(1)]).init(KEY, IMAGES[:, 0, :, 0])

PROGRAMS = (
    Program(
        "a train step on a donated train state",
        train_step,
        (STATE, IMAGES, LABELS, jax.random.key(7)),
        line="return losses.mean(), changed",
    ),
    Program(
        "apply of a module, with a keyword",
        CNN.apply,
        (VARIABLES, IMAGES),
        {"train": False},
        jit={"static_argnames": "train"},
        line="x = nn.max_pool(nn.relu(x), (2, 2), (2, 2)).reshape(x.shape[0], -1)",
    ),
    Program(
        "init of a module",
        jax.jit(GRU.init),
        (KEY, SEQUENCE),  # all but the parameters is left out, and with it what the user wrote
    ),
    Program(
        "a lifted scan",
        functools.partial(GRU.apply, GRU.init(KEY, SEQUENCE)),
        (SEQUENCE,),
        line="return out.mean(axis=1)",
    ),
    Program(
        "the gradient of a rematerialized module",
        jax.grad(rematerialized),
        (DENSE, IMAGES[:, 0, :, 0]),
        line="return jnp.sum(model.apply(params, x) ** 2)",
    ),
)
