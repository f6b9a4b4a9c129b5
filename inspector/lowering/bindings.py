"""How the arguments of a call become the arrays that a program takes, and its arrays the call's result.

A `Program` carries one, in the process where it was lowered; `execution/` asks it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from inspector.lowering.leaves import Leaves, Static, check_static


class Binding:
    """What every binding offers. It knows the user's function, so it lives in one process."""

    __slots__ = ()

    def leaves(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Sequence[Any]:
        """The values of the program's arguments, in order.

        Raises:
          ExecutionError: the program is not for these arguments.
        """
        raise NotImplementedError

    def result(self, outputs: Sequence[Any]) -> Any:
        """What the function returns, of the program's results; Unavailable where that is not known."""
        raise NotImplementedError


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
    """A call as its program's ends tell it.

    Attributes:
      paths: how the user would write each argument of the program.
      binding: how other calls become arguments of the program.
      notes: what became static by itself.
    """

    paths: tuple[str, ...]
    binding: Binding
    notes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class CallBinding(Binding):
    """Arguments of a function that inspector or `jax.jit` itself took apart.

    Attributes:
      name: the function's.
      own: the leaves that the program takes, and what it was lowered with in place of the others.
      static: which arguments are settings.
      settings: their values.
      positional: arguments of the whole call that have no name.
      whole: makes the result of the program's arrays.
      fun: a function whose own arrays come first among the leaves, else None.
    """

    name: str
    own: Leaves
    static: Static
    settings: Mapping[int | str, Any]
    positional: int
    whole: Callable[[Sequence[Any]], Any]
    fun: Any = None

    def leaves(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Sequence[Any]:
        """See `Binding`; static arguments may be given or left out."""
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
    """Arguments of a bound method or a partial: those of its function, with what it binds in front.

    Attributes:
      inner: of the function.
      args: what is bound.
      kwargs: likewise.
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
    """Arguments of a JAX stage, which took them apart before it was given.

    Attributes:
      name: the program's.
      in_tree: the pytree structure of `(args, kwargs)`, static arguments left out.
      out_shape: the result's pytree.
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
