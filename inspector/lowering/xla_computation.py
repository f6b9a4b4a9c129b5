"""`xla_computation`: the function that was removed in JAX 0.4.34, with its full signature and behavior.

Tests compare it with recorded behavior of JAX 0.4.30 (`tests/data/oracle`).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

from inspector._jax.lowering import stages
from inspector.errors import ParameterError, check_bool
from inspector.lowering.arguments import positions
from inspector.lowering.assemble import mapped_errors
from inspector.lowering.axis_env import AxisEnv, parse_axis_env
from inspector.lowering.calls import Marks, PlainCall
from inspector.lowering.replicas import lower_replicas
from inspector.support.notebook import short
from inspector.support.tracebacks import without_own_frames


@without_own_frames
def xla_computation(
    fun: Callable[..., Any],
    static_argnums: int | Iterable[int] = (),
    axis_env: AxisEnv | None = None,
    in_parts: Any = None,
    out_parts: Any = None,
    backend: str | None = None,
    tuple_args: bool = False,
    instantiate_const_outputs: bool | None = None,
    return_shape: bool = False,
    donate_argnums: int | Iterable[int] = (),
) -> Callable[..., Any]:
    """Returns a function that maps example arguments to the XLA computation of `fun`.

    Args:
      fun: the function; takes and returns pytrees of arrays.
      static_argnums: positions of arguments that are compile-time constants.
      axis_env: axis names and sizes that collectives in `fun` may use, as `jax.pmap` would bind
        them: `[('i', 4), ('j', 2)]`. Needs no devices, and lowering time does not depend on the size.
      in_parts: must be None. It belonged to `sharded_jit`, which JAX has removed.
      out_parts: must be None, for the same reason.
      backend: platform to lower for ("cpu", "gpu", "tpu"); None for the default. It need not be attached. JAX never
        checked the name: another name is an error only where a primitive has no rule for all platforms.
      tuple_args: pass all arguments as one tuple. None never tupled in the versions that ran.
      instantiate_const_outputs: must be None. It had no effect, and JAX 0.4.30 rejected it.
      return_shape: return `(computation, out_shape)`, the second a pytree of objects with shape
        and dtype like the result of `fun`.
      donate_argnums: positions of arguments whose buffers the computation may reuse.

    Returns:
      A function of example arguments. Its result is jaxlib's `XlaComputation`, with
      `as_hlo_text()`, `as_serialized_hlo_module_proto()` and `as_hlo_dot_graph()`.

    Raises:
      ParameterError: a parameter cannot be applied (a ValueError).
      ArgumentError: an example argument or a result is not an array (a TypeError).
      UnboundAxisError: a collective uses an axis that `axis_env` does not name (a NameError).
    """
    for name, value in (
        ("instantiate_const_outputs", instantiate_const_outputs), ("in_parts", in_parts), ("out_parts", out_parts),
    ):  # fmt: skip
        if value is not None:
            raise ParameterError(f"{name}={short(value)} cannot be applied: {_GONE[name]} Remove it.")
    if not callable(fun):
        raise TypeError(f"Expected a callable value, got {short(fun)}.")
    if inspect.isgeneratorfunction(fun):
        raise TypeError(f"Expected a function, got a generator function: {short(fun)}.")
    check_bool("return_shape", return_shape)
    if tuple_args is not None:  # callers of JAX's function passed None
        check_bool("tuple_args", tuple_args)
    marks = Marks(positions(static_argnums), donate_argnums=positions(donate_argnums))
    stages.hide_own_frames()

    @without_own_frames
    def computation_maker(*args: Any, **kwargs: Any) -> Any:
        with mapped_errors(fun, axis_env):
            lowered = lower_replicas(
                PlainCall.of(fun, args, kwargs, marks, are_arrays=True), parse_axis_env(axis_env), backend,
                f"xla_computation_{getattr(fun, '__name__', 'unknown')}",
                tuple_args=bool(tuple_args), return_tuple=True,
            )  # fmt: skip
        return (lowered.computation, lowered.out_shape) if return_shape else lowered.computation

    return functools.wraps(fun)(computation_maker) if hasattr(fun, "__name__") else computation_maker


_GONE = {
    "instantiate_const_outputs": "it had no effect, and JAX 0.4.30 rejected it.",
    "in_parts": "sharded_jit, whose partitioning it described, was removed. Use jax.jit with shardings, or jax.shard_map.",
    "out_parts": "sharded_jit, whose partitioning it described, was removed. Use jax.jit with shardings, or jax.shard_map.",
}
