"""Traces functions that are jitted already, by JAX or inside a library's wrapper.

An object with a `trace` or `lower` method that calls `jax.jit` is lowered through that call, so donation, static arguments
and shardings are those of the wrapper. Bound methods and partials of such functions are calls with more arguments.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from inspector._jax.lowering import jitted_calls
from inspector._jax.lowering.stages import static_arguments
from inspector.errors import ExecutionError, Unavailable
from inspector.lowering.arguments import abstract_arguments, argument_names, mapped, original_path, stand_ins
from inspector.lowering.assemble import fun_name
from inspector.lowering.bindings import Binding, Call, CallBinding
from inspector.lowering.leaves import Leaves, Static, check_hashable, is_array


@dataclasses.dataclass(frozen=True, slots=True)
class TracedCall:
    """A traced call, with its inputs and outputs in terms of the user's call."""

    traced: jax.stages.Traced
    call: Call


def unbound(fun: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Returns the jitted function behind methods and partials, with all arguments; the unchanged call if there is none."""
    inner, more, named = fun, tuple(args), dict(kwargs)
    for _ in range(_LAYERS):
        if isinstance(inner, types.MethodType):
            inner, more = inner.__func__, (inner.__self__, *more)  # type: ignore[attr-defined]
        elif all(hasattr(inner, name) for name in ("func", "args", "keywords")):
            inner, more, named = inner.func, (*inner.args, *more), {**inner.keywords, **named}
        else:
            break
    return (inner, more, named) if is_jitted(inner) else (fun, tuple(args), dict(kwargs))


def is_jitted(fun: Any) -> bool:
    """Reports whether a function has a `trace` or `lower` method."""
    if isinstance(fun, types.MethodType):  # has the attributes of its function, which do not bind `self`
        return False
    return any(callable(getattr(fun, name, None)) for name in ("trace", "lower"))


def traced_call(fun: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> TracedCall | None:
    """Traces a call of a function that `is_jitted`; None if its `trace` or `lower` does not use JAX.

    Args:
      fun: a function from `unbound`.
      args: arrays and array-like objects, in any pytree.
      kwargs: likewise, for keyword arguments.
    """
    if jitted_calls.is_jitted(fun):
        return _of_jax(fun, args, kwargs)
    call, arguments = _jitted_call(fun, args, kwargs)
    if call is None:
        return None
    paths = _paths(call, _named(fun, arguments, argument_names(fun, len(args))))
    binding = WrapperBinding(fun, abstract_arguments(arguments), call.traced)
    return TracedCall(call.traced, Call(paths, binding, result_names=_names_of_states(call, paths)))


def _of_jax(fun: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> TracedCall:
    static = Static.of(fun, args, *static_arguments(fun))
    names = argument_names(fun, len(args))
    # A static argument must stay the same object: it may be equal only to itself.
    inputs = [a if i in static.positions else stand_ins(a) for i, a in enumerate(args)]
    named = {k: v if k in static.names else stand_ins(v) for k, v in kwargs.items()}
    dynamic, fixed = static.split(inputs, named)
    check_hashable(fun, fun_name(fun), fixed)
    traced = fun.trace(*inputs, **named)
    positions = [i for i in range(len(args)) if i not in static.positions]
    leaves = Leaves.of(dynamic, lambda path: names(original_path(path, positions)), are_arrays=True)
    whole = functools.partial(jax.tree_util.tree_unflatten, jax.tree_util.tree_structure(traced.out_info))
    binding = CallBinding(str(traced.fun_name), leaves.without_values(), static, fixed, len(args), whole)
    return TracedCall(traced, Call(leaves.paths, binding))


class _AbstractArray(jax.Array):
    """A ShapeDtypeStruct that is an instance of `jax.Array`, for wrappers that separate arrays from settings by type."""

    def __init__(self, stands_for: jax.ShapeDtypeStruct) -> None:
        self._stands_for = stands_for

    def __getattribute__(self, name: str) -> Any:
        stands_for = object.__getattribute__(self, "_stands_for")
        if name == "aval":
            return jax.core.ShapedArray(stands_for.shape, stands_for.dtype, weak_type=stands_for.weak_type)
        if name == "committed":
            return stands_for.sharding is not None
        return getattr(stands_for, name) if name in _OF_SHAPES else object.__getattribute__(self, name)


_OF_SHAPES = ("shape", "dtype", "sharding", "weak_type", "ndim", "size")


_CallArguments = tuple[tuple[Any, ...], dict[str, Any]]


def _jitted_call(
    fun: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[jitted_calls.JittedCall | None, _CallArguments]:
    """Returns the jitted call behind a wrapper's call, or None if there is none, and the `(args, kwargs)` passed to it.

    Array-like leaves are passed as ShapeDtypeStructs. If a wrapper takes these for settings, they are passed as instances
    of `jax.Array`.
    """
    arguments = _each(stand_ins, args, kwargs)
    shapes = {id(leaf) for leaf in jax.tree_util.tree_leaves(arguments) if _is_shape(leaf)}
    if not shapes:
        return jitted_calls.jitted_call(fun, *arguments), arguments
    try:
        call = jitted_calls.jitted_call(fun, *arguments)
    except Exception:  # the wrapper's code may raise anything for an unexpected argument
        call = None
    if call is None or not shapes <= {id(leaf) for leaf in call.leaves}:
        arguments = _each(lambda tree: mapped(tree, _is_shape, _AbstractArray), *arguments)
        call = jitted_calls.jitted_call(fun, *arguments)
    return call, arguments


def _each(change: Callable[[Any], Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> _CallArguments:
    return tuple(map(change, args)), {name: change(value) for name, value in kwargs.items()}


def _is_shape(leaf: Any) -> bool:
    return isinstance(leaf, jax.ShapeDtypeStruct)


def _named(fun: Any, arguments: _CallArguments, names: Callable[[Any], str]) -> dict[int, collections.deque[str]]:
    """Returns the Python expressions of each array, by its id: wrappers rearrange leaves but keep the objects."""
    expressions: dict[int, collections.deque[str]] = collections.defaultdict(collections.deque)
    own = jax.tree_util.tree_flatten_with_path(getattr(fun, "__wrapped__", None))[0]
    for path, leaf in jax.tree_util.tree_flatten_with_path(arguments)[0]:
        expressions[id(leaf)].append(names(path))
    for path, leaf in own:
        expressions[id(leaf)].append(f"self{jax.tree_util.keystr(path)}")
    return expressions


def _paths(call: jitted_calls.JittedCall, named: Mapping[int, collections.deque[str]]) -> tuple[str, ...]:
    paths = []
    for path, leaf in jax.tree_util.tree_flatten_with_path(call.dynamic)[0]:
        known = named.get(id(leaf))
        inside = argument_names(call.jitted, len(call.dynamic[0]))(path)
        # If the same array is passed twice, each leaf takes the next of its names.
        paths.append((known.popleft() if len(known) > 1 else known[0]) if known else inside)
    return tuple(paths)


def _names_of_states(call: jitted_calls.JittedCall, paths: Sequence[str]) -> dict[str, str]:
    """Returns the names of results that are the new states of arguments, by their place: `.model.layer.kernel` for `[0][0].states[0][1]`.

    Flax's `nnx.jit` returns the states of its arguments in the places in which it passes them.
    """
    arguments = jax.tree_util.tree_flatten_with_path(call.dynamic)[0]
    results = dict(jax.tree_util.tree_flatten_with_path(call.traced.out_info)[0])
    return {
        jax.tree_util.keystr(place): f".{path}"
        for (place, leaf), path in zip(arguments, paths, strict=True)
        if any(getattr(key, "name", "") == _STATES for key in place)
        and (result := results.get(place)) is not None
        and (result.shape, result.dtype) == (jax.numpy.shape(leaf), jax.numpy.result_type(leaf))
    }


_STATES = "states"  # the attribute of nnx's `NodeStates`


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class WrapperBinding(Binding):
    """Binding of a library's wrapper.

    Attributes:
      fun: the wrapper.
      arguments: the `(args, kwargs)` that it was traced with, without array values.
      traced: the traced function.
    """

    fun: Any
    arguments: _CallArguments
    traced: jax.stages.Traced

    def leaves(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Sequence[Any]:
        """Returns the arrays that the wrapper passes to the program for these arguments.

        Raises:
          ExecutionError: the arguments lead to another program.
        """
        call, _ = _jitted_call(self.fun, args, kwargs)
        if call is None or not jitted_calls.is_same_program(call.traced, self.traced):
            raise ExecutionError(
                f"{self.traced.fun_name} was lowered for other arguments. Pass arguments with"
                " the same shapes, dtypes and static values, or lower the function again."
            )
        return call.leaves

    def result(self, outputs: Sequence[Any]) -> Any:
        """Builds the wrapper's return value; Unavailable if the wrapper computes with the program's results."""
        return _returned(self, outputs)


def _returned(binding: WrapperBinding, outputs: Sequence[Any]) -> Any:
    """Traces the wrapper's call around the jitted one, on copies, to find where it places each result."""
    leaves, tree = jax.tree_util.tree_flatten(binding.arguments)
    arrays = [
        i for i, leaf in enumerate(leaves) if is_array(leaf) and not isinstance(leaf, bool | int | float | complex)
    ]
    flattened: list[Any] = []

    def call(*values: Any) -> list[Any]:
        copies = list(leaves)
        for i, value in zip(arrays, values, strict=True):
            copies[i] = value
        args, kwargs = jax.tree_util.tree_unflatten(tree, copies)
        flattened.append(jax.tree_util.tree_flatten(binding.fun(*args, **kwargs)))
        return [leaf for leaf in flattened[0][0] if isinstance(leaf, jax.Array)]

    try:
        places = jitted_calls.result_places(call, [leaves[i] for i in arrays], binding.traced)
    except Exception as error:  # library code may not support this kind of call
        return Unavailable(f"the wrapper cannot be traced around its program: {type(error).__name__}", "use outputs")
    if places is None:
        return Unavailable("the wrapper computes its result from the program's outputs", "use outputs, a tuple")
    results = iter(places)
    placed = [next(results) if isinstance(leaf, jax.Array) else None for leaf in flattened[0][0]]
    return jax.tree_util.tree_unflatten(
        flattened[0][1],
        [leaf if p is None else outputs[p] for leaf, p in zip(flattened[0][0], placed, strict=True)],
    )


_LAYERS = 10
