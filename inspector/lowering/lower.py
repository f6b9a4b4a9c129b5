"""`lower`: lowers a function, a JAX stage or the text of a module to a `Lowered`."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax

from inspector import platforms
from inspector._jax.compiling import attached_devices
from inspector._jax.lowering import jitted_calls, stages
from inspector._jax.lowering.checkpoints import changed_checkpoints
from inspector._jax.lowering.reevaluation import Description, Reevaluation
from inspector.compilation.program import Program
from inspector.compilation.target import Target
from inspector.compilation.what_if import AS_CALLED, WhatIf
from inspector.errors import ParameterError, Unavailable
from inspector.lowering.arguments import abstract_arguments, names_of, positions
from inspector.lowering.assemble import fun_name, mapped_errors
from inspector.lowering.axis_env import AxisEnv, parse_axis_env, refuse_empty
from inspector.lowering.bindings import PartialBinding
from inspector.lowering.calls import Marks, PlainCall, settled
from inspector.lowering.existing_stages import check_opened, from_traced, open_lowered
from inspector.lowering.keywords import function_keywords
from inspector.lowering.module_files import Choice
from inspector.lowering.pallas import CompilerParams, Overrides
from inspector.lowering.replicas import lower_replicas
from inspector.lowering.what_if import changed_arguments
from inspector.lowering.wrappers import TracedCall, is_jitted, traced_call, unbound
from inspector.stages.lowered import Lowered, Relowering
from inspector.support import deferred
from inspector.support.notebook import short
from inspector.support.tracebacks import without_own_frames


@without_own_frames
def lower(
    fun: Any,
    *args: Any,
    kwargs: Mapping[str, Any] | None = None,
    axis_env: AxisEnv | None = None,
    static_argnums: int | Iterable[int] = (),
    static_argnames: str | Iterable[str] = (),
    donate_argnums: int | Iterable[int] = (),
    target: str | Target | None = None,
    platform: str | None = None,
    compiler_params: CompilerParams | None = None,
    interpret: bool = False,
    chip: str = "",
    what_if: WhatIf = AS_CALLED,
    **keywords: Any,
) -> Lowered:
    """Lowers a function, or opens a program that is lowered already.

    Args:
      fun: a function, plain, jitted or shard_mapped; a library's wrapper of one (`equinox.filter_jit`,
        `flax.nnx.jit`, ...); a bound method, a partial or another callable object, such as a model; a
        `jax.stages.Traced` or `Lowered`, or a library's object for one; a `jax.export.Exported`; an
        `XlaComputation`; an inspector `Compiled` or `Lowered`; or StableHLO or HLO as text, bytes or a path.
      args: example arguments of the function: arrays, numbers, ShapeDtypeStructs or any objects with shape and dtype,
        in any pytree. Values are not read. Other leaves, such as functions, become part of the program;
        `Lowered.notes` lists them. For shardings over devices that are not attached, use a
        `jax.sharding.AbstractMesh` with the `axis_types` of the mesh that will run the program. An array on one device
        stands for an array on that device.
      kwargs: keyword arguments of the function, including those that share a name with a parameter of `lower`.
      axis_env: axis names and sizes that collectives may use, as `jax.pmap` would bind them. Shapes are then those of one
        replica. Needs no devices.
      static_argnums: positions of arguments that are settings, not arrays; negative ones count as in `jax.jit`.
      static_argnames: names of such arguments.
      donate_argnums: positions of arguments whose buffers the program may reuse.
      target: the target device, such as "tpu:v5e:2x4", which sets the platform and chip to lower for.
      platform: "cpu", "tpu", "gpu", ...; None for that of the target, or JAX's default backend. No such device needs to be
        attached. "cuda", JAX's name of NVIDIA GPUs, means the same as "gpu".
      compiler_params: compiler parameters of Pallas kernels that replace the program's own: fields of Pallas's
        `CompilerParams` by the kernel's name or number, "*" for all kernels, such as
        `{"matmul": {"vmem_limit_bytes": 64 << 20}}`.
      interpret: whether to run Pallas kernels in JAX's interpreter, so that they lower for any platform.
      chip: the chip that Pallas kernels see as their device if no device of the platform is attached, such as
        "v6e" or "h100"; "" for that of the target, or the platform's default chip.
      what_if: hypothetical changes to the call; `Lowered.what_if` creates them.
      keywords: further keyword arguments of the function. For a file or text with several modules, `module` is the name or
        number of one, and for StableHLO with several functions, `function` is the name of one, and
        `refine` has the shapes of arguments with dynamic shapes, such as {"arg0": (8, 128)}.

    Raises:
      ArgumentError: an argument is not an array.
      ParameterError: a parameter cannot be applied to this kind of `fun`, or neither the function nor `lower` has a
        keyword.
      TargetError: an unknown target.
      UnboundAxisError: a collective names an unbound axis.
      ModuleError: a module cannot be read.
      OptionError: compiler_params has an unknown kernel or field, or an invalid value.
    """
    stages.hide_own_frames()
    choice = Choice() if callable(fun) else Choice.taken_from(keywords)
    named = function_keywords(fun, args, kwargs, keywords, lower)
    platform, chip = _platform_and_chip(target, platform, chip)
    inner = jitted_calls.innermost(fun)
    fun = fun if callable(fun) and not isinstance(inner, jax.stages.Compiled) else inner
    static, donated = positions(static_argnums), positions(donate_argnums)
    if callable(fun):
        static, donated = stages.counted_positions(fun, static, donated)
    marks = Marks(static, names_of(static_argnames), donated)
    if isinstance(fun, jax.stages.Compiled):
        raise ParameterError(
            "A jax.stages.Compiled does not keep the module that it was compiled from. Pass the function, or the"
            " jax.stages.Lowered whose compile() made it. For its optimized HLO only: lower(compiled.as_text())."
        )
    is_function = callable(fun) and not isinstance(fun, (stages.Traced, stages.Lowered))
    if not is_function:
        check_opened(fun)
        parameters: dict[str, Any] = {"args": args, "kwargs": kwargs, "axis_env": axis_env}
        _refuse_parameters(fun, parameters | dataclasses.asdict(marks))
    axes = None if axis_env is None else parse_axis_env(axis_env)
    refuse_empty(axes or ())

    def overrides_of(
        platform: str | None, chip: str, what_if: WhatIf, reevaluation: Reevaluation | None = None
    ) -> Overrides:
        lowered_for = platform or attached_devices.attached_platform()
        return Overrides(
            compiler_params,
            interpret=interpret,
            platform=lowered_for,
            chip=chip,
            what_if=what_if,
            reevaluation=reevaluation,
        )

    def lower_for(args: Sequence[Any], named: Mapping[str, Any], platform: str | None, overrides: Overrides) -> Lowered:
        if not is_function:
            return open_lowered(fun, platform, overrides, choice)
        if overrides.what_if.changes_arguments:
            args, named = changed_arguments(fun, args, named, overrides.what_if)
        with mapped_errors(fun, axis_env), overrides.device(), changed_checkpoints(overrides.what_if.checkpoint):
            if axes is None:
                return _lower_jit(fun, args, named, marks, platform, overrides)
            return settled(
                (args, named),
                lambda settings: lower_replicas(
                    PlainCall.of(fun, args, named, marks, settings=settings), axes, platform, fun_name(fun), overrides
                ),
            )

    lowered = lower_for(args, named, platform, overrides_of(platform, chip, what_if))
    if not is_function and (
        not isinstance(fun, stages.Traced | stages.Lowered) or isinstance(lowered.jaxpr, Unavailable)
    ):
        return lowered
    # The closures below must not keep arrays alive for a lowering that may never happen.
    later = abstract_arguments((args, named), marks.static_argnums)

    def again(platform: str, chip: str, what_if: WhatIf) -> Lowered:
        return with_again(lower_for(*later, platform, overrides_of(platform, chip, what_if)), chip, what_if)

    def with_again(lowered: Lowered, chip: str, what_if: WhatIf) -> Lowered:
        def evaluate(platform: str, reevaluation: Reevaluation) -> tuple[Lowered, Description]:
            overrides = overrides_of(platform, chip, what_if, reevaluation)
            return lower_for(*later, platform, overrides), overrides.logged

        def changed(more: WhatIf) -> Program:
            return again(lowered.program.platform, chip, what_if.merge(more)).program

        program = dataclasses.replace(lowered.program, changed=changed)
        return deferred.replace(lowered, program=program, _again=Relowering(again, evaluate, chip, what_if))

    return with_again(lowered, chip, what_if)


def _lower_jit(
    fun: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    marks: Marks,
    platform: str | None,
    overrides: Overrides,
) -> Lowered:
    """Lowers as `jax.jit` does."""
    started = time.perf_counter()
    inner, more, named = unbound(fun, args, kwargs)
    traced = None
    if not marks and jitted_calls.is_jitted(getattr(fun, "__wrapped__", None)) and inner is fun:
        marks = Marks(
            *stages.static_arguments(fun.__wrapped__)
        )  # a wrapper of a jitted function keeps its static arguments
    if is_jitted(inner):
        marks.check_none(fun_name(inner))
        traced = traced_call(inner, more, named)
        bound = len(more) - len(args), {k: v for k, v in named.items() if k not in kwargs}
        if traced is not None and (bound[0] or bound[1]):
            binding = PartialBinding(traced.call.binding, more[: bound[0]], bound[1])
            traced = TracedCall(traced.traced, dataclasses.replace(traced.call, binding=binding))
    traced = traced or settled(
        (args, kwargs), lambda settings: PlainCall.of(fun, args, kwargs, marks, settings=settings).trace(marks)
    )
    trace_s = time.perf_counter() - started
    lowered = from_traced(traced.traced, fun, platform, traced.call, overrides)
    return deferred.replace(lowered, timings={"trace_s": trace_s, **lowered.timings})


def _platform_and_chip(target: str | Target | None, platform: str | None, chip: str) -> tuple[str | None, str]:
    """Returns the platform and chip to lower for."""
    platform = None if platform is None else platforms.named(platform).name
    if platform is not None and platform not in (*platforms.NAMES, attached_devices.attached_platform()):
        raise ParameterError(
            f"platform is {short(platform)}. Expected one of {', '.join(platforms.NAMES)}, or None for JAX's default platform."
        )
    if target is None:
        return platform, chip
    parsed = Target.parse(target)
    if platform not in (None, parsed.platform or attached_devices.attached_platform()):
        raise ParameterError(f"platform={short(platform)} and target={str(parsed)!r} differ. Pass only the target.")
    return platform or parsed.platform, chip or parsed.chip


def _refuse_parameters(fun: Any, parameters: Mapping[str, Any]) -> None:
    named = [name for name, value in parameters.items() if value not in (None, (), {})]
    if named:
        raise ParameterError(
            f"{', '.join(named)} cannot be given with a {type(fun).__name__}: it is traced or lowered already."
            " Pass the function itself to lower it again."
        )
