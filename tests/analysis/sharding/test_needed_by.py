"""For which instruction the partitioner inserted a collective: programs whose answer is known, and JAX's own word for values."""

from __future__ import annotations

import dataclasses
import functools
import random
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import inspector
from inspector.analysis.sharding.array_sharding import Sharding
from inspector.analysis.sharding.needed_by import SplitInstruction, SplitInstructions
from inspector.analysis.sharding.program_shardings import value_sharding
from inspector.stages.compiled import Compiled, whole_program
from tests.absent import needs_gpu, needs_tpu

AXES = AbstractMesh((2, 4), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
TARGETS = ["cpu:8", pytest.param("tpu:v5e:2x4", marks=needs_tpu), pytest.param("gpu:h100:8", marks=needs_gpu)]


def split(shape: tuple[int, ...], *spec: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(AXES, P(*spec)))


def compiled_with_passes(fun: Callable[..., Any], *args: Any, target: str = "cpu:8") -> Compiled:
    return inspector.lower(fun, *args, target=target).compile(target=target, products=("passes",))


def two_products(x: Any, w1: Any, w2: Any) -> Any:
    h = jax.lax.with_sharding_constraint(jax.nn.relu(x @ w1), NamedSharding(AXES, P("data", "model")))
    return jnp.tanh(h @ w2).sum(0)


FACTORS = split((16, 32), "data"), split((32, 64), None, "model"), split((64, 32), ("data", "model"))
SECOND = SplitInstruction(
    ("dot_general.1",), "dot", ("f32[16,64] (data, model)", "f32[64,32] (data+model, -)"), "f32[16,32] (data, -)"
)


@pytest.mark.parametrize("target", TARGETS)
def test_the_needs_of_a_dot_name_both_factors(target: str) -> None:
    compiled = compiled_with_passes(two_products, *FACTORS, target=target)
    found = {
        each.kind.removesuffix("-start"): each.needed_by
        for each in compiled.reshardings()
        if "dot" in str(each.needed_by)
    }
    assert {"all-gather", "all-reduce"} <= {*found}
    for needed_by in found.values():
        assert [dataclasses.replace(each, names=SECOND.names) for each in needed_by] == [SECOND]
    assert "dot of f32[16,64] (data, model), f32[64,32] (data+model, -) gives" in str(needed_by[0])


def test_needs_with_the_gspmd_partitioner() -> None:
    before = jax.config.jax_use_shardy_partitioner
    jax.config.update("jax_use_shardy_partitioner", False)
    try:
        found = compiled_with_passes(two_products, *FACTORS).reshardings()
    finally:
        jax.config.update("jax_use_shardy_partitioner", before)
    assert {each.kind for each in found if "dot of f32[16,64] (data, model), f32[64,32]" in str(each.needed_by[0])} == {
        "all-gather", "all-reduce", "collective-permute",
    }  # fmt: skip


def test_sums_at_the_end_are_of_the_reduction() -> None:
    last = compiled_with_passes(two_products, *FACTORS).reshardings()[-1]
    (reduce,) = last.needed_by
    assert (last.kind, reduce.opcode, reduce.operands, reduce.result) == (
        "all-reduce", "reduce", ("f32[16,32] (data, -)",), "f32[32] (-)",
    )  # fmt: skip
    assert "reduce of f32[16,32] (data, -) gives f32[32] (-)" in [*compiled_table(two_products)][-1]


def compiled_table(fun: Callable[..., Any]) -> list[str]:
    return compiled_with_passes(fun, *FACTORS).reshardings().table()["needed_by"].tolist()


def layers(x: Any, w: Any) -> Any:
    for _ in range(3):
        x = jnp.tanh(x @ w)
    return x


def test_layers_that_are_alike_are_one_answer_and_others_another() -> None:
    """Layers of one line and one name stack; the first layer takes an argument with another sharding."""
    given = split((16, 64), "data", "model"), split((64, 64), "data")
    for each in compiled_with_passes(layers, *given).reshardings():
        first, rest = each.needed_by
        assert (len(first.names), len(rest.names)) == (1, 2)
        assert first.operands == ("f32[16,64] (data, model)", "f32[64,64] (data, -)")
        assert rest.operands == ("f32[16,64] (data, -)", "f32[64,64] (data, -)")


def test_a_shared_sum_is_needed_by_each_instruction() -> None:
    def two(x: Any, w: Any, v: Any) -> Any:
        return jnp.tanh(x @ w), jnp.sin(x @ v)

    given = split((16, 64), "data", "model"), split((64, 32), "model"), split((64, 128), "model")
    compiled = compiled_with_passes(two, *given)
    (combined,) = compiled.collectives()
    assert len(combined.operand_shapes) == 2
    (needed_by,) = [each.needed_by for each in compiled.reshardings()]
    assert [(each.opcode, each.result) for each in needed_by] == [
        ("dot", "f32[16,32] (data, -)"), ("dot", "f32[16,128] (data, -)"),
    ]  # fmt: skip


def test_without_recorded_passes_the_needs_are_unknown() -> None:
    compiled = inspector.lower(two_products, *FACTORS).compile(target="cpu:8")
    assert whole_program(compiled) is None
    assert not any(each.needed_by for each in compiled.reshardings())
    assert all(each.kind != "value" for each in compiled.shardings())


def test_a_program_of_one_partition_has_no_partitioner() -> None:
    compiled = compiled_with_passes(lambda x: x @ x, jnp.ones((8, 8)), target="cpu")
    assert whole_program(compiled) is None
    assert len(compiled.shardings()) == 0


def test_computations_inside_a_shard_map_need_no_whole_array() -> None:
    inner = jax.shard_map(
        lambda x: jax.lax.psum(jnp.sin(x), "model"), mesh=AXES, in_specs=P("data", "model"), out_specs=P("data")
    )
    compiled = compiled_with_passes(lambda x: jnp.cos(inner(x)), split((16, 64), "data", "model"))
    whole = whole_program(compiled)
    assert whole is not None
    assert all(
        value_sharding(each, compiled.program.mesh) is None for each in whole.instructions() if each.opcode == "sine"
    )
    values = [each for each in compiled.shardings() if each.kind == "value"]
    assert all("sin" not in each.name for each in values)
    mine = next(each for each in compiled.collectives() if each.opcode == "all-reduce")
    assert not SplitInstructions(whole, compiled.program.mesh).needing(mine)


@pytest.mark.parametrize("seed", range(6))
def test_shardings_of_values_equal_those_of_jax(seed: int) -> None:
    """`jax.debug.inspect_array_sharding` has XLA's own partitioner tell the same values."""
    source = random.Random(seed)
    mesh = jax.make_mesh((2, 4), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
    specs = [P("data", "model"), P("model", "data"), P(("data", "model")), P(None, "model"), P("data"), P()]
    told: dict[str, Any] = {}

    def values(x: Any, w: Any, v: Any) -> dict[str, Any]:
        product = x @ w
        return {"dot_general": product, "sin": jnp.sin(product), "add": jnp.sin(product).T + v}

    def asked(*args: Any) -> Any:
        found = values(*args)
        for name, value in found.items():
            jax.debug.inspect_array_sharding(value, callback=functools.partial(told.__setitem__, name))
        return found["add"].sum()

    given = [
        jax.device_put(jnp.ones(shape), NamedSharding(mesh, source.choice(specs)))
        for shape in ((16, 32), (32, 64), (64, 16))
    ]
    jax.jit(asked).lower(*given).compile()
    compiled = compiled_with_passes(lambda *args: values(*args)["add"].sum(), *given)
    inside = {each.name.partition(".")[0]: each for each in compiled.shardings() if each.kind == "value"}
    for name, sharding in told.items():
        mine, shape = inside[name].sharding, inside[name].shape
        assert isinstance(mine, Sharding)
        for device, indices in sharding.devices_indices_map(shape).items():
            ranges = tuple(s.indices(n)[:2] for s, n in zip(indices, shape, strict=True))
            assert mine.part_of(device.id) == ranges, name
