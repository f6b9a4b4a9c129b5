"""`lower`: a function, a JAX stage or a module text to a `Lowered`. The only room that runs user code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax

from inspector._jax import stages
from inspector.errors import ParameterError
from inspector.lowering.arguments import (
    abstract_tree,
    argument_names,
    original_path,
    positions,
    resolve_positions,
    stand_ins,
)
from inspector.lowering.assemble import fun_name, mapped_errors
from inspector.lowering.axis_env import AxisEnv, parse_axis_env
from inspector.lowering.lowered import Lowered
from inspector.lowering.opened import from_stages, open_lowered
from inspector.lowering.pallas import CompilerParams, Overrides
from inspector.lowering.replicas import lower_replicas

_PLATFORMS = ("cpu", "tpu", "gpu", "cuda", "rocm")


def lower(
    fun: Any,
    *args: Any,
    kwargs: Mapping[str, Any] | None = None,
    axis_env: AxisEnv | None = None,
    static_argnums: int | Iterable[int] = (),
    donate_argnums: int | Iterable[int] = (),
    platform: str | None = None,
    compiler_params: CompilerParams | None = None,
    interpret: bool = False,
    chip: str = "",
) -> Lowered:
    """Lowers a function, or opens what has been lowered already.

    Args:
      fun: a plain, jitted or shard_mapped function; a `jax.stages.Traced` or `Lowered`; a
        `jax.export.Exported`; an `XlaComputation`; a `Compiled` or `Lowered` of inspector; or StableHLO or HLO as
        text, bytes or a path.
      args: example arguments of a function: arrays, numbers, ShapeDtypeStructs, anything with
        shape and dtype, in any pytree. Values are not read.
      kwargs: keyword arguments of the function.
      axis_env: axis names and sizes that collectives may use, as `jax.pmap` would set them up;
        shapes are then those of one replica. Needs no devices.
      static_argnums: positions of arguments that are settings, not arrays.
      donate_argnums: positions of arguments whose buffers the program may reuse.
      platform: "cpu", "tpu", "gpu", ...; None for JAX's default backend. Needs no such device. JAX's own name of a
        GPU by NVIDIA, "cuda", says the same as "gpu".
      compiler_params: of Pallas kernels, in place of the program's own: fields of Pallas's
        `CompilerParams` by the kernel's name or number, "*" for all kernels, such as
        `{"matmul": {"vmem_limit_bytes": 64 << 20}}`.
      interpret: let JAX's interpreter run the Pallas kernels, so that they lower for any platform.
      chip: what Pallas kernels take for their device where none of the platform is here, such as
        "v6e" or "h100"; "" for the usual one.

    Raises:
      ArgumentError: an argument is not an array.
      ParameterError: a parameter cannot be honoured for this kind of `fun`.
      UnboundAxisError: a collective names an unbound axis.
      ModuleError: a module that cannot be read.
      OptionError: compiler_params names no such kernel or field, or a value that cannot be.
    """
    stages.hide_own_frames()
    if platform is not None and platform not in (*_PLATFORMS, jax.default_backend()):
        raise ParameterError(
            f"platform is {platform!r}. Expected one of {', '.join(_PLATFORMS)}, or None for JAX's own."
        )
    platform = "gpu" if platform == "cuda" else platform
    overrides = Overrides(compiler_params, interpret=interpret, platform=platform or jax.default_backend(), chip=chip)
    given: dict[str, Any] = {"args": args, "kwargs": kwargs, "axis_env": axis_env}
    given |= {"static_argnums": static_argnums, "donate_argnums": donate_argnums}
    if isinstance(fun, jax.stages.Compiled):
        raise ParameterError(
            "A jax.stages.Compiled does not keep the module that it was compiled from. Pass the function, or the"
            " jax.stages.Lowered whose compile() made it. Its optimized HLO alone: lower(compiled.as_text())."
        )
    if not callable(fun) or isinstance(fun, (stages.Traced, stages.Lowered)):
        _refuse_parameters(fun, given)
        return open_lowered(fun, platform, overrides)
    static, donated = positions(static_argnums), positions(donate_argnums)
    with mapped_errors(fun, axis_env), overrides.device():
        if axis_env is not None:
            return lower_replicas(
                fun, args, kwargs or {}, parse_axis_env(axis_env), static, donated, platform, fun_name(fun), overrides
            )
        return _lower_jit(fun, args, kwargs or {}, static, donated, platform, overrides)


def _lower_jit(
    fun: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    static: Sequence[int],
    donated: Sequence[int],
    platform: str | None,
    overrides: Overrides,
) -> Lowered:
    """Lowers as `jax.jit` does."""
    names = argument_names(fun, len(args))
    static_here: set[int] = set()
    if hasattr(fun, "trace"):
        if static or donated:
            raise ParameterError(
                f"{fun_name(fun)} is jitted already, so static_argnums and donate_argnums cannot be added."
                " Give them to jax.jit, or pass the plain function."
            )
        # Which of its arguments are static only JAX knows, so it judges what is not an array.
        given = [stand_ins(a) for a in args]
        traced = fun.trace(*given, **{k: stand_ins(v) for k, v in kwargs.items()})
    else:
        static_here, _ = resolve_positions(args, static, donated, fun_name(fun))
        dynamic_args = {i: a for i, a in enumerate(args) if i not in static_here}
        abstract = abstract_tree((dynamic_args, dict(kwargs)), names)
        given = [abstract[0].get(i, a) for i, a in enumerate(args)]
        jitted = jax.jit(fun, static_argnums=tuple(static), donate_argnums=tuple(donated))
        traced = jitted.trace(*given, **abstract[1])
    dynamic = [i for i in range(len(args)) if i not in static_here]
    return from_stages(traced, None, fun, platform, lambda path: names(original_path(path, dynamic)), overrides)


def _refuse_parameters(fun: Any, given: Mapping[str, Any]) -> None:
    named = [name for name, value in given.items() if value not in (None, (), {})]
    if named:
        raise ParameterError(
            f"{', '.join(named)} cannot be given with a {type(fun).__name__}: it is traced or lowered already."
            " Pass the function itself to lower it anew."
        )
