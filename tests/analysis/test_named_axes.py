"""Axes of size 1, which leave no trace in groups, and groups that are no axes."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AbstractMesh, AxisType
from jax.sharding import PartitionSpec as P

import inspector
from inspector.analysis.collectives.axes import with_size_one
from inspector.errors import Unavailable
from inspector.hlo.devices.mesh import Mesh
from inspector.stages.compiled import load_compiled

SIZES = {"one": 1, "i": 4, "uno": 1, "j": 2}


def exchanged(x: jax.Array) -> jax.Array:
    x = jax.lax.psum(x, "one")
    x = jax.lax.psum(x, ("i", "uno"))
    x = jax.lax.pmax(x, "j")
    x = jax.lax.all_gather(x, ("one", "j"), tiled=True)
    return jax.lax.ppermute(x, "uno", [(0, 0)])


WRITTEN = [("one",), ("i", "uno"), ("j",), ("one", "j"), ("uno",)]


def test_axis_environment() -> None:
    lowered = inspector.lower(exchanged, jnp.ones((4,)), axis_env=SIZES)
    assert [c.axes for c in lowered.collectives()] == WRITTEN


def test_shard_map(tmp_path: Path) -> None:
    mesh = AbstractMesh(tuple(SIZES.values()), tuple(SIZES), axis_types=(AxisType.Auto,) * len(SIZES))
    mapped = jax.shard_map(exchanged, mesh=mesh, in_specs=P(("i", "j")), out_specs=P(), check_vma=False)
    lowered = inspector.lower(jax.jit(mapped), jax.ShapeDtypeStruct((8, 4), jnp.float32))
    assert [c.axes for c in lowered.collectives()] == WRITTEN
    compiled = lowered.compile(target="cpu:8")
    found = [c.axes for c in compiled.collectives()]
    assert {("i", "uno"), ("j",), ("one", "j")} <= set(found) <= set(WRITTEN)  # those with oneself may be gone
    compiled.save(tmp_path / "saved")
    assert [c.axes for c in load_compiled(tmp_path / "saved").collectives()] == found


def test_where_the_user_s_names_are_not_known() -> None:
    mesh = Mesh(("one", "i", "uno"), (1, 4, 1), "replica")
    assert with_size_one((), mesh, 1, ()) == ("one", "uno")
    assert with_size_one(("i",), mesh, 4, ()) == ("i",)
    assert with_size_one(("i",), mesh, 4, [("i",), ("i", "one")]) == ("i",)  # two on one line: which is not known
    assert with_size_one(("i",), mesh, 4, [("uno", "i")]) == ("uno", "i")


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ([[0, 3], [1, 2]], "the groups match no axes: {0,3}, {1,2} of the 4 positions on i, as with axis_index_groups"),
        ([[0, 1], [2, 3]], ("i:(2)2",)),
        ([[0], [1, 2, 3]], "the groups have different sizes, which groups over mesh axes never have"),
    ],
)
def test_groups_that_are_not_axes(groups: list[list[int]], expected: tuple[str, ...] | str) -> None:
    def summed(x: jax.Array) -> jax.Array:
        return jax.lax.psum(x, "i", axis_index_groups=groups)

    lowered = inspector.lower(summed, jnp.ones((4,)), axis_env=[("i", 4), ("j", 2)])
    (reduce,) = lowered.collectives()
    assert reduce.axes == (Unavailable(expected) if isinstance(expected, str) else expected)
    row = lowered.collectives().table().iloc[0]
    assert row["unknown"] == (f"axes: {expected}" if isinstance(expected, str) else "")
