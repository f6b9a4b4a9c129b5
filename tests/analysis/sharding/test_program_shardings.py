"""How arrays of partitioned programs lie over their devices, against the specs that were asked for and what JAX says."""

from __future__ import annotations

import dataclasses
import math
import random
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import inspector
from inspector.analysis.sharding.program_shardings import SHARDING_COLUMNS
from inspector.errors import ParameterError, Unavailable
from inspector.lowering.lower import Lowered
from inspector.support.columns import ViewCell
from tests.absent import needs_tpu

NAMES, SIZES = ("a", "b", "c"), (2, 2, 2)
MESH = AbstractMesh(SIZES, NAMES, axis_types=(AxisType.Auto,) * 3)


def split(shape: tuple[int, ...], *spec: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(MESH, P(*spec)))


def constrained(params: dict[str, Any], x: Any, unused: Any) -> Any:
    del unused
    h = jax.lax.with_sharding_constraint(x @ params["w"], NamedSharding(MESH, P("a", ("b", "c"))))
    return jnp.tanh(h), h.sum()


def lowered(platform: str = "cpu") -> Lowered:
    params = {"w": split((32, 16), None, "c"), "unused": split((4,))}
    return inspector.lower(constrained, params, split((8, 32), ("b", "a"), None), 1.0, platform=platform)


@pytest.mark.parametrize("target", ["cpu:8", pytest.param("tpu:v5e:2x4", marks=needs_tpu)])
def test_arguments_results_and_constraints(target: str) -> None:
    program = lowered(target.partition(":")[0])
    found = program.shardings(program.compile(target=target))
    weights, x = found["params['w']"], found["x"]
    assert [each.kind for each in found] == ["argument"] * 2 + ["result"] * 2 + ["constraint"]
    assert not isinstance(weights.sharding, Unavailable)
    assert not isinstance(x.sharding, Unavailable)
    assert (weights.sharding.axes, weights.sharding.part_shape, weights.part_bytes) == (((), ("c",)), (32, 8), 1024)
    assert (x.sharding.axes, x.sharding.replicated_over) == ((("b", "a"), ()), ("c",))
    assert "'c'" in weights.asked
    inside = found[4]
    assert not isinstance(inside.sharding, Unavailable)
    assert inside.sharding.axes == (("a",), ("b", "c"))
    assert inside.frames[0].file == __file__
    assert inside.part_bytes == 8 // 2 * 16 // 4 * 4
    assert len(program.compile(target=target).shardings()) == 4
    table = found.table()
    assert table["part_bytes"].notna().all()
    assert list(table["source_line"].notna()) == [False] * 4 + [True]
    assert [*table.columns] == [
        "kind", "name", "dtype", "shape", "split", "part_shape", "part_bytes", "replicated_over", "asked", "differs",
        "source_file", "source_line", "library_line", "unknown",
    ]  # fmt: skip
    with pytest.raises(ParameterError, match="The arrays are params"):
        found["y"]


@pytest.mark.parametrize(
    ("asked", "differs"),
    [
        ("P(None, 'c')", False),
        ("PartitionSpec(None, 'c')", False),
        ("P(None, ('c',))", False),
        ("P()", True),
        ("P('a', 'c')", True),
        ("P(None, ('c', 'a'))", True),
        ("P(UNCONSTRAINED, 'c')", False),
        ("P(PartitionSpec.UNCONSTRAINED,)", True),
        ("P(None, 'c', unreduced={'a'})", False),
        ("", False),
        ("GSPMDSharding({replicated})", False),
    ],
)
def test_a_sharding_that_is_not_the_requested_one(asked: str, differs: bool) -> None:
    program = lowered()
    weights = program.shardings(program.compile(target="cpu:8"))["params['w']"]
    assert not weights.differs
    assert dataclasses.replace(weights, asked=asked).differs is differs


def test_an_axis_of_size_1_makes_no_difference() -> None:
    mesh = AbstractMesh((8, 1), ("i", "one"), axis_types=(AxisType.Auto,) * 2)
    x = jax.ShapeDtypeStruct((8, 4), jnp.float32, sharding=NamedSharding(mesh, P("i", "one")))
    found = inspector.lower(jnp.sin, x).compile(target="cpu:8").shardings()
    assert "one" in found[0].asked
    assert not found[0].differs


def test_results_are_where_jax_puts_them() -> None:
    """Random specs: each device's index ranges equal `devices_indices_map` of the outputs of a real execution."""
    chance = random.Random(1)
    mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(SIZES), NAMES)
    arrays, outs = [], []
    for _ in range(12):
        places: list[list[str]] = [[], []]
        for axis in chance.sample(NAMES, chance.randint(0, 3)):
            chance.choice(places).append(axis)
        sharding = NamedSharding(mesh, P(*(tuple(place) or None for place in places)))
        arrays.append(np.ones((16, 8), np.float32))
        outs.append(sharding)
    jitted = jax.jit(lambda *xs: [x + 1 for x in xs], out_shardings=outs)
    found = inspector.lower(jitted, *arrays).compile(target="cpu:8").shardings()
    results = [each for each in found if each.kind == "result"]
    for told, real in zip(results, jitted(*arrays), strict=True):
        assert not isinstance(told.sharding, Unavailable)
        for device, indices in real.sharding.devices_indices_map(real.shape).items():
            ranges = tuple(s.indices(n)[:2] for s, n in zip(indices, real.shape, strict=True))
            assert told.sharding.part_of(device.id) == ranges
        assert told.part_bytes == math.prod(real.addressable_shards[0].data.shape) * 4


def test_a_program_on_one_device_has_none() -> None:
    compiled = inspector.lower(jnp.sin, 1.0).compile()
    assert len(compiled.shardings()) == 0
    assert "none" in repr(compiled.shardings())


def test_devices_without_named_axes_are_marked() -> None:
    compiled = inspector.lower(jnp.sin, split((16,), "a")).compile(target="cpu:8")
    nameless = dataclasses.replace(compiled, program=dataclasses.replace(compiled.program, mesh=None))
    told = nameless.shardings()[0]
    assert isinstance(told.sharding, Unavailable)
    assert "no mesh with named axes" in told.sharding.reason
    assert told.text
    assert "no mesh" in nameless.shardings().table()["unknown"][0]
    cells = {column.name: column.cell(told) for column in SHARDING_COLUMNS.of("pane")}
    for name in ("split", "part_bytes", "replicated_over"):
        assert cells[name] == ViewCell(None, "unknown", told.sharding.reason)


def test_a_pane_shows_the_formatted_cells() -> None:
    program = lowered()
    found = program.shardings(program.compile(target="cpu:8"))
    weights, inside = SHARDING_COLUMNS.texts("pane", found["params['w']"]), SHARDING_COLUMNS.texts("pane", found[4])
    assert weights == ("params['w']", "", "(-, c)", "1 KiB", found[0].asked, "float32[32, 16]", "argument", "a, b")
    assert inside[2:5] == ("(a, b+c)", "64 B", "")
    assert inside[1].startswith(f"{__file__}:")
