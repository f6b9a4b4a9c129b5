"""Arguments apart: the arrays that a program takes, and what is fixed when it is traced.

`jax.jit` takes pytrees of arrays only. Programs of libraries pass models whose leaves are functions and
strings as well, and are such models themselves. Here each leaf that is no array becomes static by itself:
the function is traced over the arrays, and gets the rest as it was given.
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
from inspector.lowering.arguments import abstract_leaf, looks_like_array, short
from inspector.support.units import counted

# Of Python's numbers, those that are most likely a setting first.
NUMBERS = (bool, int, float, complex)


@dataclasses.dataclass(frozen=True, slots=True)
class Static:
    """Arguments that are settings, by position and by name.

    Attributes:
      positions: from 0.
      names: of keyword arguments.
    """

    positions: frozenset[int] = frozenset()
    names: frozenset[str] = frozenset()

    @classmethod
    def of(cls, fun: Any, args: Sequence[Any], positions: Collection[int], names: Collection[str]) -> Static:
        """Both ways to name one, inferred from the other by the signature where only one is given, as `jax.jit` does.

        Args:
          fun: the function.
          args: its positional arguments.
          positions: of arguments; negative ones count from the last.
          names: of parameters.
        """
        parameters = [] if positions and names else positional_parameters(fun)
        numbers = {n % len(args) for n in positions if -len(args) <= n < len(args)}
        numbers |= {parameters.index(name) for name in names if name in parameters}
        named = set(names) | {parameters[n] for n in positions if 0 <= n < len(parameters)}
        return cls(frozenset(n for n in numbers if n < len(args)), frozenset(named))

    def split(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[tuple[tuple[Any, ...], dict[str, Any]], dict[int | str, Any]]:
        """Arguments that are not static as `(args, kwargs)`, and those that are by position or name."""
        dynamic = (
            tuple(a for i, a in enumerate(args) if i not in self.positions),
            {name: value for name, value in kwargs.items() if name not in self.names},
        )
        fixed: dict[int | str, Any] = {i: args[i] for i in sorted(self.positions)}
        return dynamic, fixed | {name: value for name, value in kwargs.items() if name in self.names}


def check_hashable(fun: Any, name: str, fixed: Mapping[int | str, Any]) -> None:
    """Refuses static arguments that `jax.jit` cannot look up what it has compiled by.

    Args:
      fun: the function.
      name: of the function.
      fixed: its static arguments by position or name.

    Raises:
      ParameterError: one cannot be hashed.
    """
    parameters = dict(enumerate(positional_parameters(fun)))
    for key, value in fixed.items():
        try:
            hash(value)
        except Exception as e:  # of a class of the user's
            path = key if isinstance(key, str) else parameters.get(key, f"argument {key}")
            raise ParameterError(
                f"{path} of {name} is static and cannot be hashed: got {short(value)} of type {type(value).__name__}"
                f" ({type(e).__name__}: {e}). Expected a hashable value, such as a tuple instead of a list or a frozen"
                " dataclass instead of a dict. Pass that, or an array, or do not name it static."
            ) from e


def positional_parameters(fun: Any) -> list[str]:
    """Names of the parameters that may be given by position; none when the signature is not known."""
    try:
        parameters = inspect.signature(fun).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


@dataclasses.dataclass(frozen=True, slots=True)
class Leaves:
    """The leaves of what a call passes, static arguments left out.

    Attributes:
      tree: their pytree structure: of `(args, kwargs)`, or of `((function, *args), kwargs)` for a function that holds
        arrays of its own.
      keys: the key path of each.
      paths: how the user would write each.
      fixed: those that are no arrays, by index.
      abstract: the others, by index: what JAX traces for them.
    """

    tree: Any
    keys: tuple[tuple[Any, ...], ...]
    paths: tuple[str, ...]
    fixed: Mapping[int, Any]
    abstract: Mapping[int, Any]

    @classmethod
    def of(
        cls,
        given: Any,
        names: Callable[[Sequence[Any]], str],
        is_setting: Callable[[Sequence[Any], Any], bool] = lambda _path, _leaf: False,
        *,
        are_arrays: bool = False,
    ) -> Leaves:
        """Takes a call's pytree apart.

        Args:
          given: the pytree.
          names: a key path into it to what the user would write.
          is_setting: whether a leaf is fixed though it could be an array, by key path and value.
          are_arrays: whether a leaf that is no array is an error.

        Raises:
          ArgumentError: such a leaf; or one whose shape and dtype are none.
        """
        with_paths, tree = jax.tree_util.tree_flatten_with_path(given)
        paths = tuple(names(path) for path, _ in with_paths)
        fixed = {
            i: leaf
            for i, (path, leaf) in enumerate(with_paths)
            if not are_arrays and (not is_array(leaf) or is_setting(path, leaf))
        }
        abstract = {i: abstract_leaf(leaf, paths[i]) for i, (_, leaf) in enumerate(with_paths) if i not in fixed}
        return cls(tree, tuple(path for path, _ in with_paths), paths, fixed, abstract)

    def without_values(self) -> Leaves:
        """The same for binding other calls, which keeps no array alive."""
        return dataclasses.replace(self, abstract=dict.fromkeys(self.abstract))

    @property
    def dynamic_paths(self) -> tuple[str, ...]:
        """Of the arrays, in order."""
        return tuple(self.paths[i] for i in self.abstract)

    @property
    def notes(self) -> tuple[str, ...]:
        """What became static by itself, for people."""
        return tuple(f"{self.paths[i]} = {_said(value)}" for i, value in self.fixed.items())

    def filled(self, values: Sequence[Any]) -> Any:
        """The pytree with values for the arrays, and with the rest as it was given."""
        given = dict(zip(self.abstract, values, strict=True))
        whole = [given[i] if i in given else self.fixed[i] for i in range(len(self.paths))]
        return jax.tree_util.tree_unflatten(self.tree, whole)

    def holed(self) -> Any:
        """The pytree with abstract arrays, and without the rest: what JAX can trace."""
        return jax.tree_util.tree_unflatten(self.tree, [self.abstract.get(i) for i in range(len(self.paths))])

    def values(self, given: Any, name: str) -> list[Any]:
        """The arrays of another call's pytree.

        Raises:
          ExecutionError: another structure, or something else where the program has a fixed value.
        """
        leaves, tree = jax.tree_util.tree_flatten(given)
        if len(leaves) != len(self.paths):
            dynamic = self.dynamic_paths
            raise ExecutionError(
                f"{name} takes {counted(len(dynamic), 'array')} ({', '.join(dynamic[:8])}{', ...' if len(dynamic) > 8 else ''}), got"
                f" {len(leaves)}. Pass the arguments that it was lowered with; static ones may be left out."
            )
        if not _same(tree, self.tree):
            raise ExecutionError(
                f"{name} was lowered for arguments of the structure {self.tree}, got {tree}. Pass the same pytrees that"
                " it was lowered with; static arguments may be left out."
            )
        for i, value in self.fixed.items():
            check_static(name, self.paths[i], value, leaves[i])
        return [leaves[i] for i in self.abstract]


def is_array(leaf: Any) -> bool:
    """Whether JAX can take it for an array: numbers and what has shape and dtype, but not texts and objects."""
    if isinstance(leaf, np.ndarray | np.generic):
        return leaf.dtype.kind not in "OSUMm"
    return isinstance(leaf, bool | int | float | complex | jax.Array | jax.ShapeDtypeStruct) or looks_like_array(leaf)


def check_static(name: str, path: str, lowered: Any, given: Any) -> None:
    """Refuses another value than a program was lowered with, which it has in it.

    Raises:
      ExecutionError: it is another.
    """
    if not _same(lowered, given):
        raise ExecutionError(
            f"{path} is static: {name} was lowered with {short(lowered)}, got {short(given)}. Lower the function for that."
        )


def traceable(fun: Any) -> bool:
    """Whether `jax.jit` takes the function as it is: it must be hashable, and referable to weakly."""
    try:
        hash(fun)
        weakref.ref(fun)
    except TypeError:
        return False
    return True


def holds_arrays(fun: Any) -> bool:
    """Whether a function is itself a pytree with arrays, such as an Equinox module.

    A partial is not meant: `jax.jit` has always taken what it binds as constants.
    """
    if isinstance(fun, functools.partial):
        return False
    leaves = jax.tree_util.tree_leaves(fun)
    return not (len(leaves) == 1 and leaves[0] is fun) and any(
        isinstance(leaf, jax.Array | np.ndarray) for leaf in leaves
    )


@dataclasses.dataclass(slots=True)
class Outputs:
    """Results apart, as the arguments: filled in while the function is traced.

    Attributes:
      strict: refuses results with non-array leaves, as JAX does.
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
        """The result as the function returns it."""
        rest = iter(arrays)
        count = len(arrays) + len(self.fixed)
        return jax.tree_util.tree_unflatten(
            self.tree, [self.fixed[i] if i in self.fixed else next(rest) for i in range(count)]
        )


def _same(one: Any, other: Any) -> bool:
    """Equality that no object can turn into an error: what cannot be compared is equal to itself only."""
    if one is other:
        return True
    try:
        return type(one) is type(other) and bool(one == other)
    except Exception:  # arrays, and whatever else a user's __eq__ raises
        return False


def _said(value: Any) -> str:
    name = getattr(value, "__name__", None)
    return f"{name} ({type(value).__name__})" if isinstance(name, str) else short(value)
