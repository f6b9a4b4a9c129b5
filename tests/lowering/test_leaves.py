from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inspector
from inspector._jax.lowering import stages
from inspector.errors import ArgumentError, ExecutionError, Unavailable
from inspector.lowering.leaves import (
    Leaves,
    Outputs,
    Static,
    check_static,
    holds_arrays,
    is_array,
    positional_parameters,
    traceable,
)

X = jnp.arange(3.0)


@pytest.mark.parametrize(
    "leaf", [np.float32(1), np.ones(2), np.array(True), jnp.ones(2), jax.ShapeDtypeStruct((), jnp.int32), 1, 1.5, 1j, True]
)  # fmt: skip
def test_numbers_and_arrays_of_them_are_arrays(leaf: object) -> None:
    assert is_array(leaf)


@pytest.mark.parametrize(
    "leaf",
    ["text", None, len, np.array("text"), np.array([b"bytes"]), np.array([None]), np.datetime64("2020"), np.str_("x")],
)
def test_texts_objects_and_dates_are_none(leaf: object) -> None:
    assert not is_array(leaf)


def both(a: Any, b: Any = 1, *rest: Any, key: Any = 2, **more: Any) -> Any:
    return a


def test_parameters_by_position() -> None:
    assert positional_parameters(both) == ["a", "b"]
    assert positional_parameters(lambda x, /, y: x) == ["x", "y"]
    assert positional_parameters(functools.partial(both, 1)) == ["b"]
    assert positional_parameters(print) == []
    assert positional_parameters(3) == []


@pytest.mark.parametrize("positions", [p for n in range(3) for p in itertools.combinations((-2, -1, 0, 1), n)])
@pytest.mark.parametrize("names", [(), ("a",), ("b",), ("key",)])
@pytest.mark.parametrize("by_name", [False, True])
def test_static_leaves_are_those_of_jit(positions: Any, names: Any, by_name: bool) -> None:
    """Values that `jax.jit` passes to a function untraced are static in inspector too."""
    args, kwargs = ((1,), {"b": 2, "key": 3}) if by_name else ((1, 2), {"key": 3})
    seen = {}

    def fun(a: Any, b: Any, *, key: Any) -> Any:
        seen.update(
            {name: not isinstance(value, jax.core.Tracer) for name, value in (("a", a), ("b", b), ("key", key))}
        )
        return a

    try:
        jax.jit(fun, static_argnums=positions or None, static_argnames=names or None).lower(*args, **kwargs)
    except ValueError:
        pytest.skip("jax.jit refuses it")
    counted, _ = stages.counted_positions(fun, positions, ())
    if by_name and counted != positions:
        pytest.skip("jax.jit infers no name from a position that it has still to count")
    static = Static.of(fun, args, counted, names)
    (given, named), fixed = static.split(args, kwargs)
    positional = {name: i in static.positions for i, name in zip(range(len(args)), "ab", strict=False)}
    assert positional | {name: name in static.names for name in kwargs} == seen
    assert given == tuple(a for i, a in enumerate(args) if i not in static.positions)
    assert named == {k: v for k, v in kwargs.items() if not seen[k]}
    assert fixed == {i: args[i] for i in static.positions} | {k: v for k, v in kwargs.items() if seen[k]}


GIVEN = ((X, "text", {"a": 2.0, "b": len}), {"k": [np.ones(2), None, ...]})


def leaves(given: Any = GIVEN, **options: Any) -> Leaves:
    return Leaves.of(given, lambda path: jax.tree_util.keystr(tuple(path)), **options)


def test_leaves_are_put_together_as_they_were() -> None:
    own = leaves()
    assert own.dynamic_paths == ("[0][0]", "[0][2]['a']", "[1]['k'][0]")
    assert own.notes == ("[0][1] = 'text'", "[0][2]['b'] = len (builtin_function_or_method)", "[1]['k'][2] = Ellipsis")
    assert own.filled([1, 2, 3]) == ((1, "text", {"a": 2, "b": len}), {"k": [3, None, ...]})
    holed = own.holed()
    assert holed[0][1] is None
    assert holed[0][0] is X
    assert own.without_values().filled([1, 2, 3]) == own.filled([1, 2, 3])
    assert set(own.without_values().abstract.values()) == {None}


def test_a_leaf_may_be_a_setting_though_it_could_be_an_array() -> None:
    own = leaves(((1, 2.0, X),), is_setting=lambda path, leaf: isinstance(leaf, float))
    assert own.dynamic_paths == ("[0][0]", "[0][2]")
    assert own.fixed == {1: 2.0}
    all_arrays = leaves(((1, 2.0),), is_setting=lambda path, leaf: True, are_arrays=True)
    assert all_arrays.fixed == {}
    with pytest.raises(ArgumentError, match=r"\[0\]\[1\] is 'text' of type str"):
        leaves(((1, "text"),), are_arrays=True)


def test_other_values_are_bound_and_other_structures_are_not() -> None:
    own = leaves().without_values()
    bound = own.values(((7, "text", {"a": 8, "b": len}), {"k": [9, None, ...]}), "f")
    assert bound == [7, 8, 9]
    with pytest.raises(
        ExecutionError, match=r"^f takes 3 arrays \(\[0\]\[0\], \[0\]\[2\]\['a'\], \[1\]\['k'\]\[0\]\), got 2\."
    ):
        own.values(((7, 1), {}), "f")
    with pytest.raises(ExecutionError, match=r"^f was lowered for arguments of the structure"):
        own.values(((7, "text", {"a": 8, "c": len}), {"k": [9, None, ...]}), "f")
    with pytest.raises(ExecutionError, match=r"^\[0\]\[1\] is static: f was lowered with 'text', got 'other'"):
        own.values(((7, "other", {"a": 8, "b": len}), {"k": [9, None, ...]}), "f")
    many = leaves((tuple(range(9)),))
    with pytest.raises(ExecutionError, match=r"\[0\]\[7\], \.\.\.\), got 1"):
        many.values((1,), "f")
    with pytest.raises(ExecutionError, match=r"\[0\]\[7\]\), got 1"):
        leaves((tuple(range(8)),)).values((1,), "f")


class Refusing:
    def __eq__(self, other: object) -> bool:
        raise ValueError("no")

    __hash__ = None  # type: ignore[assignment]


def test_a_static_value_is_itself_or_equal_to_it_and_of_its_type() -> None:
    same = Refusing()
    for lowered, given in ((1, 1), ((1, 2), (1, 2)), (same, same), (X, X)):
        check_static("f", "x", lowered, given)
    for lowered, given in ((1, 2), (1, 1.0), (1, True), (same, Refusing()), (X, X + 0), (X, X[:2])):
        with pytest.raises(ExecutionError, match="x is static: f was lowered with"):
            check_static("f", "x", lowered, given)


def test_objects_that_jit_takes_directly() -> None:
    assert traceable(both)
    assert traceable(print)
    assert not traceable(Refusing())
    assert not traceable(1)  # no weak references


@jax.tree_util.register_pytree_node_class
class Module:
    def __init__(self, *held: Any) -> None:
        self.held = held

    def tree_flatten(self) -> Any:
        return self.held, None

    @classmethod
    def tree_unflatten(cls, aux: Any, held: Any) -> Module:
        return cls(*held)

    def __call__(self, x: Any) -> Any:
        return x * self.held[0]


@pytest.mark.parametrize(("fun", "holds"), [
    (Module(X), True), (Module(np.ones(3), "a"), True), (Module(2.0), False), (Module(), False), (both, False),
    (functools.partial(both, X), False), (jax.tree_util.Partial(both, X), False), (X, False),
])  # fmt: skip
def test_functions_that_hold_arrays(fun: Any, holds: bool) -> None:
    assert holds_arrays(fun) == holds


@pytest.mark.parametrize("fun", [functools.partial(jnp.add, X), jax.tree_util.Partial(jnp.add, X)])
def test_arguments_of_a_partial_are_constants_as_in_jit(fun: Callable[..., Any]) -> None:
    lowered = inspector.lower(fun, X)
    assert len(lowered.inputs) == 1
    assert lowered.notes == ()
    assert lowered.hlo.count("parameter(") == jax.jit(fun).lower(X).compiler_ir("hlo").as_hlo_text().count("parameter(")


def test_arrays_of_a_module_are_arguments_and_numbers_are_not() -> None:
    assert [a.path for a in inspector.lower(Module(X, 2.0), X).inputs] == ["self.held[0]", "x"] or [
        a.path for a in inspector.lower(Module(X, 2.0), X).inputs
    ] == ["self[<flat index 0>]", "x"]


@pytest.mark.parametrize("result", [
    X, (X, "text"), {"a": [X, None, len], "b": 2.0}, (), None, "text", [X, X + 1, ("s", X + 2)],
])  # fmt: skip
def test_results_are_put_together_as_they_were(result: Any) -> None:
    outputs = Outputs()
    kept = jax.tree_util.tree_leaves(outputs.keep(result))
    assert all(map(is_array, kept))
    whole = outputs.whole(kept)
    assert jax.tree_util.tree_structure(whole) == jax.tree_util.tree_structure(result)
    for one, other in zip(jax.tree_util.tree_leaves(whole), jax.tree_util.tree_leaves(result), strict=True):
        assert one is other


class TestStages:
    def test_arguments_of_a_stage_are_bound_by_their_structure(self) -> None:
        program = inspector.lower(jax.jit(lambda p, x: {"y": p["w"] * x, "z": x}).lower({"w": X}, X)).program
        assert program.binding is not None
        assert program.binding.leaves(({"w": 1}, 2), {}) == [1, 2]
        assert program.binding.result([3, 4]) == {"y": 3, "z": 4}
        with pytest.raises(ExecutionError, match=r"takes 2 arrays \(\[0\], \[1\]\), got 1"):
            program.binding.leaves((1,), {})
        with pytest.raises(ExecutionError, match="was lowered for arguments of the structure"):
            program.binding.leaves(({"v": 1}, 2), {})


class Wrapper:
    """Hands its calls to a jitted function, and makes something of the result."""

    def __init__(self, after: Callable[[Any], Any]) -> None:
        self.jitted, self.after = jax.jit(lambda x: (x + 1, x * 2)), after

    def __call__(self, x: Any) -> Any:
        return self.after(self.jitted(x))

    def lower(self, x: Any) -> Any:
        return self.jitted.lower(x)


def test_results_changed_by_a_wrapper() -> None:
    def result(after: Callable[[Any], Any]) -> Any:
        binding = inspector.lower(Wrapper(after), X).program.binding
        assert binding is not None
        return binding.result(["first", "second"])

    assert result(lambda both: both) == ("first", "second")
    assert result(lambda both: {"b": both[1], "a": both[0], "said": "text"}) == {
        "a": "first",
        "b": "second",
        "said": "text",
    }
    computed = result(lambda both: both[0] + both[1])
    assert isinstance(computed, Unavailable)
    assert computed.reason == "the wrapper computes its result from the program's outputs"
    asked = result(lambda both: float(both[0][0]))
    assert isinstance(asked, Unavailable)
    assert asked.reason.startswith("the wrapper cannot be traced around its program: ")
