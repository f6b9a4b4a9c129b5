"""Arguments of a function to lower: abstract leaves, names for people, positions.

Values are never read. Arrays and ShapeDtypeStructs pass as they are (their sharding matters);
anything else with `shape` and `dtype` stands for an array of that kind.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import numpy as np

from inspector.errors import ArgumentError, ParameterError


def abstract_leaf(leaf: Any, path: str) -> Any:
    """What JAX can trace for a leaf.

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
                f" {leaf.shape!r} and its dtype {leaf.dtype!r}. Expected a tuple of integers and a NumPy dtype."
            ) from e
    raise ArgumentError(
        f"{path} is {_short(leaf)} of type {type(leaf).__name__}, not a valid JAX type. Expected an array, a number,"
        " a jax.ShapeDtypeStruct or any object with shape and dtype (in lists, tuples, dicts or other pytrees)."
        " If it is a setting rather than data, name its position in static_argnums."
    )


def abstract_tree(tree: Any, names: Callable[[Any], str]) -> Any:
    """`abstract_leaf` over a pytree."""
    return jax.tree_util.tree_map_with_path(lambda path, leaf: abstract_leaf(leaf, names(path)), tree)


def _is_extended(dtype: Any) -> bool:
    """Random keys and the like, which NumPy cannot name."""
    return bool(jax.numpy.issubdtype(dtype, jax.dtypes.extended))


def stand_ins(tree: Any) -> Any:
    """A pytree with ShapeDtypeStructs for leaves that only look like arrays; the rest as it is."""
    return jax.tree_util.tree_map(
        lambda leaf: abstract_leaf(leaf, "argument") if _looks_like_array(leaf) else leaf, tree
    )


def original_path(path: Sequence[Any], dynamic: Sequence[int]) -> tuple[Any, ...]:
    """A key path into the arguments, counted as before the static ones were taken out."""
    where, key, *rest = path
    return (where, jax.tree_util.SequenceKey(dynamic[key.idx]) if where.idx == 0 else key, *rest)


def _looks_like_array(leaf: Any) -> bool:
    return hasattr(leaf, "shape") and hasattr(leaf, "dtype") and not isinstance(leaf, jax.ShapeDtypeStruct | jax.Array)


def argument_names(fun: Any, positional: int) -> Callable[[Any], str]:
    """Turns a key path into `((args), {kwargs})` into what the user would write: `params['w'][0]`."""
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
    """A result's key path: `""` for a lone result, `[0]['w']` inside a pytree."""
    return jax.tree_util.keystr(tuple(path))


def dtype_name(dtype: Any) -> str:
    """NumPy's name of a dtype; `key<...>` for random keys."""
    return str(dtype) if _is_extended(dtype) else str(np.dtype(dtype))


def positions(argnums: int | Iterable[int]) -> tuple[int, ...]:
    """`static_argnums` and the like as a tuple."""
    try:
        return (operator.index(argnums),)  # type: ignore[arg-type]
    except TypeError:
        return tuple(operator.index(i) for i in argnums)  # type: ignore[union-attr]


def resolve_positions(
    args: Sequence[Any], static_argnums: Sequence[int], donate_argnums: Sequence[int], name: str
) -> tuple[set[int], set[int]]:
    """Static and donated positions counted from 0, checked against the call.

    Raises:
      ParameterError: a position is out of range, in both, or a static argument cannot be hashed.
    """
    both = sorted(set(static_argnums) & set(donate_argnums))
    if both:
        raise ParameterError(
            f"static_argnums {sorted(set(static_argnums))} and donate_argnums {sorted(set(donate_argnums))} cannot"
            f" intersect: position {both[0]} is in both. A static argument has no buffer to donate."
        )
    for parameter, numbers in (("static_argnums", static_argnums), ("donate_argnums", donate_argnums)):
        outside = [n for n in numbers if not -len(args) <= n < len(args)]
        if outside:
            raise ParameterError(
                f"{parameter}={tuple(numbers)} names position {outside[0]}, but {name} was called with"
                f" {len(args)} positional arguments. Expected positions from {-len(args)} to {len(args) - 1}."
            )
    static = {n % len(args) for n in static_argnums}
    for n in sorted(static):
        try:
            hash(args[n])
        except TypeError:
            raise ParameterError(
                f"Static argument {n} of {name} is of type {type(args[n]).__name__}, which cannot be hashed."
                " Expected a hashable value, such as a tuple instead of a list."
            ) from None
    return static, {n % len(args) for n in donate_argnums}


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
