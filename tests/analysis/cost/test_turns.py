"""The turns of unrolled loops, with layers of different widths: the shapes in a kernel show the layer that it belongs to."""

from __future__ import annotations

import collections
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import inspector
from inspector.analysis.cost.scope_costs import ScopeCost, scope_costs
from inspector.engines.inline import InlineEngine
from inspector.errors import Unavailable
from inspector.platforms import Peak

NONE = Unavailable("none")
ROOFS = Peak("toy", {"f32": 1e6}, 1e5, 1 << 30, NONE, NONE, "this test")
WIDTHS = [72, 88, 104, 120]
ROWS, SIZE = 24, 56
X = np.ones((ROWS, SIZE), np.float32)
LAYERS = [(np.ones((SIZE, width), np.float32), np.ones((width, SIZE), np.float32)) for width in WIDTHS]


def block(layer: Any, x: Any) -> Any:
    up, down = layer
    h = jnp.tanh(x @ up)
    y = x + h @ down
    return y - y.mean(-1, keepdims=True)


def model(layers: Any, x: Any) -> Any:
    for layer in layers:
        x = block(layer, x)
    return x @ x.T


def inline(layers: Any, x: Any) -> Any:
    head = x.T @ x
    for up, down in layers:
        h = jnp.tanh(x @ up)
        x = x + h @ down
    return x @ head


def remade(layers: Any, x: Any) -> Any:
    for layer in layers:
        x = jax.checkpoint(block)(layer, x)
    return x @ x.T


def several(x: Any, q: Any, k: Any, v: Any) -> Any:
    return x @ q + jnp.tanh(x @ k) * (x @ v)


def in_one_line(x: Any, up: Any, down: Any) -> Any:
    return jax.nn.gelu(x @ up) @ down


def twice(layers: Any, x: Any) -> Any:
    x = block(layers[0], x)
    return block(layers[1], x)


def costs_of(fun: Any, *arguments: Any) -> tuple[Any, tuple[ScopeCost, ...]]:
    lowered = inspector.lower(fun, *arguments)
    made = lowered.compile(engine=InlineEngine())
    return made, scope_costs(made.module(), lowered.line_costs(made, ROOFS), made.roofline(ROOFS))


def turns(costs: tuple[ScopeCost, ...]) -> dict[str, set[str]]:
    found = collections.defaultdict[str, set[str]](set)
    for cost in costs:
        for name in cost.path:
            if "turn" in name:
                found[name].add(cost.kernel)
    return dict(found)


def layers_of(made: Any, kernel: str) -> set[int]:
    instruction = made.module().instruction(kernel)
    texts = [str(each.shape) for each in (instruction, *instruction.operands)]
    return {WIDTHS.index(int(size)) for size in re.findall(r"\d+", " ".join(texts)) if int(size) in WIDTHS}


@pytest.mark.parametrize(
    ("fun", "name", "passes"),
    [
        (model, "block", {"forward", "backward"}),
        (inline, "inline", {"forward", "backward"}),
        (remade, "block", {"forward"}),  # the call stacks of its backward pass end at `jax.grad`
    ],
)
def test_the_turns_of_a_loop_are_the_layers_in_both_passes(fun: Any, name: str, passes: set[str]) -> None:
    made, costs = costs_of(jax.grad(lambda layers, x: (fun(layers, x) ** 2).sum()), LAYERS, X)
    found = turns(costs)
    assert list(found) == [f"{name}, turn {n + 1} of {len(WIDTHS)}" for n in range(len(WIDTHS))]
    phases = collections.defaultdict(set)
    for cost in costs:
        layers = layers_of(made, cost.kernel) if cost.kernel else set()
        if len(layers) == 1 and cost.path:
            (layer,) = layers
            assert f"turn {layer + 1} of" in cost.path[0], cost
            phases[layer].add(cost.phase)
    assert all(passes <= phases[layer] for layer in range(len(WIDTHS)))


def test_copies_of_gathered_operands_are_no_turns_of_their_own() -> None:
    mesh = AbstractMesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)

    def array(*spec: str | None) -> Any:
        return jax.ShapeDtypeStruct((256, 256), jnp.float32, sharding=NamedSharding(mesh, P(*spec)))

    def dense(weights: Any, x: Any) -> Any:
        for w in weights:
            x = jnp.tanh(x @ w)
        return (x**2).mean()

    lowered = inspector.lower(jax.grad(dense), [array("data", "model")] * 4, array("data"), target="cpu:8")
    made = lowered.compile(target="cpu:8")
    copies = [
        each for each in made.module().instructions() if "copy" in each.name and each.op_name.endswith("dot_general")
    ]
    if not copies:  # of operands that an all-gather has laid out otherwise
        pytest.skip("this XLA gathers the operands as the product reads them")
    found = turns(scope_costs(made.module(), lowered.line_costs(made, ROOFS), made.roofline(ROOFS)))
    assert sorted(found) == [f"dense, turn {n + 1} of 4" for n in range(4)]


def test_a_turn_is_in_the_scope_that_the_loop_is_in() -> None:
    def scoped(layers: Any, x: Any) -> Any:
        with jax.named_scope("encoder"):
            for layer in layers:
                with jax.named_scope("layer"):
                    x = block(layer, x)
        return x @ x.T

    _, costs = costs_of(scoped, LAYERS, X)
    assert {cost.path for cost in costs if len(cost.path) > 2} >= {
        ("encoder", "layer", f"block, turn {n + 1} of {len(WIDTHS)}") for n in range(len(WIDTHS))
    }


@pytest.mark.parametrize(
    ("fun", "arguments"),
    [
        (several, (X, *[np.ones((SIZE, SIZE), np.float32)] * 3)),
        (in_one_line, (X, *LAYERS[0])),
        (twice, (LAYERS, X)),
        (block, (LAYERS[0], X)),
    ],
)
def test_programs_without_a_loop_have_no_turns(fun: Any, arguments: Any) -> None:
    _, costs = costs_of(fun, *arguments)
    assert costs
    assert turns(costs) == {}


def test_the_costs_of_all_turns_are_those_of_the_program() -> None:
    made, costs = costs_of(model, LAYERS, X)
    assert sum(cost.amounts.flops for cost in costs) == pytest.approx(float(made.roofline(ROOFS).total.flops))
    assert turns(costs)
