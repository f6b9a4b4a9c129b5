"""Intercepts the call of `jax.jit` inside a library's wrapper: traces the function as the wrapper does and captures the jitted call.

Equinox's `filter_jit`, Flax's `nnx.jit` and similar wrappers split and merge their arguments around an inner
jitted function. Their `trace` or `lower` calls that function; the captured call has the exact program that the library would compile.

Private JAX: `pjit.jit_trace` and the `trace` of jitted functions (every ahead-of-time trace goes through
them), `Traced.lower` (stopped, because it would lower for a platform that was not requested).
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
from jax._src import pjit

from inspector._jax.lowering.jaxprs import open_jaxpr
from inspector._jax.lowering.stages import Traced, static_arguments
from inspector._jax.values import UserFunction, UserValue

# One capture at a time: the replaced functions are shared by all threads.
_catching = threading.RLock()


@dataclasses.dataclass(frozen=True, slots=True)
class JittedCall:
    """A call of a jitted function.

    Attributes:
      traced: JAX's traced form of the call.
      jitted: the function that `jax.jit` returned.
      args: positional arguments as passed, including static ones.
      kwargs: keyword arguments, likewise.
    """

    traced: Traced
    jitted: UserFunction
    args: tuple[UserValue, ...]
    kwargs: Mapping[str, UserValue]

    @property
    def leaves(self) -> list[UserValue]:
        """The values of the program's arguments, in order: the array leaves of the non-static arguments."""
        return jax.tree_util.tree_leaves(self.dynamic)

    @property
    def dynamic(self) -> tuple[tuple[UserValue, ...], dict[str, UserValue]]:
        """Positional and keyword arguments that are not static."""
        positions, names = static_arguments(self.jitted)
        fixed = {n % len(self.args) for n in positions if -len(self.args) <= n < len(self.args)}
        return (
            tuple(a for i, a in enumerate(self.args) if i not in fixed),
            {name: value for name, value in self.kwargs.items() if name not in names},
        )


def is_jitted(fun: UserValue) -> bool:
    """Reports whether the function was returned by `jax.jit` itself."""
    return isinstance(fun, type(_example())) and hasattr(fun, "_jit_info")


def jitted_call(fun: UserValue, args: Sequence[UserValue], kwargs: Mapping[str, UserValue]) -> JittedCall | None:
    """Returns the jitted call inside `fun.trace(...)`, or else `fun.lower(...)`; None if there is none.

    Raises:
      Exception: the function's own exception while it is traced.
    """
    with _caught() as catch:
        try:
            stage = (fun.trace if hasattr(fun, "trace") else fun.lower)(*args, **kwargs)
        except _LoweringReached as reached:
            stage = reached.traced
        except Exception:
            if catch.calls or catch.depth:
                raise
            return None  # a method of this name that has nothing to do with JAX, such as a matrix's trace
    traced = innermost(stage)
    return next((call for call in catch.calls if call.traced is traced), None)


def innermost(stage: UserValue) -> UserValue:
    """Returns JAX's own stage inside a library's object, found by the attribute names that libraries use; else the object itself."""
    inner = stage
    for _ in range(4):
        if isinstance(inner, Traced | jax.stages.Lowered | jax.stages.Compiled):
            return inner
        inner = next((getattr(inner, n) for n in ("traced", "lowered", "compiled") if hasattr(inner, n)), None)
    return stage


class _LoweringReached(BaseException):
    """Ends a wrapper's `lower` where JAX would lower; a BaseException, so that libraries do not handle it."""

    def __init__(self, traced: Any) -> None:
        self.traced = traced


@dataclasses.dataclass
class _Catch:
    """The calls captured so far, and the number being traced; lowerings by user code inside a trace are not stopped."""

    calls: list[JittedCall] = dataclasses.field(default_factory=list)
    depth: int = 0


@contextlib.contextmanager
def _caught() -> Iterator[_Catch]:
    """Records this thread's ahead-of-time traces and stops its lowerings."""
    with _catching:
        catch, thread = _Catch(), threading.get_ident()
        trace, lower, jitted = pjit.jit_trace, Traced.lower, type(_example())

        @functools.wraps(trace)
        def kept_trace(fun: Any, *args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() != thread:
                return trace(fun, *args, **kwargs)
            catch.depth += 1
            traced = trace(fun, *args, **kwargs)
            catch.depth -= 1  # not after an error: a positive depth shows that JAX was reached
            catch.calls.append(JittedCall(traced, fun, args, kwargs))
            return traced

        @functools.wraps(lower)
        def stopped_lower(traced: Any, *args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() == thread and not catch.depth:
                raise _LoweringReached(traced)
            return lower(traced, *args, **kwargs)

        pjit.jit_trace = jitted.trace = kept_trace  # type: ignore[attr-defined,assignment]
        Traced.lower = stopped_lower  # type: ignore[method-assign,assignment]
        try:
            yield catch
        finally:
            pjit.jit_trace = jitted.trace = trace  # type: ignore[attr-defined]
            Traced.lower = lower  # type: ignore[method-assign]


@functools.cache
def _example() -> Callable[..., Any]:
    return jax.jit(lambda: None)


def is_same_program(one: Traced, other: Traced) -> bool:
    """Reports whether two calls were traced to the same program. For arguments of the same kind, JAX's cache returns the same jaxpr."""
    return one.jaxpr is other.jaxpr or str(one.jaxpr) == str(other.jaxpr)


def result_places(call: UserFunction, arrays: Sequence[UserValue], traced: Traced) -> list[int] | None:
    """Returns the index of the jitted call's result for each array that a function returns; None if some array is not such a result.

    Args:
      call: a function that makes the jitted call.
      arrays: its arguments.
      traced: the traced form of the jitted call.

    Raises:
      Exception: the function's own exception while it is traced.
    """
    inner = open_jaxpr(jax.make_jaxpr(call)(*arrays))
    names = ("jit", "pjit")
    calls = [
        eqn for eqn in inner.eqns if eqn.primitive.name in names and eqn.params["name"] == traced.fun_name
        and len(eqn.outvars) == len(traced.jaxpr.out_avals)
    ]  # fmt: skip
    if len(calls) != 1:
        return None
    places = {var: number for number, var in enumerate(calls[0].outvars)}
    results = [places.get(var) for var in inner.outvars if not hasattr(var, "val")]
    return None if None in results or len(results) != len(inner.outvars) else results  # type: ignore[return-value]
