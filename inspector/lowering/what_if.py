"""Applies hypothetical changes to a call: dtypes and shapes of arguments, donations and rematerialization."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from inspector._jax.lowering.rematerialize import with_rematerialized
from inspector._jax.lowering.stages import Traced, donated_arguments, with_donated
from inspector.compilation.program import Argument
from inspector.compilation.what_if import WhatIf, covers, fit_shape
from inspector.errors import ParameterError
from inspector.lowering.arguments import argument_names, looks_like_array
from inspector.support.notebook import short
from inspector.support.units import counted

CallArguments = tuple[tuple[Any, ...], dict[str, Any]]


def changed_arguments(fun: Any, args: Sequence[Any], kwargs: Mapping[str, Any], what_if: WhatIf) -> CallArguments:
    """Returns the arguments of a call with changed dtypes and lengths. Changed arrays become ShapeDtypeStructs.

    Raises:
      ParameterError: an unknown argument, an argument without the dimension, or an invalid dtype.
    """
    names = argument_names(fun, len(args))
    leaves, tree = jax.tree_util.tree_flatten_with_path((tuple(args), dict(kwargs)))
    paths = [names(path) for path, leaf in leaves]
    arrays = [path for path, (_, leaf) in zip(paths, leaves, strict=True) if _is_array(leaf)]
    changed_names = [name for name, _ in (*what_if.dtypes, *what_if.batch)]
    for name in (*changed_names, *(name for name, _, _ in what_if.lengths)):
        check_known(name, arrays)
    _check_dtypes(what_if, [(path, leaf) for path, (_, leaf) in zip(paths, leaves, strict=True) if _is_array(leaf)])
    changed = [_changed(path, leaf, what_if) for path, (_, leaf) in zip(paths, leaves, strict=True)]
    result: CallArguments = jax.tree_util.tree_unflatten(tree, changed)
    return result


def changed_call(traced: Traced, paths: Sequence[str], what_if: WhatIf) -> Traced:
    """Applies donations and rematerialization to a traced call.

    Args:
      traced: the traced call.
      paths: the paths of its arguments.
      what_if: the changes.

    Raises:
      ParameterError: an unknown argument, or a scope without values to rematerialize.
    """
    if what_if.rematerialize:
        traced = with_rematerialized(traced, what_if.rematerialize)
    if what_if.donate:
        traced = with_donated(traced, are_donated(donated_arguments(traced), paths, what_if))
    return traced


def are_donated(already: Sequence[bool], paths: Sequence[str], what_if: WhatIf) -> tuple[bool, ...]:
    """Reports for each argument whether its buffer may be reused.

    Raises:
      ParameterError: an unknown argument.
    """
    for name in what_if.donate:
        check_known(name, paths)
    pairs = zip(already, paths, strict=True)
    return tuple(is_donated or any(covers(name, path) for name in what_if.donate) for is_donated, path in pairs)


def fitted_arguments(
    fun: Any, args: Sequence[Any], kwargs: Mapping[str, Any], arguments: Sequence[Argument]
) -> CallArguments:
    """Returns the arguments of a call converted for a program that takes some with another dtype or length."""
    names, taken = argument_names(fun, len(args)), {a.path: a for a in arguments}

    def fit(path: Any, leaf: Any) -> Any:
        argument = taken.get(names(path))
        return leaf if argument is None else fitted(leaf, argument.shape, argument.dtype)

    result: CallArguments = jax.tree_util.tree_map_with_path(fit, (tuple(args), dict(kwargs)))
    return result


def fitted(value: Any, shape: Sequence[int], dtype: str) -> Any:
    """Converts an argument to the dtype and the lengths that a program takes. Longer dimensions repeat it from the start."""
    if not _is_array(value) or (tuple(value.shape), str(value.dtype)) == (tuple(shape), dtype):
        return value
    if len(value.shape) != len(shape):
        return value
    if isinstance(value, jax.ShapeDtypeStruct):
        return jax.ShapeDtypeStruct(tuple(shape), dtype)
    if jax.numpy.issubdtype(value.dtype, jax.dtypes.extended):
        return fit_shape(value, shape)
    array = fit_shape(np.asarray(value), shape)
    return array.astype(dtype) if array.shape == tuple(shape) else value


def check_known(name: str, paths: Sequence[str]) -> None:
    """Checks that a name matches an array argument.

    Raises:
      ParameterError: it matches none. The message lists the arguments.
    """
    if not any(covers(name, path) for path in paths):
        raise ParameterError(f"No array argument is called {short(name)}. Array arguments: {_listed(paths)}.")


def _check_dtypes(what_if: WhatIf, arrays: Sequence[tuple[str, Any]]) -> None:
    """Checks that a dtype change below a name applies to at least one floating-point array."""
    for name, dtype in what_if.dtypes:
        below = [leaf.dtype for path, leaf in arrays if covers(name, path) and path != name]
        if below and not any(jax.numpy.issubdtype(each, jax.numpy.floating) for each in below):
            raise ParameterError(
                f"No array below {short(name)} holds floating-point numbers that could become {dtype}. Name a single array."
            )


def _listed(paths: Sequence[str]) -> str:
    shown = ", ".join(paths[:20]) or "none"
    return f"{shown} and {len(paths) - 20} more" if len(paths) > 20 else shown


def _changed(path: str, leaf: Any, what_if: WhatIf) -> Any:
    if not _is_array(leaf):
        return leaf
    shape, dtype = tuple(leaf.shape), leaf.dtype
    for name, dtype_name in what_if.dtypes:
        if covers(name, path) and (name == path or jax.numpy.issubdtype(dtype, jax.numpy.floating)):
            dtype = _dtype(name, dtype_name)
    for name, length in what_if.batch:
        if covers(name, path):
            if not shape:
                raise ParameterError(
                    f"{path} has no dimension, so batch cannot set the length of its first dimension to {length}."
                )
            shape = (length, *shape[1:])
    for name, dimension, length in what_if.lengths:
        if covers(name, path):
            if dimension >= len(shape):
                raise ParameterError(
                    f"{path} has {counted(len(shape), 'dimension')}, so shape cannot set dimension {dimension} to {length}."
                )
            shape = (*shape[:dimension], length, *shape[dimension + 1 :])
    if (shape, dtype) == (tuple(leaf.shape), leaf.dtype):
        return leaf
    is_weak = dtype == leaf.dtype and bool(getattr(leaf, "weak_type", False))
    sharding = leaf.sharding if getattr(leaf, "committed", isinstance(leaf, jax.ShapeDtypeStruct)) else None
    return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding, weak_type=is_weak)


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array | jax.ShapeDtypeStruct | np.ndarray | np.generic) or looks_like_array(leaf)


def _dtype(name: str, dtype_name: str) -> Any:
    try:
        dtype = jax.numpy.dtype(dtype_name)
    except TypeError as error:
        raise ParameterError(
            f"dtype of {name} is {short(dtype_name)}. Expected the name of a dtype, such as 'bfloat16'."
        ) from error
    if jax.dtypes.canonicalize_dtype(dtype) != dtype:
        raise ParameterError(
            f"dtype of {name} is {short(dtype_name)}, which JAX treats as {jax.dtypes.canonicalize_dtype(dtype)} without"
            " jax_enable_x64. Set jax_enable_x64."
        )
    return dtype
