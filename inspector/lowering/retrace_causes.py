"""The traces and compiles that another call of a function would cause. Both calls are traced and lowered; nothing runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax

from inspector._jax.caches.retraces import Retrace, compile_between, watch_retraces
from inspector._jax.lowering import jitted_calls
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
    """Returns the traces that a second call of a function causes after a first one, or else its compile.

    () where the second call takes the trace and the executable of the first. Shardings, devices and whether arrays are
    committed count as they do in a call, so concrete arrays say more than their shapes.

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
    with mapped_errors(fun, None):
        before = jitted_calls.jitted_call(jitted, *first)
        with watch_retraces() as found:
            now = jitted_calls.jitted_call(jitted, *second)
        if len(found) or before is None or now is None:
            return tuple(found)
        again = compile_between(before.traced, now.traced)
    return () if again is None else (again,)
