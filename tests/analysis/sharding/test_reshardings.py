"""Reshardings by the partitioner: read from collectives and XLA's warnings, against the requested shardings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import inspector
from inspector.analysis.collectives.collectives import collectives
from inspector.analysis.sharding.array_sharding import Sharding
from inspector.analysis.sharding.program_shardings import ArraySharding, Shardings
from inspector.analysis.sharding.reshardings import FULL, Resharding, resharding
from inspector.analysis.sharding.whole_arrays import WholeArrays
from inspector.errors import Unavailable
from inspector.hlo.devices.mesh import Mesh
from tests.absent import needs_gpu, needs_tpu
from tests.modules import module_of

AXES = AbstractMesh((2, 4), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
CUBE = AbstractMesh((2, 2, 2), ("a", "b", "c"), axis_types=(AxisType.Auto,) * 3)


def split(shape: tuple[int, ...], *spec: Any, mesh: AbstractMesh = AXES) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(mesh, P(*spec)))


def found(fun: Callable[..., Any], *args: Any, **jit: Any) -> dict[str, Resharding]:
    compiled = inspector.lower(jax.jit(fun, **jit), *args).compile(target="cpu:8")
    return {each.kind: each for each in compiled.reshardings()}


def test_a_factor_split_along_a_dimension_of_only_one_operand() -> None:
    told = found(lambda x, w: x @ w, split((64, 128), "data", "model"), split((128, 256), None, "model"))
    gather = told["all-gather"]
    assert (gather.had, gather.needed) == ("dimension 1 split over model", "dimension 1 whole")
    assert gather.axes == ("model",)
    assert gather.operand_bytes == 64 // 2 * 128 // 4 * 4
    assert gather.frames[0].file == __file__
    assert "split both factors alike along it" in gather.advice


def test_sums_over_a_split_dimension() -> None:
    factors = split((64, 128), "data", "model"), split((128, 32), "model", None)
    reduce = found(lambda x, w: x @ w, *factors)["all-reduce"]
    assert (reduce.had, reduce.needed) == ("partial sums over model", "summed, whole on each of these devices")
    assert "halves the bytes sent" in reduce.advice


def test_combined_collectives_are_described_as_combined() -> None:
    largest = found(lambda x: x.max(axis=1), split((64, 64), None, "model"))["all-reduce"]
    assert largest.had == "partial results (maximum) over model"
    assert "combined" in largest.needed
    assert "added" not in largest.needed + largest.advice


def test_an_argument_is_named_with_the_split_of_the_whole() -> None:
    gather = found(lambda x, w: jnp.tanh(x @ w), split((64, 128), "data", "model"), split((128, 256), None, "model"))[
        "all-gather"
    ]
    assert gather.array is not None
    assert (gather.array.names, gather.array.before, gather.array.after) == (
        ("argument x",), "(data, model)", "(data, -)",
    )  # fmt: skip


@pytest.mark.parametrize(
    "target",
    ["cpu:8", pytest.param("tpu:v5e:2x4", marks=needs_tpu), pytest.param("gpu:h100:8", marks=needs_gpu)],
)
def test_gathering_one_of_two_axes_keeps_the_other(target: str) -> None:
    """A GPU's compiler turns the weights first, and gathers along another dimension than the user's."""
    jitted = jax.jit(lambda x, w: jnp.tanh(x @ w), out_shardings=NamedSharding(AXES, P("data", "model")))
    given = split((256, 1024), "data"), split((1024, 2048), None, ("model", "data"))
    compiled = inspector.lower(jitted, *given, target=target).compile(target=target)
    (array,) = [each.array for each in compiled.reshardings() if each.kind == "all-gather"]
    assert array is not None
    assert (array.names, array.before, array.after) == (("argument w",), "(-, model+data)", "(-, model)")


def test_an_intermediate_value_is_not_an_argument() -> None:
    def inner(x: Any, w: Any) -> Any:
        return jnp.tanh(jnp.sin(x) @ w).sum()

    told = found(inner, split((64, 128), "data", "model"), split((128, 256), None, "model"))
    assert told["all-gather"].array is None
    reduce = found(lambda x: x.sum(axis=1), split((64, 128), "data", "model"))["all-reduce"]
    assert reduce.array is not None
    assert (reduce.array.names, reduce.array.before, reduce.array.after) == (("result",), "", "(data)")


@pytest.mark.parametrize(
    ("value", "array"),
    [
        ("copy = f32[4,8]{0,1} copy(p)", ("(a, -)", "(-, -)")),
        ("turned = f32[8,4]{1,0} transpose(p), dimensions={1,0}", ("(a, -)", "(-, -)")),
        ("turned = f32[8,4]{0,1} bitcast(p)", ("(a, -)", "(-, -)")),
        ("other = f32[4,8]{1,0} negate(p)", None),
        ("other = f32[8,4]{1,0} bitcast(p)", None),  # the same bytes at other indices
        ("other = f32[4,8]{1,0} reverse(p), dimensions={0}", None),
    ],
)
def test_only_instructions_with_the_elements_of_an_argument_are_the_argument(
    value: str, array: tuple[str, str] | None
) -> None:
    name, is_turned = value.split()[0], "f32[8,4]" in value
    whole, dimension = ("f32[8,16]", 1) if is_turned else ("f32[16,8]", 0)
    module = module_of(f"""HloModule m, num_partitions=4
        ENTRY e {{
          p = f32[4,8]{{1,0}} parameter(0)
          {value}
          g = {whole}{{1,0}} all-gather({name}), channel_id=1, replica_groups={{{{0,1,2,3}}}}, dimensions={{{dimension}}},
            use_global_device_ids=true, frontend_attributes={{is_spmd_generated="true"}}
          ROOT r = {whole}{{1,0}} negate(g)
        }}""")
    mesh = Mesh(("a",), (4,), "partition")
    argument = ArraySharding(
        "argument", "x", "float32", (16, 8), Sharding((16, 8), mesh, (("a",),)), "", "", 128, number=0
    )
    (only,) = collectives(module, mesh, 1, 4)
    found = WholeArrays(module, Shardings((argument,))).of(only)
    assert (None if found is None else (found.before, found.after)) == array


HLO = """HloModule m, num_partitions=4
ENTRY e {
  p = f32[8,4]{1,0} parameter(0)
  ROOT r = f32[8,4]{1,0} %s, frontend_attributes={is_spmd_generated="true"}
}"""


@pytest.mark.parametrize(
    ("operation", "had", "needed"),
    [
        (
            "all-to-all(p), channel_id=1, replica_groups={{0,1,2,3}}, dimensions={1}",
            "one dimension split",
            "another split",
        ),
        ("collective-permute(p), channel_id=1, source_target_pairs={{0,1}}", "parts on other devices", "parts where"),
    ],
)
def test_without_axes_the_groups_are_named_and_no_reason_is_taken_for_one(
    operation: str, had: str, needed: str
) -> None:
    (only,) = collectives(module_of(HLO % operation), None, 1, 4)
    told = resharding(only)
    assert not isinstance(told, Unavailable)
    assert told.had.startswith(had)
    assert told.needed.startswith(needed)
    assert "its groups of devices" in told.had
    assert "mesh" not in told.had + told.needed + told.advice


def test_a_split_that_moves_to_another_dimension() -> None:
    out = NamedSharding(AXES, P(None, "model"))
    told = found(lambda x: x + 1, split((64, 64), "model", None), out_shardings=out)
    way = told["all-to-all"]
    assert (way.had, way.needed) == ("one dimension split over model", "another split over it")
    assert way.axes == ("model",)
    assert "Split the same dimension on both sides" in way.advice


def test_collectives_of_the_user_are_not_reshardings() -> None:
    lowered = inspector.lower(lambda x: jax.lax.psum(x, "i"), jnp.ones(4), axis_env=[("i", 2)])
    (asked,) = lowered.collectives()
    unknown = resharding(asked)
    assert isinstance(unknown, Unavailable)
    assert unknown.reason == "the user's own collective"
    assert len(lowered.compile(target="cpu:2").reshardings()) == 0


def copied(x: Any) -> Any:
    y = jax.lax.with_sharding_constraint(jnp.sin(x), NamedSharding(CUBE, P("a", "b", "c")))
    return jax.lax.with_sharding_constraint(jnp.cos(y), NamedSharding(CUBE, P(None, None, ("c", "b", "a"))))


def test_a_full_rematerialization_has_both_shardings_by_the_names_of_the_axes() -> None:
    whole = found(copied, jax.ShapeDtypeStruct((16, 16, 16), jnp.float32))[FULL]
    assert (whole.had, whole.needed) == ("(a, b, c)", "(-, -, c+b+a)")
    assert whole.operand_bytes == 8 * 8 * 8 * 4
    assert whole.frames[0].file == __file__
    assert "sharding_constraint" in whole.name


def test_a_compile_without_captured_warnings_is_marked() -> None:
    lowered = inspector.lower(copied, jax.ShapeDtypeStruct((16, 16, 16), jnp.float32))
    told = lowered.compile(engine="inline").reshardings()
    assert "does not capture XLA's warnings" in told.unheard
    table = told.table()
    assert set(table["kind"]) == {each.kind for each in told}
    assert table["source_line"].notna().all()
