"""Quax: array-like objects, interpreted by a trace of their own."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import quax
from quax.examples import lora

from tests.libraries.program import Program

LINEAR = eqx.nn.Linear(4, 3, key=jax.random.key(0))
LORA = lora.loraify(LINEAR, rank=2, key=jax.random.key(1))


def adapted(linear: eqx.nn.Linear, x: jax.Array) -> jax.Array:
    return jax.nn.softmax(quax.quaxify(linear)(x))


PROGRAMS = (
    Program(
        "a linear layer with low-rank arrays",
        eqx.filter_jit(adapted),
        (LORA, jnp.ones(4)),
        line="return jax.nn.softmax(quax.quaxify(linear)(x))",
    ),
)
