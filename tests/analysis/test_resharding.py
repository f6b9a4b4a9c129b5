"""What the partitioner changes: read off collectives and XLA's warnings, against the shardings that were asked for."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import inspector
from inspector.analysis.resharding import FULL, Resharding, resharding, split_text
from inspector.errors import Unavailable
from inspector.hlo.mesh import Mesh

AXES = AbstractMesh((2, 4), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
CUBE = AbstractMesh((2, 2, 2), ("a", "b", "c"), axis_types=(AxisType.Auto,) * 3)


def split(shape: tuple[int, ...], *spec: Any, mesh: AbstractMesh = AXES) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(mesh, P(*spec)))


def found(fun: Callable[..., Any], *args: Any, **jit: Any) -> dict[str, Resharding]:
    compiled = inspector.lower(jax.jit(fun, **jit), *args).compile(target="cpu:8")
    return {each.kind: each for each in compiled.reshardings()}


def test_a_factor_that_is_split_along_what_the_other_is_not() -> None:
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
    assert (reduce.had, reduce.needed) == ("parts of sums over model", "added up, whole on each of these devices")
    assert "half as much" in reduce.advice


def test_a_split_that_moves_to_another_dimension() -> None:
    out = NamedSharding(AXES, P(None, "model"))
    told = found(lambda x: x + 1, split((64, 64), "model", None), out_shardings=out)
    way = told["all-to-all"]
    assert (way.had, way.needed) == ("one dimension split over model", "another split over it")
    assert way.axes == ("model",)
    assert "choose one for both" in way.advice


def test_what_the_user_asked_for_is_none_of_the_partitioners() -> None:
    lowered = inspector.lower(lambda x: jax.lax.psum(x, "i"), jnp.ones(4), axis_env=[("i", 2)])
    (asked,) = lowered.collectives()
    unknown = resharding(asked)
    assert isinstance(unknown, Unavailable)
    assert "user asked for this one" in unknown.reason
    assert len(lowered.compile(target="cpu:2").reshardings()) == 0


def copied(x: Any) -> Any:
    y = jax.lax.with_sharding_constraint(jnp.sin(x), NamedSharding(CUBE, P("a", "b", "c")))
    return jax.lax.with_sharding_constraint(jnp.cos(y), NamedSharding(CUBE, P(None, None, ("c", "b", "a"))))


def test_a_full_rematerialisation_has_both_shardings_by_the_names_of_the_axes() -> None:
    whole = found(copied, jax.ShapeDtypeStruct((16, 16, 16), jnp.float32))[FULL]
    assert (whole.had, whole.needed) == ("(a, b, c)", "(-, -, c+b+a)")
    assert whole.operand_bytes == 8 * 8 * 8 * 4
    assert whole.frames[0].file == __file__
    assert "sharding_constraint" in whole.name


def test_a_compile_that_does_not_hear_xla_says_so() -> None:
    lowered = inspector.lower(copied, jax.ShapeDtypeStruct((16, 16, 16), jnp.float32))
    told = lowered.compile(engine="inline").reshardings()
    assert "does not hear XLA" in told.unheard
    table = told.table()
    assert set(table["kind"]) == {each.kind for each in told}
    assert table["source_line"].notna().all()


def test_axes_of_random_shardings_are_those_that_were_asked_for() -> None:
    """Of the parameters of an optimized module, as XLA writes them."""
    chance = random.Random(0)
    specs = []
    for _ in range(60):
        axes = chance.sample(["a", "b", "c"], chance.randint(1, 3))
        places: list[list[str]] = [[], [], []]
        for axis in axes:
            chance.choice(places).append(axis)
        specs.append([tuple(place) for place in places])
    mesh = AbstractMesh((2, 4, 3), ("a", "b", "c"), axis_types=(AxisType.Auto,) * 3)
    args = [split((24, 24, 24), *(s or None for s in spec), mesh=mesh) for spec in specs]
    compiled = inspector.lower(lambda *xs: [x + 1 for x in xs], *args).compile(target="cpu:24")
    parameters = [i for i in compiled.module().entry.instructions if i.opcode == "parameter"]
    named = Mesh(("a", "b", "c"), (2, 4, 3), "partition")
    texts = {i.parameter_number: split_text(i.sharding, named) for i in parameters}
    assert [texts[n] for n in range(60)] == ["(" + ", ".join("+".join(s) or "-" for s in spec) + ")" for spec in specs]


@pytest.mark.parametrize(
    "text",
    [
        "{replicated}",
        "{maximal device=0}",
        "{devices=[4]0,1,2,3}",
        "{devices=[8]0,0,1,2,3,4,5,6}",
        "{devices=[8]0,1,2,3,4,5,7,6}",
        "",
    ],
)
def test_a_sharding_that_no_axes_give_stays_as_it_is(text: str) -> None:
    assert split_text(text, Mesh(("a", "b", "c"), (2, 2, 2), "partition")) == text
    assert split_text(text, None) == text


def test_ids_of_a_permuted_mesh_are_taken_at_their_places() -> None:
    mesh = Mesh(("a", "b"), (2, 2), "partition", (0, 2, 1, 3))
    assert split_text("{devices=[2,2]<=[4]}", mesh) == "(b, a)"
    assert split_text("{devices=[2,2]0,2,1,3}", mesh) == "(a, b)"
