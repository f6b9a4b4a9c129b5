"""Positions and abstract leaves of arguments, against what `jax.jit` makes of the same."""

from __future__ import annotations

import functools
import types
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inspector
from inspector.errors import ParameterError
from inspector.lowering.arguments import abstract_arguments, abstract_leaf, resolve_positions
from inspector.lowering.leaves import Static

X = jnp.ones((4, 3))
WEAK = jnp.asarray(2.0)
HALF = jnp.ones(3, jnp.bfloat16)


def power(x: Any, n: int, flip: bool = False) -> Any:
    return x**n if not flip else n**x


def several(x: Any, *settings: int) -> Any:
    return x ** settings[-1]


@pytest.mark.parametrize(
    ("fun", "given", "static"),
    [
        (power, (X, 3), -1),
        (power, (X, 3), (1, -1)),
        (power, (X, 3, True), (-2, -1)),
        (power, (X, 3, False), (1, -1)),
        (several, (X, 3), -1),
        (several, (X, 4, 3), (-1, 1)),
    ],
)
def test_static_positions_below_0_are_those_of_jit(fun: Any, given: tuple[Any, ...], static: Any) -> None:
    """Of a function with defaults, whose last parameter a call may leave out, not every version means the same."""
    lowered = inspector.lower(fun, *given, static_argnums=static)
    theirs = jax.jit(fun, static_argnums=static).trace(*given)
    assert lowered.stablehlo == theirs.lower().as_text()
    assert len(lowered.inputs) == len(jax.tree_util.tree_leaves(theirs.args_info))


def test_donated_positions_below_0_are_those_of_jit() -> None:
    def add(x: Any, y: Any) -> Any:
        return x + y

    theirs = jax.tree_util.tree_leaves(jax.jit(add, donate_argnums=-2).trace(X, X).args_info)
    donated = [a.donated for a in inspector.lower(add, X, X, donate_argnums=-2).inputs]
    assert donated == [a.donated for a in theirs]


def test_positions_from_the_end_are_resolved() -> None:
    assert resolve_positions((1, 2, 3), (-1,), (-3,), "f") == ({2}, {0})
    for static, donated in (((-4,), ()), ((), (-4,)), ((), (3,))):
        with pytest.raises(ParameterError, match="Expected positions from -3 to 2"):
            resolve_positions((1, 2, 3), static, donated, "f")
    assert Static.of(power, (X, 3), (-1,), ()).positions == {1}
    assert Static.of(power, (X, 3), (-2,), ()).positions == {0}
    assert Static.of(power, (X, 3), (-3, 2), ()).positions == set()
    (kept, other), _ = abstract_arguments(((X, X), {}), static=(-2,))
    assert kept is X
    assert isinstance(other, jax.ShapeDtypeStruct)


@pytest.mark.parametrize("is_weak", [True, False])
def test_a_weak_type_gives_way_as_it_does_in_jax(is_weak: bool) -> None:
    """In every way that an argument may be given, and once it is lowered again."""
    array = WEAK if is_weak else jnp.asarray(WEAK, jnp.float32)
    assert array.weak_type is is_weak
    looks_like = types.SimpleNamespace(shape=(), dtype=np.dtype(np.float32), weak_type=is_weak)
    specification = jax.ShapeDtypeStruct((), jnp.float32, weak_type=is_weak)
    (later,), _ = abstract_arguments(((array,), {}))
    assert later.weak_type is abstract_leaf(looks_like, "x").weak_type is is_weak
    for given in (array, looks_like, specification, later):
        for axis_env in (None, {"i": 2}):
            lowered = inspector.lower(lambda x: x * HALF, given, axis_env=axis_env)
            assert lowered.inputs[0].weak_type is is_weak
            assert lowered.outputs[0].dtype == ("bfloat16" if is_weak else "float32")


class _Unhashable:
    def __hash__(self) -> int:
        raise RuntimeError("no")


@pytest.mark.parametrize("value", [{"a": 2}, (1, [2]), np.ones(2), _Unhashable()], ids=lambda v: type(v).__name__)
@pytest.mark.parametrize(
    ("fun", "marks", "by_name"),
    [
        (lambda x, cfg: x, {"static_argnums": 1}, False),
        (lambda x, cfg: x, {"static_argnames": "cfg"}, True),
        (jax.jit(lambda x, cfg: x, static_argnums=1), {}, False),
        (jax.jit(lambda x, cfg: x, static_argnames="cfg"), {}, True),
        (functools.partial(jax.jit(lambda x, n, cfg: x, static_argnames=("n", "cfg")), n=3), {}, True),
    ],
)
def test_an_unhashable_static_argument_is_reported(fun: Any, marks: Any, by_name: bool, value: Any) -> None:
    args, kwargs = ((X,), {"cfg": value}) if by_name else ((X, value), {})
    said = r"cfg of <lambda> is static and cannot be hashed: got .* of type \w+ \(.*Expected a hashable value"
    with pytest.raises(ParameterError, match=said):
        inspector.lower(fun, *args, **kwargs, **marks)
