"""Programs with an AbstractMesh that has axis types, and the note about them."""

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


X, W = np.ones((8, 8), np.float32), np.ones((8, 4), np.float32)
ONE = Mesh(np.array(jax.devices()[:1]), ("only",))


def given(x: NamedSharding | None, w: NamedSharding | None, out: NamedSharding | None) -> Any:
    shardings = {"in_shardings": (x, w)} if x else {}
    return jax.jit(lambda x, w: jnp.tanh(x @ w), **shardings, **({"out_shardings": out} if out else {}))


@pytest.mark.parametrize("types", [EXPLICIT, AUTO], ids=["explicit", "auto"])
@pytest.mark.parametrize("place", [jnp.asarray, lambda a: jax.device_put(a, jax.devices()[0]), lambda a: jax.device_put(a, NamedSharding(ONE, P()))], ids=["anywhere", "on a device", "on a mesh of one"])  # fmt: skip
@pytest.mark.parametrize("which", ["arguments", "results", "both"])
def test_arrays_that_are_here_stand_for_those_that_are_not(types: Any, place: Any, which: str) -> None:
    mesh = AbstractMesh(SIZES, NAMES, **types)
    split = NamedSharding(mesh, P("data", None)), NamedSharding(mesh, P(None, "model"))
    fun = given(
        *(split if which != "results" else (None, None)),
        NamedSharding(mesh, P("data", "model")) if which != "arguments" else None,
    )
    program = inspector.lower(fun, place(X), place(W), platform="cpu")
    assert (
        program.stablehlo
        == inspector.lower(fun, *map(jax.eval_shape, (lambda: X, lambda: W)), platform="cpu").stablehlo
    )
    compiled = program.compile(target="cpu:8")
    assert compiled.run(X, W).durations_s


@pytest.mark.parametrize("types", [EXPLICIT, AUTO], ids=["explicit", "auto"])
def test_arrays_that_are_here_beside_one_that_is_not(types: Any) -> None:
    split = jax.ShapeDtypeStruct(
        (8, 8), jnp.float32, sharding=NamedSharding(AbstractMesh(SIZES, NAMES, **types), P("data"))
    )
    here = jax.device_put(W, jax.devices()[0])
    for fun in (given(None, None, None), lambda x, w: jnp.tanh(x @ w)):
        program = inspector.lower(fun, split, here, platform="cpu")
        assert program.program.options.num_partitions == 8
        assert program.stablehlo == inspector.lower(fun, split, jax.eval_shape(lambda: W), platform="cpu").stablehlo


def test_abstract_and_attached_meshes_refuse_the_same() -> None:
    mesh = AbstractMesh(SIZES, NAMES, **AUTO)
    other = NamedSharding(mesh, P("data", None), memory_kind="unpinned_host")
    with pytest.raises(ValueError, match="Memory kinds"):
        inspector.lower(given(other, NamedSharding(mesh, P()), None), jnp.asarray(X), jnp.asarray(W))
    spread = jax.device_put(X, NamedSharding(concrete(), P("data", None)))
    with pytest.raises(ValueError, match=r"[Mm]emory kind|[Ss]harding"):
        inspector.lower(
            given(NamedSharding(mesh, P(None, "model")), NamedSharding(mesh, P()), None), spread, jnp.asarray(W)
        )


def test_explicit_axes_have_a_note_only_where_explicit_is_the_default() -> None:
    notes = lowered(AbstractMesh(SIZES, NAMES, **EXPLICIT)).notes
    assert bool(notes) == (BY_DEFAULT is AxisType.Explicit)
