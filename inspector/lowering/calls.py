"""Splits a call of a plain function for tracing: arrays, static arguments and donated arguments."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

import jax

from inspector.errors import ParameterError
from inspector.lowering.arguments import argument_names, original_path, resolve_positions
from inspector.lowering.assemble import fun_name
from inspector.lowering.bindings import Call, CallBinding
from inspector.lowering.leaves import (
    NUMBERS,
    Leaves,
    Outputs,
    Static,
    check_hashable,
    holds_arrays,
    positional_parameters,
    traceable,
)
from inspector.lowering.wrappers import TracedCall
from inspector.support.tracebacks import calls_users_code

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class Marks:
    """Static and donated arguments, as in the parameters of `jax.jit`.

    Attributes:
      static_argnums: positions of static arguments.
      static_argnames: names of static arguments.
      donate_argnums: positions of arguments whose buffers may be reused.
    """

    static_argnums: tuple[int, ...] = ()
    static_argnames: tuple[str, ...] = ()
    donate_argnums: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.static_argnums or self.static_argnames or self.donate_argnums)

    def check_none(self, name: str) -> None:
        """Refuses marks for a function that is jitted already.

        Raises:
          ParameterError: an argument is marked.
        """
        if self:
            raise ParameterError(
                f"{name} is jitted already, so static_argnums, static_argnames and donate_argnums cannot be added."
                " Pass them to jax.jit, or pass the plain function."
            )


@dataclasses.dataclass(frozen=True, slots=True)
class PlainCall:
    """A call of a function that is not jitted.

    Attributes:
      fun: the function.
      args, kwargs: its arguments.
      static: positions and names of static arguments.
      donated: positions of arguments whose buffers may be reused.
      lifted: whether the function is a pytree with arrays, which become arguments too.
      leaves: the leaves of all arguments that are not static.
    """

    fun: Callable[..., Any]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    static: Static
    donated: Collection[int]
    lifted: bool
    leaves: Leaves

    @classmethod
    def of(
        cls, fun: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], marks: Marks, *,
        are_arrays: bool = False, settings: Collection[type] = (),
    ) -> PlainCall:  # fmt: skip
        """Splits a call.

        Args:
          fun: the function.
          args: positional arguments.
          kwargs: keyword arguments.
          marks: static and donated arguments.
          are_arrays: whether a non-array leaf is an error; otherwise it becomes static.
          settings: types of Python numbers that become static as well. Numbers that the function itself holds are
            always static: a plain call treats them as constants.

        Raises:
          ArgumentError: a non-array leaf, with `are_arrays`.
          ParameterError: marks that do not fit the call.
        """
        parameters = len(positional_parameters(fun))
        _, donated = resolve_positions(
            args, marks.static_argnums, marks.donate_argnums, fun_name(fun), 0 if are_arrays else parameters
        )
        static = Static.of(fun, args, marks.static_argnums, marks.static_argnames)
        lifted = not are_arrays and holds_arrays(fun)
        (dynamic, named), fixed = static.split(args, kwargs)
        check_hashable(fun, fun_name(fun), fixed)
        names = _names(fun, args, static, lifted)
        inputs = ((fun, *dynamic) if lifted else dynamic, named)

        def is_setting(path: Sequence[Any], leaf: Any) -> bool:
            is_own = lifted and path[0].idx == 0 and path[1].idx == 0
            return type(leaf) in (NUMBERS if is_own else settings)

        leaves = Leaves.of(inputs, names, is_setting, are_arrays=are_arrays)
        return cls(fun, args, kwargs, static, donated, lifted, leaves)

    @property
    def is_donated(self) -> list[bool]:
        """Reports for each array whether its buffer may be reused."""
        places = {place: i for i, place in enumerate(self._places())}
        donated = {places[i] for i in self.donated}
        keys = (self.leaves.keys[i] for i in self.leaves.abstract)
        return [where.idx == 0 and key.idx in donated for where, key, *_ in keys]

    @calls_users_code
    def apply(self, arrays: Sequence[Any]) -> Any:
        """Calls the function with the given arrays as its array leaves."""
        inputs, named = self.leaves.filled(arrays)
        fun, *inputs = inputs if self.lifted else (self.fun, *inputs)
        full, keywords = self._whole(inputs, named)
        return fun(*full, **keywords)

    def binding(self, whole: Callable[[Sequence[Any]], Any]) -> CallBinding:
        """Returns the binding for other calls; `whole` builds the result from the program's output arrays."""
        _, settings = self.static.split(self.args, self.kwargs)
        fun = self.fun if self.lifted else None
        return CallBinding(
            fun_name(self.fun), self.leaves.without_values(), self.static, settings, len(self.args), whole, fun
        )

    def trace(self, marks: Marks) -> TracedCall:
        """Traces as `jax.jit` does if it can, or else as a function of the arrays alone."""
        if not self.leaves.fixed and not self.lifted and traceable(self.fun):
            try:
                traced = self._trace_whole(marks)
            except TypeError as error:
                if _RETURNED not in str(error):
                    raise
            else:
                out_tree = jax.tree_util.tree_structure(traced.out_info)
                whole = functools.partial(jax.tree_util.tree_unflatten, out_tree)
                return TracedCall(traced, Call(self.leaves.dynamic_paths, self.binding(whole)))
        outputs = Outputs()
        traced = self._trace_arrays(outputs)
        call = Call(self.leaves.dynamic_paths, self.binding(outputs.whole), self.leaves.notes)
        return TracedCall(traced, call)

    @calls_users_code
    def _trace_whole(self, marks: Marks) -> jax.stages.Traced:
        inputs, named = self.leaves.holed()
        full, keywords = self._whole(inputs, named)
        jitted = jax.jit(
            self.fun,
            static_argnums=marks.static_argnums or None,
            static_argnames=marks.static_argnames or None,
            donate_argnums=marks.donate_argnums or None,
        )
        return jitted.trace(*full, **keywords)

    def _whole(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Returns the arguments of the call, static ones included."""
        full = list(self.args)
        for position, value in zip(self._dynamic(), inputs, strict=True):
            full[position] = value
        return full, {**named, **{name: value for name, value in self.kwargs.items() if name in self.static.names}}

    @calls_users_code
    def _trace_arrays(self, outputs: Outputs) -> jax.stages.Traced:
        def call(*args: Any, **kwargs: Any) -> Any:
            return outputs.keep(self.apply(jax.tree_util.tree_leaves((args, kwargs))))

        call.__name__ = fun_name(self.fun, type(self.fun).__name__)
        call.__qualname__ = getattr(self.fun, "__qualname__", call.__name__)
        if not self.lifted and not self.static.positions:
            call.__wrapped__ = self.fun  # type: ignore[attr-defined]  # whose signature names the arguments
        places = self._places()
        donated = tuple(i for i, place in enumerate(places) if place in self.donated)
        inputs, named = self.leaves.holed()
        return jax.jit(call, donate_argnums=donated).trace(*inputs, **named)

    def _dynamic(self) -> list[int]:
        return [i for i in range(len(self.args)) if i not in self.static.positions]

    def _places(self) -> list[int]:
        """Returns the position of each traced argument in the call; -1 for the function itself."""
        return [-1, *self._dynamic()] if self.lifted else self._dynamic()


def _names(fun: Any, args: Sequence[Any], static: Static, lifted: bool) -> Callable[[Sequence[Any]], str]:
    """Returns a function that names key paths into the traced arguments."""
    named = argument_names(fun, len(args))
    dynamic = [i for i in range(len(args)) if i not in static.positions]

    def name(path: Sequence[Any]) -> str:
        where, key, *rest = path
        if lifted and where.idx == 0:
            if key.idx == 0:
                return f"self{jax.tree_util.keystr(tuple(rest))}"
            path = (where, jax.tree_util.SequenceKey(key.idx - 1), *rest)
        return named(original_path(path, dynamic))

    return name


def settled(args: Any, make: Callable[[tuple[type, ...]], T]) -> T:
    """Traces a call with as few Python numbers static as possible.

    `jax.jit` traces all numbers, and fails where the function needs a value: `if train:`, `jnp.zeros(n)`.

    Args:
      args: the arguments of the call, a pytree.
      make: traces the call with numbers of the given types static.

    Raises:
      Exception: the error of `make` with all numbers traced, if no choice helps.
    """
    present = {type(leaf) for leaf in jax.tree_util.tree_leaves(args)}
    try:
        return make(())
    except _VALUE_NEEDED as error:
        for count in range(1, len(NUMBERS) + 1):
            if NUMBERS[count - 1] in present:
                with contextlib.suppress(*_VALUE_NEEDED):
                    return make(NUMBERS[:count])
        raise error from error.__cause__


_VALUE_NEEDED = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.TracerArrayConversionError,
    TypeError,
)

# From JAX's message for a function that returns a non-array value.
_RETURNED = "returned a value of type"
