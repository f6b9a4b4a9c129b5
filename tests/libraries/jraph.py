"""Jraph: graphs as named tuples, message passing."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import jraph

from tests.libraries.program import Program

GRAPH = jraph.GraphsTuple(
    nodes=jnp.arange(8.0).reshape(4, 2),
    edges=jnp.ones((5, 1)),
    senders=jnp.array([0, 1, 2, 3, 0]),
    receivers=jnp.array([1, 2, 3, 0, 2]),
    globals=jnp.zeros((1, 1)),
    n_node=jnp.array([4]),
    n_edge=jnp.array([5]),
)
WEIGHT = jnp.linspace(-1.0, 1.0, 4).reshape(2, 2)


def convolution(weight: jax.Array, graph: jraph.GraphsTuple) -> jraph.GraphsTuple:
    layer = jraph.GraphConvolution(lambda nodes: jax.nn.relu(nodes @ weight), add_self_edges=True)
    return layer(graph)


@jax.jit
def network(weight: jax.Array, graph: jraph.GraphsTuple) -> jax.Array:
    net = jraph.GraphNetwork(
        update_edge_fn=lambda edges, sent, received, _: edges + jnp.sum(sent * received, axis=-1, keepdims=True),
        update_node_fn=lambda nodes, sent, received, _: jnp.tanh(nodes @ weight + received),
    )
    return jnp.sum(net(graph).nodes)


PROGRAMS = (
    Program("a convolution", convolution, (WEIGHT, GRAPH), line="lambda nodes: jax.nn.relu(nodes @ weight)"),
    Program(
        "the gradient of a network",
        jax.grad(network),
        (WEIGHT, GRAPH),
        line="jnp.tanh(nodes @ weight + received)",
    ),
)
