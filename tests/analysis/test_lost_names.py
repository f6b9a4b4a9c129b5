"""Collectives without a name of their own: each is accounted for, with a line where one can be found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import inspector
from inspector.analysis.collectives.collectives import Collectives, collectives
from inspector.analysis.cost.roofline import roofline
from inspector.analysis.sharding.reshardings import Resharding, resharding
from inspector.compilation.cost import InstructionCost
from inspector.errors import Unavailable
from inspector.hlo.devices.mesh import Mesh
from inspector.hlo.module import Module
from tests.absent import needs_gpu, needs_tpu
from tests.modules import module_of

AXES = AbstractMesh((2, 4), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
RING = AbstractMesh((8,), ("x",), axis_types=(AxisType.Auto,))
TARGETS = [
    "cpu:8",
    pytest.param("tpu:v5e:2x4", marks=needs_tpu),
    pytest.param("gpu:h100:8", marks=needs_gpu),
]


def split(shape: tuple[int, ...], *spec: Any, mesh: AbstractMesh = AXES) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(mesh, P(*spec)))


def constrain(value: jax.Array, *spec: Any, mesh: AbstractMesh = AXES) -> jax.Array:
    return jax.lax.with_sharding_constraint(value, NamedSharding(mesh, P(*spec)))


def train(w1: jax.Array, w2: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """On GPUs XLA makes reduce-scatters of its gradients and drops their names."""

    def loss(w1: jax.Array, w2: jax.Array) -> jax.Array:
        return ((constrain(jnp.tanh(x @ w1), "data", "model") @ w2) ** 2).mean()

    g1, g2 = jax.grad(loss, (0, 1))(w1, w2)
    return w1 - 0.1 * g1, w2 - 0.1 * g2


WEIGHTS = split((256, 512), "data", "model"), split((512, 256), "model", "data"), split((128, 256), "data", None)


def inner(x: jax.Array) -> jax.Array:
    """A collective of the user's beside one of the partitioner's."""
    summed = jax.shard_map(lambda v: jax.lax.psum(v, "data"), mesh=AXES, in_specs=P("data", None), out_specs=P())(x)
    return constrain(jnp.sin(summed @ summed.T), "model", None).sum()


def turn(x: jax.Array) -> jax.Array:
    return constrain(jnp.sin(x), None, "x", mesh=RING) * 2


def order(x: jax.Array) -> jax.Array:
    return jnp.sort(x, axis=1)


def largest(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    values, places = jax.lax.top_k(x, 4)
    return values, places


PROGRAMS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (train, WEIGHTS),
    (inner, (split((64, 64), "data", None),)),
    (turn, (split((64, 128), "x", None, mesh=RING),)),
    (order, (split((64, 128), "data", "model"),)),
    (largest, (split((64, 128), "data", "model"),)),
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("fun", "args"), PROGRAMS, ids=[fun.__name__ for fun, _ in PROGRAMS])
def test_every_collective_is_a_resharding_or_has_a_reason(fun: Any, args: Any, target: str) -> None:
    compiled = inspector.lower(fun, *args, target=target).compile(target=target, products=("passes",))
    found, listed = compiled.collectives(), compiled.reshardings()
    changed = {each.name: each for each in listed}
    assert sorted([*changed, *listed.left_out]) == sorted(one.name for one in found)
    own = {one.name for one in found if one.inserted_by == "user"}
    assert set(listed.left_out) == own
    assert bool(own) == (fun is inner)
    assert set(listed.left_out.values()) <= {"the user's own collective"}
    assert all(each.needed_by and each.frames for each in changed.values()), (changed, target)
    points = [p for p in compiled.roofline().points if p.link_bytes]
    assert points
    assert all(point.line is not None and point.line.file == __file__ for point in points)
    rows = listed.table()
    assert rows["source_line"].notna().all()
    assert rows["inserted_by"].tolist() == ["partitioner"] * len(rows)


@pytest.mark.parametrize("target", TARGETS)
def test_an_all_to_all_is_needed_by_the_transpose(target: str) -> None:
    given = split((64, 128), "x", None, mesh=RING)
    compiled = inspector.lower(turn, given, target=target).compile(target=target, products=("passes",))
    (moved,) = compiled.reshardings()
    assert moved.kind == "all-to-all"
    said = " ".join(map(str, moved.needed_by))
    assert "f32[64,128] (x, -)" in said
    assert "f32[64,128] (-, x)" in said


TEXT = """HloModule lost, num_partitions=2
  product {
    l = f32[8]{0} parameter(0)
    r = f32[8]{0} parameter(1)
    ROOT m = f32[8]{0} multiply(l, r), metadata={op_name="jit(f)/NAME" source_file="f.py" source_line=3}
  }
  ENTRY main {
    a = f32[4]{0} parameter(0)
    b = f32[8]{0} parameter(1)
    gathered = f32[8]{0} all-gather(a), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true, dimensions={0}
    made = f32[8]{0} fusion(gathered, b), kind=kLoop, calls=product
    c = f32[2]{0} parameter(2)
    alone = f32[4]{0} all-gather(c), channel_id=2, replica_groups={{0,1}}, use_global_device_ids=true, dimensions={0}
    ROOT t = (f32[8]{0}, f32[4]{0}) tuple(made, alone)
  }
"""


def of_text(name: str) -> tuple[Module, Collectives]:
    module = module_of(TEXT.replace("NAME", name))
    return module, collectives(module, Mesh(("x",), (2,), "partition"), num_partitions=2)


def test_a_lost_name_is_that_of_the_instruction_it_is_for() -> None:
    module, found = of_text("mul")
    changed = resharding(found["gathered"])
    assert isinstance(changed, Resharding)
    assert changed.inserted_by == "partitioner"
    assert (changed.frames[0].file, changed.frames[0].line) == ("f.py", 3)
    assert (found["gathered"].source_from, found["gathered"].origin.op_name) == ("its user m", "jit(f)/mul")
    costs = {each.name: InstructionCost(0.0, 0.0, 0.0, 0.0) for each in module.instructions()}
    points = {point.name: point for point in roofline(module, costs, Unavailable("no peak"), found).points}
    assert points["gathered"].line == changed.frames[0]
    assert points["alone"].line is None


def test_instructions_without_any_origin_are_listed_as_unknown() -> None:
    _, found = of_text("mul")
    changed = resharding(found["alone"])
    assert isinstance(changed, Resharding)
    assert changed.inserted_by == Unavailable("the instruction has no op_name, so its origin is unknown")
    assert changed.frames == ()


def test_next_to_collectives_of_the_user_the_author_is_unknown() -> None:
    _, found = of_text("psum")
    changed = resharding(found["gathered"])
    assert isinstance(changed, Resharding)
    assert isinstance(changed.inserted_by, Unavailable)
    assert "calls collectives in a shard_map" in changed.inserted_by.reason
    assert changed.frames[0].line == 3


@pytest.mark.parametrize("name", ["shard_map/mul", "jit(shmap_body)/mul"])
def test_a_collective_for_an_operation_in_a_shard_map_is_no_resharding(name: str) -> None:
    _, found = of_text(name)
    assert isinstance(found["gathered"].inserted_by, Unavailable)
    assert resharding(found["gathered"]) == Unavailable(
        "it combines arrays in a shard_map, where the user's function calls the collectives"
    )


@needs_tpu
def test_a_reduce_scatter_that_a_tpu_compiler_decomposes_is_no_resharding() -> None:
    mesh = AbstractMesh((8,), ("x",), axis_types=(AxisType.Auto,))
    scattered = jax.shard_map(
        lambda x: jax.lax.psum_scatter(jnp.sin(x) * 3, "x", tiled=True),
        mesh=mesh, in_specs=P(None, "x"), out_specs=P("x", None), check_vma=False,
    )  # fmt: skip
    argument = jax.ShapeDtypeStruct((16, 8), jnp.float32, sharding=NamedSharding(mesh, P(None, "x")))
    target = "tpu:v5e:2x4"
    compiled = inspector.lower(scattered, argument, target=target).compile(target=target)
    (collective,) = compiled.collectives()
    assert collective.opcode == "all-reduce", "the case is another one with this libtpu"
    assert isinstance(collective.inserted_by, Unavailable)
    assert len(compiled.reshardings()) == 0
