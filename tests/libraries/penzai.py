"""Penzai: models as pytrees of layers, arrays with named axes."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from penzai import pz

from tests.libraries.program import Program

X = pz.nx.wrap(jnp.linspace(0.0, 1.0, 8).reshape(2, 4)).tag("batch", "in")


def attention(queries: pz.nx.NamedArray, keys: pz.nx.NamedArray) -> pz.nx.NamedArray:
    scores = pz.nx.nmap(jnp.dot)(queries.untag("in"), keys.untag("in"))
    return pz.nx.nmap(jnp.tanh)(scores)


MODEL = pz.nn.Sequential(
    [
        pz.nn.Linear.from_config("first", jax.random.key(0), {"in": 4}, {"hidden": 8}),
        pz.nn.Elementwise(jax.nn.gelu),
        pz.nn.Linear.from_config("second", jax.random.key(1), {"hidden": 8}, {"out": 2}),
    ]
)
FROZEN = pz.unbind_params(MODEL, freeze=True)


def apply(model: pz.nn.Layer, x: pz.nx.NamedArray) -> jax.Array:
    out = model(x)
    return jnp.sin(out.unwrap("batch", "out"))


def unbound(x: pz.nx.NamedArray) -> jax.Array:
    return jnp.sum(jnp.square(MODEL(x).unwrap("batch", "out")))


PROGRAMS = (
    Program("named arrays", attention, (X, X), line="return pz.nx.nmap(jnp.tanh)(scores)"),
    Program("a model that the function closes over", unbound, (X,), line="return jnp.sum(jnp.square(MODEL(x)"),
)
