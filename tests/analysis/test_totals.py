"""`collectives().totals()`: what one execution exchanges is the same whether a loop or its unrolled text says it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pandas as pd
import pytest
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxlib import _hlo

import inspector
from inspector.analysis.collectives.collectives import collectives
from inspector.hlo.devices.mesh import Mesh
from inspector.hlo.module import Module
from tests.absent import needs_gpu, needs_tpu

LAYERS, ROWS, WIDTH, HIDDEN, F32 = 4, 64, 256, 512, 4
SIZES = {"data": 2, "model": 4}
MESH = AbstractMesh(tuple(SIZES.values()), tuple(SIZES), axis_types=(AxisType.Auto,) * 2)

# What one layer sums: its activations over model, its own part of its weights' gradients over data.
ACTIVATIONS = ROWS // SIZES["data"] * WIDTH * F32
GRADIENTS = 2 * WIDTH * HIDDEN // SIZES["model"] * F32

TARGETS = [
    "cpu:8",
    pytest.param("tpu:v5e:2x4", marks=[needs_tpu, pytest.mark.slow]),
    pytest.param("gpu:h100:8", marks=[needs_gpu, pytest.mark.slow]),
]


def sharding(*spec: str | None) -> NamedSharding:
    return NamedSharding(MESH, P(*spec))


def array(*shape: int, spec: tuple[str | None, ...]) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=sharding(*spec))


def layer(x: jax.Array, weights: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
    wide = jax.lax.with_sharding_constraint(x @ weights[0], sharding("data", "model"))
    return jax.lax.with_sharding_constraint(jax.nn.relu(wide) @ weights[1] + x, sharding("data", None)), None


def scanned(weights: tuple[jax.Array, jax.Array], x: jax.Array) -> jax.Array:
    return jnp.sum(jax.lax.scan(layer, x, weights)[0] ** 2)


def unrolled(weights: tuple[jax.Array, jax.Array], x: jax.Array) -> jax.Array:
    for i in range(LAYERS):
        x, _ = layer(x, (weights[0][i], weights[1][i]))
    return jnp.sum(x**2)


def totals(loss: object, argnums: tuple[int, ...], target: str) -> pd.DataFrame:
    weights = (
        array(LAYERS, WIDTH, HIDDEN, spec=(None, None, "model")),
        array(LAYERS, HIDDEN, WIDTH, spec=(None, "model", None)),
    )
    step = jax.jit(jax.grad(loss, argnums=argnums))  # type: ignore[arg-type]
    lowered = inspector.lower(step, weights, array(ROWS, WIDTH, spec=("data", None)), target=target)
    return lowered.compile(target=target).collectives().totals()


def bytes_by(table: pd.DataFrame) -> dict[tuple[str, str], int]:
    assert list(table["operand_bytes"]) == sorted(table["operand_bytes"], reverse=True)
    assert set(table["unknown"]) <= {""}
    return {(row.axes, row.opcode): row.operand_bytes for row in table.itertuples()}


@pytest.mark.parametrize("target", TARGETS)
def test_scanned_and_unrolled_exchange_the_same(target: str) -> None:
    expected = {
        ("data", "all-reduce"): LAYERS * GRADIENTS,
        ("model", "all-reduce"): 2 * LAYERS * ACTIVATIONS,  # forward and backward
    }
    loop, text = totals(scanned, (0, 1), target), totals(unrolled, (0, 1), target)
    assert bytes_by(loop) == bytes_by(text) == expected
    # The instructions are those of one layer, each run as often as there are layers.
    loop = loop.set_index("axes")
    assert loop.loc["model", "collectives"] == 2
    assert loop.loc["model", "executions"] == 2 * LAYERS
    assert text.set_index("axes").loc["model", "collectives"] == 2 * LAYERS


@pytest.mark.parametrize("target", TARGETS[:1])
def test_a_loop_includes_the_unused_work_of_its_last_iteration(target: str) -> None:
    """Without the gradient of the input, the unrolled first layer needs no sum of it; a loop's body always has one."""
    loop, text = (bytes_by(totals(loss, (0,), target)) for loss in (scanned, unrolled))
    assert loop.pop(("model", "all-reduce")) - text.pop(("model", "all-reduce")) == ACTIVATIONS
    assert loop == text


HLO = """HloModule m
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
body {
  x = f32[8] parameter(0)
  ROOT inner = f32[8] all-reduce(x), replica_groups={{0,1},{2,3}}, to_apply=add
}
more { y = f32[8] parameter(0)  ROOT p = pred[] custom-call(y), custom_call_target="more" }
ENTRY main {
  x = f32[8] parameter(0)
  outer = f32[8] all-reduce(x), replica_groups={{0,1},{2,3}}, to_apply=add
  gathered = f32[32] all-gather(x), replica_groups={{0,1,2,3}}, dimensions={0}
  ROOT loop = f32[8] while(outer), condition=more, body=body
}"""


def test_an_unknown_number_of_iterations_is_reported_and_known_ones_count() -> None:
    module = Module.from_proto(_hlo.hlo_module_from_text(HLO).as_serialized_hlo_module_proto())
    table = collectives(module, Mesh(("i", "j"), (2, 2), "replica"), num_replicas=4).totals()
    table = table.set_index(["axes", "opcode"])
    reduces, gathers = table.loc["j", "all-reduce"], table.loc["i, j", "all-gather"]
    assert (reduces["collectives"], reduces["executions"], reduces["operand_bytes"]) == (2, 1, 32)
    for column in ("executions", "operand_bytes", "result_bytes"):
        assert column in reduces["unknown"]
    assert "unknown number of times" in reduces["unknown"]
    assert (gathers["executions"], gathers["operand_bytes"], gathers["result_bytes"]) == (1, 32, 128)
    assert gathers["unknown"] == ""
