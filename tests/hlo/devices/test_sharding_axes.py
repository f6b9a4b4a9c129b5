"""Axes of shardings as XLA writes them, against the specs that were asked for."""

from __future__ import annotations

import random
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import inspector
from inspector.hlo.devices.mesh import Mesh
from inspector.hlo.devices.sharding_axes import axes_in_text, axes_of, spec_text

NAMES, SIZES = ("a", "b", "c"), (2, 4, 3)


def specs(count: int) -> list[tuple[tuple[str, ...], ...]]:
    chance = random.Random(0)
    found = []
    for _ in range(count):
        places: list[list[str]] = [[], [], []]
        for axis in chance.sample(NAMES, chance.randint(0, 3)):
            chance.choice(places).append(axis)
        found.append(tuple(map(tuple, places)))
    return found


def test_axes_of_random_shardings_are_the_requested_ones() -> None:
    """Returns the shardings of the parameters of an optimized module."""
    mesh = AbstractMesh(SIZES, NAMES, axis_types=(AxisType.Auto,) * 3)
    asked = specs(80)

    def split(spec: tuple[tuple[str, ...], ...]) -> Any:
        sharding = NamedSharding(mesh, P(*(s or None for s in spec)))
        return jax.ShapeDtypeStruct((24, 24, 24), jnp.float32, sharding=sharding)

    compiled = inspector.lower(lambda *xs: [x + 1 for x in xs], *map(split, asked)).compile(target="cpu:24")
    protos = compiled.module().proto.spmd_parameters_shardings
    told = [axes_of(proto, Mesh(NAMES, SIZES, "partition"), 3) for proto in protos]
    assert told == asked


@pytest.mark.parametrize(
    "text",
    ["{replicated}", "{maximal device=0}", "{devices=[4]0,1,2,3}", "{devices=[8]0,0,1,2,3,4,5,6}", "{devices=[8]0,1,2,3,4,5,7,6}", ""],
)  # fmt: skip
def test_a_sharding_that_no_axes_give_has_none(text: str) -> None:
    assert axes_in_text(text, Mesh(NAMES, (2, 2, 2), "partition")) is None


@pytest.mark.parametrize(
    ("text", "axes"),
    [
        ("{mesh['a'=2,'b'=4,'c'=3], [{'a'}, {}, {'c', 'b'}]}", (("a",), (), ("c", "b"))),
        ("{mesh['a'=2,'b'=4,'c'=3], [{'a', ?}, {?}], replicated={'b'}}", (("a",), ())),
        ("{mesh['a'=2,'b'=4,'c'=3], []}", ()),
        ("{mesh[], []}", ()),
        ("{mesh['a'=2,'b'=4,'c'=3], device_ids=([2,12]T(1,0)), [{'a'}]}", None),
        ("{mesh['x'=2], [{}, {}]}", ((), ())),
        ("{mesh[], [{'x'}]}", None),
        ("{mesh['a'=2,'b'=4,'c'=3], device_ids=(1,0), [{'a'}]}", None),
        ("{mesh['a'=4,'b'=2,'c'=3], [{'a'}]}", None),
        ("{mesh['a'=2,'b'=4,'c'=3], [{'b':(1)2}]}", None),
        ("{mesh['a'=2,'b'=4,'c'=3], [{'a'}], unreduced={'b'}}", None),
        ("{mesh['x'=2], [{'x'}]}", None),
    ],
)
def test_shardings_by_names(text: str, axes: Any) -> None:
    assert axes_in_text(text, Mesh(NAMES, SIZES, "partition")) == axes


def test_ids_of_a_permuted_mesh_are_taken_at_their_places() -> None:
    mesh = Mesh(("a", "b"), (2, 2), "partition", (0, 2, 1, 3))
    assert axes_in_text("{devices=[2,2]<=[4]}", mesh) == (("b",), ("a",))
    assert axes_in_text("{devices=[2,2]0,2,1,3}", mesh) == (("a",), ("b",))
    assert axes_in_text("{devices=[4]<=[2,2]T(1,0)}", Mesh(("a", "b"), (2, 2), "partition")) == (("b", "a"),)


def test_spec_text() -> None:
    assert spec_text((("a",), (), ("b", "c"))) == "(a, -, b+c)"
    assert spec_text(()) == "()"
