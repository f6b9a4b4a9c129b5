"""What an AbstractMesh's own axis types make of a program, and the note that says so."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import inspector

SIZES, NAMES = (4, 2), ("data", "model")
EXPLICIT, AUTO = ({"axis_types": (kind,) * 2} for kind in (AxisType.Explicit, AxisType.Auto))
BY_DEFAULT = AbstractMesh(SIZES, NAMES).axis_types[0]


def concrete(**types: Any) -> Mesh:
    return Mesh(np.array(jax.devices()[:8]).reshape(SIZES), NAMES, **types)


def lowered(mesh: Mesh | AbstractMesh) -> inspector.Lowered:
    x = jax.ShapeDtypeStruct((8, 8), jnp.float32, sharding=NamedSharding(mesh, P("data", None)))
    w = jax.ShapeDtypeStruct((8, 8), jnp.float32, sharding=NamedSharding(mesh, P(None, "model")))
    return inspector.lower(jax.jit(lambda x, w: jnp.tanh(x @ w)), x, w, platform="cpu")


def test_the_two_kinds_of_axes_are_two_programs() -> None:
    explicit, auto = (lowered(AbstractMesh(SIZES, NAMES, **types)) for types in (EXPLICIT, AUTO))
    assert explicit.stablehlo != auto.stablehlo
    assert auto.stablehlo == lowered(concrete()).stablehlo


@pytest.mark.parametrize(
    ("mesh", "is_noted"),
    [
        (AbstractMesh(SIZES, NAMES), BY_DEFAULT is AxisType.Explicit),
        (AbstractMesh(SIZES, NAMES, **AUTO), False),
        (AbstractMesh(SIZES, NAMES, axis_types=(AxisType.Auto, AxisType.Explicit)), False),
        (concrete(), False),
        (concrete(**EXPLICIT), False),
    ],
    ids=["default", "auto", "mixed", "concrete", "concrete, explicit"],
)
def test_noted_where_it_is_the_default_alone(mesh: Mesh | AbstractMesh, is_noted: bool) -> None:
    program = lowered(mesh)
    assert (BY_DEFAULT in mesh.axis_types) or not is_noted
    assert any("AxisType.Auto" in note and "Explicit axes" in note for note in program.notes) == is_noted
    assert is_noted or not program.notes


def test_axes_that_are_explicit_where_that_is_not_the_default_were_asked_for() -> None:
    notes = lowered(AbstractMesh(SIZES, NAMES, **EXPLICIT)).notes
    assert bool(notes) == (BY_DEFAULT is AxisType.Explicit)
