"""Splits arguments into the arrays that a program takes and the values that are fixed when it is traced.

`jax.jit` takes pytrees of arrays only. With many libraries, arguments are models whose leaves include functions and
strings, and the function itself can be such a model. This module makes each non-array leaf static: the function is traced
over the arrays and receives the other leaves unchanged.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from inspector.errors import ArgumentError, ExecutionError, ParameterError
from inspector.lowering.arguments import abstract_leaf, looks_like_array
from inspector.support.notebook import short
from inspector.support.units import counted

# Python's number types, the most likely settings first.
NUMBERS = (bool, int, float, complex)


@dataclasses.dataclass(frozen=True, slots=True)
class Static:
    """Positions and names of static arguments.

    Attributes:
      positions: positions, from 0.
      names: names of keyword arguments.
    """

    positions: frozenset[int] = frozenset()
    names: frozenset[str] = frozenset()

    @classmethod
    def of(cls, fun: Any, args: Sequence[Any], positions: Collection[int], names: Collection[str]) -> Static:
        """Returns positions and names of static arguments. If only one kind is given, infers the other as `jax.jit` does.

        Args:
          fun: the function.
          args: its positional arguments.
          positions: positions of static arguments; negative ones count from the last argument.
          names: names of static parameters.
        """
        parameters = [] if positions and names else positional_parameters(fun)
        numbers = {n % len(args) for n in positions if -len(args) <= n < len(args)}
        numbers |= {parameters.index(name) for name in names if name in parameters}
        named = set(names) | {parameters[n] for n in positions if 0 <= n < len(parameters)}
        return cls(frozenset(n for n in numbers if n < len(args)), frozenset(named))

    def split(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[tuple[tuple[Any, ...], dict[str, Any]], dict[int | str, Any]]:
        """Splits arguments into dynamic ones as `(args, kwargs)`, and static ones by position or name."""
        dynamic = (
            tuple(a for i, a in enumerate(args) if i not in self.positions),
            {name: value for name, value in kwargs.items() if name not in self.names},
        )
        fixed: dict[int | str, Any] = {i: args[i] for i in sorted(self.positions)}
        return dynamic, fixed | {name: value for name, value in kwargs.items() if name in self.names}


def check_hashable(fun: Any, name: str, fixed: Mapping[int | str, Any]) -> None:
    """Checks that static arguments are hashable, as `jax.jit` requires for its cache.

    Args:
      fun: the function.
      name: the function's name.
      fixed: its static arguments by position or name.

    Raises:
      ParameterError: one cannot be hashed.
    """
    parameters = dict(enumerate(positional_parameters(fun)))
    for key, value in fixed.items():
        try:
            hash(value)
        except Exception as e:  # a user's class may raise anything
            path = key if isinstance(key, str) else parameters.get(key, f"argument {key}")
            raise ParameterError(
                f"{path} of {name} is static and cannot be hashed: got {short(value)} of type {type(value).__name__}"
                f" ({type(e).__name__}: {e}). Expected a hashable value, such as a tuple instead of a list or a frozen"
                " dataclass instead of a dict. Pass such a value or an array, or do not mark the argument static."
            ) from e


def positional_parameters(fun: Any) -> list[str]:
    """Returns the names of the parameters that can be passed by position; none if the signature is not available."""
    try:
        parameters = inspect.signature(fun).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


@dataclasses.dataclass(frozen=True, slots=True)
class Leaves:
    """The leaves of a call's arguments, static arguments excluded.

    Attributes:
      tree: the pytree structure of `(args, kwargs)`, or of `((function, *args), kwargs)` if the function holds arrays.
      keys: the key path of each leaf.
      paths: Python expression of each leaf, such as `params['w']`.
      fixed: non-array leaves, by index.
      abstract: the abstract values that JAX traces for the other leaves, by index.
    """

    tree: Any
    keys: tuple[tuple[Any, ...], ...]
    paths: tuple[str, ...]
    fixed: Mapping[int, Any]
    abstract: Mapping[int, Any]

    @classmethod
    def of(
        cls,
        pytree: Any,
        names: Callable[[Sequence[Any]], str],
        is_setting: Callable[[Sequence[Any], Any], bool] = lambda _path, _leaf: False,
        *,
        are_arrays: bool = False,
    ) -> Leaves:
        """Flattens the pytree of a call.

        Args:
          pytree: the pytree.
          names: returns the Python expression of a key path.
          is_setting: reports, by key path and value, whether a leaf is fixed although it could be an array.
          are_arrays: whether a non-array leaf is an error.

        Raises:
          ArgumentError: a non-array leaf, with `are_arrays`; or an invalid shape or dtype.
        """
        with_paths, tree = jax.tree_util.tree_flatten_with_path(pytree)
        paths = tuple(names(path) for path, _ in with_paths)
        fixed = {
            i: leaf
            for i, (path, leaf) in enumerate(with_paths)
            if not are_arrays and (not is_array(leaf) or is_setting(path, leaf))
        }
        abstract = {i: abstract_leaf(leaf, paths[i]) for i, (_, leaf) in enumerate(with_paths) if i not in fixed}
        return cls(tree, tuple(path for path, _ in with_paths), paths, fixed, abstract)

    def without_values(self) -> Leaves:
        """Returns a copy for binding other calls. It keeps no array alive."""
        return dataclasses.replace(self, abstract=dict.fromkeys(self.abstract))

    @property
    def dynamic_paths(self) -> tuple[str, ...]:
        """The paths of the arrays, in order."""
        return tuple(self.paths[i] for i in self.abstract)

    @property
    def notes(self) -> tuple[str, ...]:
        """Readable descriptions of the fixed leaves."""
        return tuple(f"{self.paths[i]} = {_description(value)}" for i, value in self.fixed.items())

    def filled(self, values: Sequence[Any]) -> Any:
        """Returns the pytree with the given arrays and the fixed leaves."""
        arrays = dict(zip(self.abstract, values, strict=True))
        whole = [arrays[i] if i in arrays else self.fixed[i] for i in range(len(self.paths))]
        return jax.tree_util.tree_unflatten(self.tree, whole)

    def holed(self) -> Any:
        """Returns the pytree with abstract arrays and None for fixed leaves, which JAX can trace."""
        return jax.tree_util.tree_unflatten(self.tree, [self.abstract.get(i) for i in range(len(self.paths))])

    def values(self, pytree: Any, name: str) -> list[Any]:
        """Returns the arrays of another call's pytree.

        Raises:
          ExecutionError: the structure or a fixed value differs from that of the program.
        """
        leaves, tree = jax.tree_util.tree_flatten(pytree)
        if len(leaves) != len(self.paths):
            dynamic = self.dynamic_paths
            raise ExecutionError(
                f"{name} takes {counted(len(dynamic), 'array')} ({', '.join(dynamic[:8])}{', ...' if len(dynamic) > 8 else ''}), got"
                f" {len(leaves)}. Pass the arguments that it was lowered with; static ones may be omitted."
            )
        if not _same(tree, self.tree):
            raise ExecutionError(
                f"{name} was lowered for arguments of the structure {self.tree}, got {tree}. Pass the same pytrees that"
                " it was lowered with; static arguments may be omitted."
            )
        for i, value in self.fixed.items():
            check_static(name, self.paths[i], value, leaves[i])
        return [leaves[i] for i in self.abstract]


def is_array(leaf: Any) -> bool:
    """Reports whether JAX can treat a leaf as an array: a number or anything with shape and dtype, but not text or objects."""
    if isinstance(leaf, np.ndarray | np.generic):
        return leaf.dtype.kind not in "OSUMm"
    return isinstance(leaf, bool | int | float | complex | jax.Array | jax.ShapeDtypeStruct) or looks_like_array(leaf)


def check_static(name: str, path: str, lowered: Any, value: Any) -> None:
    """Checks that a static value equals the one that the program was lowered with.

    Raises:
      ExecutionError: the values differ.
    """
    if not _same(lowered, value):
        raise ExecutionError(
            f"{path} is static: {name} was lowered with {short(lowered)}, got {short(value)}. Lower the function again for this value."
        )


def traceable(fun: Any) -> bool:
    """Reports whether `jax.jit` accepts the function: it must be hashable and weakly referenceable."""
    try:
        hash(fun)
        weakref.ref(fun)
    except TypeError:
        return False
    return True


def holds_arrays(fun: Any) -> bool:
    """Reports whether a function is itself a pytree with arrays, such as an Equinox module.

    Partials do not count: `jax.jit` treats the values that they bind as constants.
    """
    if isinstance(fun, functools.partial):
        return False
    leaves = jax.tree_util.tree_leaves(fun)
    return not (len(leaves) == 1 and leaves[0] is fun) and any(
        isinstance(leaf, jax.Array | np.ndarray) for leaf in leaves
    )


@dataclasses.dataclass(slots=True)
class Outputs:
    """Splits results into arrays and fixed values. Its fields are set while the function is traced.

    Attributes:
      strict: whether non-array leaves are an error, as in JAX.
      tree: the pytree structure of the function's result.
      fixed: its non-array leaves, by index.
    """

    strict: bool = False
    tree: Any = None
    fixed: dict[int, Any] = dataclasses.field(default_factory=dict)

    def keep(self, result: Any) -> Any:
        """Returns the arrays of a result, in its structure.

        Raises:
          ArgumentError: a leaf is not an array, and results must be arrays (`strict`).
        """
        leaves, self.tree = jax.tree_util.tree_flatten(result)
        self.fixed = {i: leaf for i, leaf in enumerate(leaves) if not is_array(leaf)}
        if self.strict and self.fixed:
            paths, _ = jax.tree_util.tree_flatten_with_path(result)
            raise ArgumentError(
                "; ".join(
                    f"result{jax.tree_util.keystr(paths[i][0])} is {short(leaf)} of type {type(leaf).__name__}"
                    for i, leaf in self.fixed.items()
                )
                + ", which is not a valid JAX type. Return arrays, numbers or pytrees of them."
            )
        return jax.tree_util.tree_unflatten(self.tree, [None if i in self.fixed else x for i, x in enumerate(leaves)])

    def whole(self, arrays: Sequence[Any]) -> Any:
        """Returns the result as the function returns it."""
        rest = iter(arrays)
        count = len(arrays) + len(self.fixed)
        return jax.tree_util.tree_unflatten(
            self.tree, [self.fixed[i] if i in self.fixed else next(rest) for i in range(count)]
        )


def _same(one: Any, other: Any) -> bool:
    """Reports whether two values are equal. Never raises: a value that cannot be compared equals only itself."""
    if one is other:
        return True
    try:
        return type(one) is type(other) and bool(one == other)
    except Exception:  # arrays, or an error in a user's __eq__
        return False


def _description(value: Any) -> str:
    name = getattr(value, "__name__", None)
    return f"{name} ({type(value).__name__})" if isinstance(name, str) else short(value)
