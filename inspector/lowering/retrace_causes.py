"""Finds the retraces and recompiles that another call of a function causes. Both calls are traced and lowered, not run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax

from inspector._jax.lowering import jitted_calls
from inspector.errors import ParameterError
from inspector.lowering.assemble import fun_name, mapped_errors
from inspector.stages.retrace_events import Retrace
from inspector.stages.retraces import compile_between, watch_retraces

Call = tuple[Sequence[Any], Mapping[str, Any]]


def retraces(
    fun: Any,
    first: Call,
    second: Call,
    static_argnums: int | Iterable[int] = (),
    static_argnames: str | Iterable[str] = (),
) -> tuple[Retrace, ...]:
    """Returns the retraces that a second call of a function causes after a first one, or else its recompile.

    Returns () if the second call reuses the trace and the executable of the first. Shardings, devices and whether arrays
    are committed matter as in a real call, so concrete arrays give a more accurate answer than their shapes.

    Args:
      fun: a function jitted by JAX or a library, or a plain function, which is jitted.
      first: positional and keyword arguments of the first call, as for `lower`.
      second: positional and keyword arguments of the second call.
      static_argnums: positions of static arguments of a plain function.
      static_argnames: names of static arguments of a plain function.

    Raises:
      LoweringError: one of the calls cannot be traced.
      ParameterError: `fun` is not a function.
    """
    if not callable(fun) or isinstance(fun, jax.stages.Compiled):
        raise ParameterError(f"Only a function can be traced again, but {fun_name(fun)} is a {type(fun).__name__}.")
    jitted = fun
    if not hasattr(fun, "trace") and not hasattr(fun, "lower"):
        numbers = static_argnums if isinstance(static_argnums, int) else tuple(static_argnums)
        names = static_argnames if isinstance(static_argnames, str) else tuple(static_argnames)
        jitted = jax.jit(fun, static_argnums=numbers, static_argnames=names)
    with mapped_errors(fun, None):
        before = jitted_calls.jitted_call(jitted, *first)
        with watch_retraces() as watched:
            now = jitted_calls.jitted_call(jitted, *second)
        if len(watched) or before is None or now is None:
            return tuple(watched)
        again = compile_between(before.traced, now.traced)
    return () if again is None else (again,)
