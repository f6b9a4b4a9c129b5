"""Arguments of a function to lower: abstract leaves, readable names, positions.

Values are never read. Arrays and ShapeDtypeStructs are passed on unchanged (their sharding matters).
Any other object with `shape` and `dtype` stands for an array of that shape and dtype.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from inspector.errors import ArgumentError, ParameterError
from inspector.support.notebook import short


def abstract_leaf(leaf: Any, path: str) -> Any:
    """Returns the value that JAX traces for a leaf.

    Raises:
      ArgumentError: the leaf is not an array and does not stand for one.
    """
    if isinstance(leaf, (bool, int, float, complex, np.ndarray, np.generic, jax.Array, jax.ShapeDtypeStruct)):
        return leaf
    if hasattr(leaf, "shape") and hasattr(leaf, "dtype"):
        try:
            dtype = leaf.dtype
            if not _is_extended(dtype):
                dtype = jax.dtypes.canonicalize_dtype(dtype)
            weak = bool(getattr(leaf, "weak_type", False))
            return jax.ShapeDtypeStruct(tuple(leaf.shape), dtype, weak_type=weak)
        except TypeError as e:
            raise ArgumentError(
                f"Cannot interpret {path} of type {type(leaf).__name__} as an abstract array: its shape is"
                f" {short(leaf.shape)} and its dtype {leaf.dtype!r}. Expected a tuple of integers and a NumPy dtype."
            ) from e
    raise ArgumentError(
        f"{path} is {short(leaf)} of type {type(leaf).__name__}, not a valid JAX type. Expected an array, a number,"
        " a jax.ShapeDtypeStruct or any object with shape and dtype (in lists, tuples, dicts or other pytrees)."
        " If it is a setting rather than data, name its position in static_argnums."
    )


def abstract_arguments(
    call: tuple[Sequence[Any], Mapping[str, Any]], static: Collection[int] = ()
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Returns `(args, kwargs)` with each JAX array replaced by a ShapeDtypeStruct with the same sharding.

    Args:
      call: positional and keyword arguments.
      static: positions of arguments that stay unchanged.
    """
    args, kwargs = call
    places = {n % len(args) for n in static if n < len(args)}
    return (
        tuple(a if i in places else _without_values(a) for i, a in enumerate(args)),
        {name: _without_values(value) for name, value in kwargs.items()},
    )


def _without_values(tree: Any) -> Any:
    abstract = mapped(tree, lambda leaf: isinstance(leaf, jax.Array), _without_value)
    # Some pytrees, such as distributions, accept only real arrays as leaves.
    is_whole = len(jax.tree_util.tree_leaves(abstract)) == len(jax.tree_util.tree_leaves(tree))
    return abstract if is_whole else tree


def _without_value(array: jax.Array) -> jax.ShapeDtypeStruct:
    sharding = array.sharding if getattr(array, "committed", False) else None
    weak_type = bool(getattr(array, "weak_type", False))
    return jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=sharding, weak_type=weak_type)


def _is_extended(dtype: Any) -> bool:
    """Reports whether a dtype is an extended one, such as that of random keys, which NumPy lacks."""
    return bool(jax.numpy.issubdtype(dtype, jax.dtypes.extended))


def stand_ins(tree: Any) -> Any:
    """Replaces array-like leaves of a pytree by ShapeDtypeStructs. Returns the same object if there are none."""
    return mapped(tree, _only_looks_like_array, lambda leaf: abstract_leaf(leaf, "argument"))


def mapped(tree: Any, wanted: Callable[[Any], bool], change: Callable[[Any], Any]) -> Any:
    """Changes the wanted leaves of a pytree.

    Returns the same object if no leaf changes: some objects are equal only to themselves.
    """
    if not any(map(wanted, jax.tree_util.tree_leaves(tree))):
        return tree
    return jax.tree_util.tree_map(lambda leaf: change(leaf) if wanted(leaf) else leaf, tree)


def _only_looks_like_array(leaf: Any) -> bool:
    return looks_like_array(leaf) and not isinstance(leaf, np.ndarray | np.generic)


def original_path(path: Sequence[Any], dynamic: Sequence[int]) -> tuple[Any, ...]:
    """Converts a key path into the dynamic arguments to one into all arguments, static ones included."""
    where, key, *rest = path
    return (where, jax.tree_util.SequenceKey(dynamic[key.idx]) if where.idx == 0 else key, *rest)


def looks_like_array(leaf: Any) -> bool:
    """Reports whether a leaf has a shape and a dtype but is neither a JAX array nor a ShapeDtypeStruct."""
    return hasattr(leaf, "shape") and hasattr(leaf, "dtype") and not isinstance(leaf, jax.ShapeDtypeStruct | jax.Array)


def argument_names(fun: Any, positional: int) -> Callable[[Any], str]:
    """Returns a function that writes a key path into `((args), {kwargs})` as Python does: `params['w'][0]`."""
    try:
        parameters = list(inspect.signature(fun).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names: list[str] = []
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}[{i}]" for i in range(positional - len(names))]
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            names.append(parameter.name)
    names += [f"args[{i}]" for i in range(len(names), positional)]

    def name(path: Sequence[Any]) -> str:
        where, key, *rest = path
        position = key.idx if isinstance(key, jax.tree_util.SequenceKey) else key.key
        head = names[position] if where.idx == 0 else str(position)
        return head + jax.tree_util.keystr(tuple(rest))

    return name


def result_name(path: Sequence[Any]) -> str:
    """Returns the name of a result: `""` for a single result, `[0]['w']` inside a pytree."""
    return jax.tree_util.keystr(tuple(path))


def positions(argnums: int | Iterable[int] | None) -> tuple[int, ...]:
    """Returns `static_argnums` or `donate_argnums` as a tuple. None means no positions, as in JAX.

    Raises:
      ParameterError: the positions are not integers.
    """
    numbers: Any = () if argnums is None else argnums
    try:
        return tuple(map(operator.index, numbers)) if isinstance(numbers, Iterable) else (operator.index(numbers),)
    except TypeError:
        raise ParameterError(
            f"Positions of arguments are integers, such as 0 or (0, 2), got {short(argnums)}. Pass names in static_argnames."
        ) from None


def names_of(argnames: str | Iterable[str]) -> tuple[str, ...]:
    """Returns `static_argnames` as a tuple."""
    return (argnames,) if isinstance(argnames, str) else tuple(argnames)


def resolve_positions(
    args: Sequence[Any], static_argnums: Sequence[int], donate_argnums: Sequence[int], name: str, parameters: int = 0
) -> tuple[set[int], set[int]]:
    """Checks static and donated positions against the call and counts them from 0.

    Static arguments that the call omits or passes by name are not included.

    Raises:
      ParameterError: a position is out of range, or both static and donated.
    """
    both = sorted(set(static_argnums) & set(donate_argnums))
    if both:
        raise ParameterError(
            f"static_argnums {short(sorted(set(static_argnums)))} and donate_argnums {short(sorted(set(donate_argnums)))} cannot"
            f" intersect: position {both[0]} is in both. A static argument has no buffer to donate."
        )
    for parameter, numbers in (("static_argnums", static_argnums), ("donate_argnums", donate_argnums)):
        known = max(len(args), parameters if parameter == "static_argnums" else 0)
        outside = [n for n in numbers if not -len(args) <= n < known]
        if outside:
            raise ParameterError(
                f"{parameter}={short(tuple(numbers))} names position {outside[0]}, but {name} was called with"
                f" {len(args)} positional arguments. Expected positions from {-len(args)} to {len(args) - 1}."
            )
    return {n % len(args) for n in static_argnums if n < len(args)}, {n % len(args) for n in donate_argnums}
