"""What JAX would trace anew for another call of a function: a call with abstract arguments runs nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax

from inspector._jax.retraces import Retrace, watch_retraces
from inspector.errors import ParameterError
from inspector.lowering.assemble import fun_name, mapped_errors

Call = tuple[Sequence[Any], Mapping[str, Any]]


def retraces(
    fun: Any,
    first: Call,
    second: Call,
    static_argnums: int | Iterable[int] = (),
    static_argnames: str | Iterable[str] = (),
) -> tuple[Retrace, ...]:
    """Why a second call of a function is traced again after a first one; () where JAX has its trace by then.

    Args:
      fun: a function, jitted by JAX or a library; a plain one as `jax.jit` would take it.
      first: positional and keyword arguments, as `lower` takes them.
      second: likewise.
      static_argnums: of a plain function.
      static_argnames: of a plain function.

    Raises:
      LoweringError: one of the calls cannot be traced.
      ParameterError: no function.
    """
    if not callable(fun) or isinstance(fun, jax.stages.Compiled):
        raise ParameterError(f"Only a function can be traced again, and {fun_name(fun)} is a {type(fun).__name__}.")
    jitted = fun
    if not hasattr(fun, "trace") and not hasattr(fun, "lower"):
        numbers = static_argnums if isinstance(static_argnums, int) else tuple(static_argnums)
        names = static_argnames if isinstance(static_argnames, str) else tuple(static_argnames)
        jitted = jax.jit(fun, static_argnums=numbers, static_argnames=names)
    trace = jitted.trace if hasattr(jitted, "trace") else jitted.lower
    with mapped_errors(fun, None):
        trace(*first[0], **first[1])
        with watch_retraces() as found:
            trace(*second[0], **second[1])
    return tuple(found)
