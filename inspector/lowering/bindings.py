"""Maps the arguments of a call to the program's input arrays, and its output arrays to the call's result.

A `Program` has a binding in the process that lowered it. `execution/` uses it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from inspector.lowering.leaves import Leaves, Static, check_static


class Binding:
    """Base class of bindings. A binding refers to the user's function, so it exists in one process only."""

    __slots__ = ()

    def leaves(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Sequence[Any]:
        """Returns the values of the program's arguments, in order.

        Raises:
          ExecutionError: the program is not for these arguments.
        """
        raise NotImplementedError

    def result(self, outputs: Sequence[Any]) -> Any:
        """Builds the function's return value from the program's results; Unavailable if its structure is unknown."""
        raise NotImplementedError


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
    """The inputs and outputs of a program in terms of the user's call.

    Attributes:
      paths: Python expression of each argument of the program, such as `params['w']`.
      binding: maps the arguments of other calls to arguments of the program.
      notes: arguments that are treated as static because they are not arrays.
      result_names: names of results for which a library's wrapper has places of its own, by the name of the place.
    """

    paths: tuple[str, ...]
    binding: Binding
    notes: tuple[str, ...] = ()
    result_names: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class CallBinding(Binding):
    """Binding of a function whose arguments were flattened by inspector or by `jax.jit` itself.

    Attributes:
      name: the function's name.
      own: the leaves that the program takes, and the fixed values of the others.
      static: positions and names of static arguments.
      settings: values of the static arguments.
      positional: number of positional arguments of the whole call.
      whole: builds the result from the program's output arrays.
      fun: a function that holds arrays, which are the first leaves; None for other functions.
    """

    name: str
    own: Leaves
    static: Static
    settings: Mapping[int | str, Any]
    positional: int
    whole: Callable[[Sequence[Any]], Any]
    fun: Any = None

    def leaves(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Sequence[Any]:
        """See `Binding`. Static arguments may be passed or omitted."""
        dynamic: tuple[Any, ...] = (tuple(args), dict(kwargs))
        if len(args) == self.positional:
            dynamic, fixed = self.static.split(args, kwargs)
            for key, value in fixed.items():
                if key in self.settings:
                    check_static(self.name, f"argument {key!r}", self.settings[key], value)
        if self.fun is not None:
            dynamic = ((self.fun, *dynamic[0]), dynamic[1])
        return self.own.values(dynamic, self.name)

    def result(self, outputs: Sequence[Any]) -> Any:
        """See `Binding`."""
        return self.whole(outputs)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class PartialBinding(Binding):
    """Binding of a bound method or a partial: the arguments that it binds come before those of the call.

    Attributes:
      inner: binding of the wrapped function.
      args: bound positional arguments.
      kwargs: bound keyword arguments.
    """

    inner: Binding
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    def leaves(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Sequence[Any]:
        """See `Binding`."""
        return self.inner.leaves((*self.args, *args), {**self.kwargs, **kwargs})

    def result(self, outputs: Sequence[Any]) -> Any:
        """See `Binding`."""
        return self.inner.result(outputs)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class StageBinding(Binding):
    """Binding of a JAX stage, whose arguments JAX has flattened.

    Attributes:
      name: the program's name.
      in_tree: the pytree structure of `(args, kwargs)` without static arguments.
      out_shape: the pytree of the result.
    """

    name: str
    in_tree: Any
    out_shape: Any

    def leaves(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Sequence[Any]:
        """See `Binding`."""
        count = self.in_tree.num_leaves
        own = Leaves(self.in_tree, (), tuple(f"[{i}]" for i in range(count)), {}, dict.fromkeys(range(count)))
        return own.values((tuple(args), dict(kwargs)), self.name)

    def result(self, outputs: Sequence[Any]) -> Any:
        """See `Binding`."""
        return jax.tree_util.tree_unflatten(jax.tree_util.tree_structure(self.out_shape), outputs)
