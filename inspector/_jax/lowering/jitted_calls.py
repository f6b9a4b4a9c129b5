"""What a library's wrapper hands to `jax.jit`: the call is traced as the wrapper makes it, and caught there.

Equinox's `filter_jit`, Flax's `nnx.jit` and the like split and merge their arguments around a jitted function
of their own. Their `trace` or `lower` calls its; that call has the very program that the library would compile.

Private JAX: `pjit.jit_trace` and the `trace` of jitted functions (every tracing ahead of time goes through
them), `Traced.lower` (stopped, because it lowers for a platform that nobody asked for).
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

# One caught call at a time: the functions that are swapped belong to all threads.
_catching = threading.RLock()


@dataclasses.dataclass(frozen=True, slots=True)
class JittedCall:
    """A call of a jitted function.

    Attributes:
      traced: what JAX made of it.
      jitted: the function that `jax.jit` gave.
      args: as the function got them, static ones included.
      kwargs: likewise.
    """

    traced: Traced
    jitted: UserFunction
    args: tuple[UserValue, ...]
    kwargs: Mapping[str, UserValue]

    @property
    def leaves(self) -> list[UserValue]:
        """The values of the program's arguments, in order: the array leaves of what is not static."""
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
    """Whether `jax.jit` itself gave the function."""
    return isinstance(fun, type(_example())) and hasattr(fun, "_jit_info")


def jitted_call(fun: UserValue, args: Sequence[UserValue], kwargs: Mapping[str, UserValue]) -> JittedCall | None:
    """The jitted call behind `fun.trace(...)`, or else `fun.lower(...)`; None where there is none.

    Raises:
      Exception: what the function itself raises while it is traced.
    """
    with _caught() as catch:
        try:
            stage = (fun.trace if hasattr(fun, "trace") else fun.lower)(*args, **kwargs)
        except _LoweringReached as reached:
            stage = reached.traced
        except Exception:
            if catch.calls or catch.depth:
                raise
            return None  # a method that is called so and has nothing to do with JAX, such as a matrix's trace
    traced = innermost(stage)
    return next((call for call in catch.calls if call.traced is traced), None)


def innermost(stage: UserValue) -> UserValue:
    """JAX's own stage inside a library's object for it, by the names that libraries have for it; else what was given."""
    inner = stage
    for _ in range(4):
        if isinstance(inner, Traced | jax.stages.Lowered | jax.stages.Compiled):
            return inner
        inner = next((getattr(inner, n) for n in ("traced", "lowered", "compiled") if hasattr(inner, n)), None)
    return stage


class _LoweringReached(BaseException):
    """Ends a wrapper's `lower` where JAX would lower; no library takes it for an error of its own."""

    def __init__(self, traced: Any) -> None:
        self.traced = traced


@dataclasses.dataclass
class _Catch:
    """Calls so far, and how many are being traced: what user code lowers in there is its own affair."""

    calls: list[JittedCall] = dataclasses.field(default_factory=list)
    depth: int = 0


@contextlib.contextmanager
def _caught() -> Iterator[_Catch]:
    """While it is open, this thread's tracings ahead of time are kept and its lowerings stopped."""
    with _catching:
        catch, thread = _Catch(), threading.get_ident()
        trace, lower, jitted = pjit.jit_trace, Traced.lower, type(_example())

        @functools.wraps(trace)
        def kept_trace(fun: Any, *args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() != thread:
                return trace(fun, *args, **kwargs)
            catch.depth += 1
            traced = trace(fun, *args, **kwargs)
            catch.depth -= 1  # not after an error: it says that JAX was reached
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
    """Whether two calls were traced to one program; JAX's own cache answers for arguments of the same kind."""
    return one.jaxpr is other.jaxpr or str(one.jaxpr) == str(other.jaxpr)


def result_places(call: UserFunction, arrays: Sequence[UserValue], traced: Traced) -> list[int] | None:
    """Which result of a jitted call each array that a function returns is; None when some are none of them.

    Args:
      call: makes the jitted call.
      arrays: its arguments.
      traced: what JAX made of the jitted call before.

    Raises:
      Exception: what the function itself raises while it is traced.
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
    found = [places.get(var) for var in inner.outvars if not hasattr(var, "val")]
    return None if None in found or len(found) != len(inner.outvars) else found  # type: ignore[return-value]
