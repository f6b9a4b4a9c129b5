"""Functions that are jitted already, by JAX or inside a library's wrapper: opened by what they offer.

Whatever has a `trace` or a `lower` that goes through `jax.jit` is lowered as it calls `jax.jit` itself, so that
donation, static arguments and shardings are the wrapper's own. Bound methods and partials of such functions are
calls of them with more arguments.
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
    """A call that JAX has traced: what it made of it, and what the program's ends are to the user."""

    traced: jax.stages.Traced
    call: Call


def unbound(fun: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """The jitted function behind methods and partials, with what they bind; the call as it is where there is none."""
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
    """Whether a function says that it can be traced or lowered ahead of time."""
    if isinstance(fun, types.MethodType):  # it shows the attributes of its function, which knows nothing of `self`
        return False
    return any(callable(getattr(fun, name, None)) for name in ("trace", "lower"))


def traced_call(fun: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> TracedCall | None:
    """Traces a call of what `is_jitted`; None where its `trace` or `lower` has nothing to do with JAX.

    Args:
      fun: as `unbound` gives it.
      args: arrays and what stands for them, in any pytree.
      kwargs: likewise.
    """
    if jitted_calls.is_jitted(fun):
        return _of_jax(fun, args, kwargs)
    call, given = _jitted_call(fun, args, kwargs)
    if call is None:
        return None
    paths = _paths(call, _named(fun, given, argument_names(fun, len(args))))
    return TracedCall(call.traced, Call(paths, WrapperBinding(fun, abstract_arguments(given), call.traced)))


def _of_jax(fun: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> TracedCall:
    static = Static.of(fun, args, *static_arguments(fun))
    names = argument_names(fun, len(args))
    # A static argument stays the very object: it may be equal to itself only.
    given = [a if i in static.positions else stand_ins(a) for i, a in enumerate(args)]
    named = {k: v if k in static.names else stand_ins(v) for k, v in kwargs.items()}
    dynamic, fixed = static.split(given, named)
    check_hashable(fun, fun_name(fun), fixed)
    traced = fun.trace(*given, **named)
    positions = [i for i in range(len(args)) if i not in static.positions]
    leaves = Leaves.of(dynamic, lambda path: names(original_path(path, positions)), are_arrays=True)
    whole = functools.partial(jax.tree_util.tree_unflatten, jax.tree_util.tree_structure(traced.out_info))
    binding = CallBinding(str(traced.fun_name), leaves.without_values(), static, fixed, len(args), whole)
    return TracedCall(traced, Call(leaves.paths, binding))


class _AbstractArray(jax.Array):
    """A shape that says that it is a JAX array, for wrappers that sort their arguments by that."""

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


_Given = tuple[tuple[Any, ...], dict[str, Any]]


def _jitted_call(
    fun: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[jitted_calls.JittedCall | None, _Given]:
    """The jitted call behind a wrapper's, and the `(args, kwargs)` that it took; None where there is none.

    What only stands for an array is given as a ShapeDtypeStruct, and as one that says that it is an array to
    wrappers that would take that for a setting.
    """
    given = _each(stand_ins, args, kwargs)
    shapes = {id(leaf) for leaf in jax.tree_util.tree_leaves(given) if _is_shape(leaf)}
    if not shapes:
        return jitted_calls.jitted_call(fun, *given), given
    try:
        call = jitted_calls.jitted_call(fun, *given)
    except Exception:  # whatever its code says to an argument that it has in its way
        call = None
    if call is None or not shapes <= {id(leaf) for leaf in call.leaves}:
        given = _each(lambda tree: mapped(tree, _is_shape, _AbstractArray), *given)
        call = jitted_calls.jitted_call(fun, *given)
    return call, given


def _each(change: Callable[[Any], Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> _Given:
    return tuple(map(change, args)), {name: change(value) for name, value in kwargs.items()}


def _is_shape(leaf: Any) -> bool:
    return isinstance(leaf, jax.ShapeDtypeStruct)


def _named(fun: Any, given: _Given, names: Callable[[Any], str]) -> dict[int, collections.deque[str]]:
    """What the user would write for each array, by its identity: wrappers move leaves about, and leave them the same."""
    found: dict[int, collections.deque[str]] = collections.defaultdict(collections.deque)
    own = jax.tree_util.tree_flatten_with_path(getattr(fun, "__wrapped__", None))[0]
    for path, leaf in jax.tree_util.tree_flatten_with_path(given)[0]:
        found[id(leaf)].append(names(path))
    for path, leaf in own:
        found[id(leaf)].append(f"self{jax.tree_util.keystr(path)}")
    return found


def _paths(call: jitted_calls.JittedCall, named: Mapping[int, collections.deque[str]]) -> tuple[str, ...]:
    paths = []
    for path, leaf in jax.tree_util.tree_flatten_with_path(call.dynamic)[0]:
        known = named.get(id(leaf))
        inside = argument_names(call.jitted, len(call.dynamic[0]))(path)
        # The name is given to one leaf after the other where the same array is passed twice.
        paths.append((known.popleft() if len(known) > 1 else known[0]) if known else inside)
    return tuple(paths)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class WrapperBinding(Binding):
    """Arguments and results as a library's wrapper makes them.

    Attributes:
      fun: the wrapper.
      given: the `(args, kwargs)` that it was traced with, without their values.
      traced: what came of it.
    """

    fun: Any
    given: _Given
    traced: jax.stages.Traced

    def leaves(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Sequence[Any]:
        """What the wrapper hands to the program for these arguments.

        Raises:
          ExecutionError: another program.
        """
        call, _ = _jitted_call(self.fun, args, kwargs)
        if call is None or not jitted_calls.is_same_program(call.traced, self.traced):
            raise ExecutionError(
                f"{self.traced.fun_name} was lowered for other arguments: these make another program. Pass arguments of"
                " the same shapes and dtypes, and with the same values where they are static, or lower the function anew."
            )
        return call.leaves

    def result(self, outputs: Sequence[Any]) -> Any:
        """What the wrapper would return; Unavailable when it does more with the program's results than arrange them."""
        return _returned(self, outputs)


def _returned(binding: WrapperBinding, outputs: Sequence[Any]) -> Any:
    """Traces the wrapper's own call around the jitted one, on copies, to see where each result goes."""
    leaves, tree = jax.tree_util.tree_flatten(binding.given)
    arrays = [
        i for i, leaf in enumerate(leaves) if is_array(leaf) and not isinstance(leaf, bool | int | float | complex)
    ]
    found: list[Any] = []

    def call(*values: Any) -> list[Any]:
        given = list(leaves)
        for i, value in zip(arrays, values, strict=True):
            given[i] = value
        args, kwargs = jax.tree_util.tree_unflatten(tree, given)
        found.append(jax.tree_util.tree_flatten(binding.fun(*args, **kwargs)))
        return [leaf for leaf in found[0][0] if isinstance(leaf, jax.Array)]

    try:
        places = jitted_calls.result_places(call, [leaves[i] for i in arrays], binding.traced)
    except Exception as error:  # a library's code, called in a way that it may not be made for
        return Unavailable(f"the wrapper cannot be traced around its program: {type(error).__name__}", "use outputs")
    if places is None:
        return Unavailable("the wrapper computes its result from what the program gives", "use outputs, a tuple")
    results = iter(places)
    placed = [next(results) if isinstance(leaf, jax.Array) else None for leaf in found[0][0]]
    return jax.tree_util.tree_unflatten(
        found[0][1],
        [leaf if p is None else outputs[p] for leaf, p in zip(found[0][0], placed, strict=True)],
    )


_LAYERS = 10
