"""`explore`: lowers a function, starts compiling it, and shows both in an Explorer."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from inspector.support import deferred, packages
from inspector.support.tracebacks import without_own_frames

if TYPE_CHECKING:
    from inspector.api.exploration import Exploration
    from inspector.api.shown_values import ShownAsExplorer
    from inspector.compilation.options.options import FlagValue, Options
    from inspector.compilation.target import Target
    from inspector.lowering.axis_env import AxisEnv
    from inspector.lowering.pallas import CompilerParams
    from inspector.stages.lowered import Lowered
    from inspector.widgets.explorer import Explorer


@without_own_frames
def explore(
    fun: Any,
    *args: Any,
    kwargs: Mapping[str, Any] | None = None,
    axis_env: AxisEnv | None = None,
    target: str | Target = "attached",
    options: Options | Mapping[str, FlagValue] | str | None = None,
    compare: Iterable[Options | Mapping[str, FlagValue] | str | Target] = (),
    static_argnums: int | Iterable[int] = (),
    static_argnames: str | Iterable[str] = (),
    donate_argnums: int | Iterable[int] = (),
    height_px: int | None = None,
    compiler_params: CompilerParams | None = None,
    interpret: bool = False,
    **keywords: Any,
) -> Explorer:
    """Opens an Explorer: shows every stage of a function's compilation in the notebook.

    Example:
      >>> import jax, jax.numpy as jnp
      >>> from inspector import explore
      >>> def loss(w, x):
      ...     return jnp.mean(jnp.tanh(x @ w) ** 2)
      >>> w = jax.ShapeDtypeStruct((256, 256), jnp.float32)
      >>> x = jax.ShapeDtypeStruct((32, 256), jnp.float32)
      >>> explorer = explore(jax.grad(loss), w, x, compare=["--xla_cpu_enable_fast_math=true", "tpu:v5e:2x2"])
      >>> explorer  # in a notebook, the last line of a cell

    Args:
      fun: a function or anything else that `inspector.lower` accepts: a JAX stage, a module's text, a file. Also anything that
        `inspector.load` opens, as a path or opened: a saved exploration, a profile (its program with the most measured time)
        or a dump (its largest module).
      args: example arguments. Arrays are also the inputs of *Run*; inputs are generated for ShapeDtypeStructs.
      kwargs: keyword arguments of the function. Use it for keywords that are also parameters of `explore`.
      axis_env: axis names and sizes for collectives, e.g. `[("i", 4)]`. With the target "attached", the program is
        compiled for one virtual CPU device per replica, unless enough devices are attached.
      target: the target of the baseline: "attached", "cpu:8", "tpu:v5e:2x4", "gpu:h100:8" (see `inspector.targets()`).
      options: compile options of the baseline.
      compare: further variants: compile options or targets, one or a list. For a target of another platform the function
        is lowered again. "jax==0.12.0" compiles the same program with that version of JAX, which uv installs into
        the user's cache on first use; "tpu:v5e:2x4@jax==0.12.0" also chooses the target.
      static_argnums: positions of static arguments.
      static_argnames: names of static arguments.
      donate_argnums: positions of donated arguments.
      height_px: initial height in CSS pixels; None for 85 % of the window, at most 900.
      compiler_params: compiler parameters for Pallas kernels, in the form that `inspector.lower` accepts.
      interpret: run Pallas kernels in JAX's interpreter, for example on a CPU.
      keywords: further keyword arguments of the function; for a file, `module`, `function` and `refine` as in `inspector.load`.

    Returns:
      The Explorer, a widget. Everything that it shows is also available as Python values.

    Raises:
      LoweringError, ModuleError: the program cannot be lowered or read.
      OptionError, TargetError: an invalid option or target.
      ParameterError: a keyword that neither the function nor `explore` has; arguments or options for a recording.
    """
    if not packages.folders("jax"):
        from inspector.errors import no_jax

        raise no_jax("inspector.explore")
    from inspector.widgets.frame import frame

    with frame(getattr(fun, "__name__", "") or "the program") as waiting:
        from inspector.engines.shared_engines import begin_workers

        begin_workers()  # first: the first start takes a second, as long as everything below, imports included

        from inspector.api.exploration import Exploration
        from inspector.api.jax_warnings import noted_warnings
        from inspector.api.live_work import LiveWork
        from inspector.api.load import opened_recording
        from inspector.api.opened_file import is_module_source, opened_without_compile, path_of
        from inspector.api.shown_values import ShownAsExplorer
        from inspector.api.suitable_targets import platform_of, suitable_target
        from inspector.compilation.target import Target
        from inspector.compilation.tuning import AS_IT_IS, Tuning
        from inspector.errors import ModuleError, ParameterError
        from inspector.lowering.keywords import function_keywords
        from inspector.lowering.module_files import read_module
        from inspector.stages.variant_forms import variants_of
        from inspector.widgets.explorer import Explorer
        from inspector.widgets.lifetime import left_state

        fun = opened_recording(fun)
        if isinstance(fun, (Exploration, ShownAsExplorer)):
            if args or kwargs or keywords or axis_env or options or target != "attached":
                raise ParameterError(
                    f"The type {type(fun).__name__} is shown as it was compiled, without arguments, axes, options or a target."
                    ' Use compare=, such as compare=["tpu:v5e:2x2"], for other variants beside it.'
                )
            explorer = _explored(fun, None, variants_of(compare), height_px)
            explorer._frame = waiting  # noqa: SLF001 - users have no use for it
            explorer.resume(left_state())
            return explorer
        file_choice: dict[str, Any] = (
            {} if callable(fun) else {n: keywords.pop(n) for n in ("module", "function", "refine") if n in keywords}
        )
        named = function_keywords(fun, args, kwargs, keywords, explore)
        wanted = variants_of(compare, target)
        targets = [Target.parse(text) for text in (target, *(text for _, text in wanted if text is not None))]
        for each in targets:
            _warm(each)
        tuning = Tuning.of(compiler_params, interpret=interpret, chip=Target.parse(target).chip)
        path = path_of(fun) if is_module_source(fun) else ""
        if is_module_source(fun):
            fun = read_module(fun)  # once, because the file may be a pipe or change
        work = LiveWork(fun, args, named, static_argnums, static_argnames, donate_argnums)
        work = dataclasses.replace(work, choice=file_choice)
        lowered = None
        try:
            notes: list[str] = []
            with noted_warnings(notes) if waiting is not None else contextlib.nullcontext():
                lowered = work.lower_for(axis_env, Target.parse(target).platform, tuning)
            lowered = deferred.replace(lowered, notes=(*lowered.notes, *notes)) if notes else lowered
        except ModuleError:
            if not is_module_source(fun):
                raise
        if lowered is None or (is_module_source(fun) and _is_only_shown(lowered)):
            reason = None if lowered is None else lowered.program.no_stablehlo
            explorer = _explored(
                opened_without_compile(fun, target, file_choice, reason, path), options, wanted, height_px
            )
            explorer._frame = waiting  # noqa: SLF001 - users have no use for it
            explorer.resume(left_state())
            return explorer
        explorer = Explorer(
            lowered,
            work,
            options=options,
            target=suitable_target(lowered, target),
            tuning=tuning if lowered.kernels else AS_IT_IS,
            can_lower=bool(args or named) and callable(fun),
            height_px=height_px,
            side_by_side=len({platform_of(each) for each in targets}) > 1,
        )
        explorer._frame = waiting  # noqa: SLF001 - users have no use for it
        for more_options, more_target in wanted:
            explorer.add(more_options, None if more_target is None else suitable_target(lowered, more_target))
        explorer.resume(left_state())
        return explorer


def _is_only_shown(lowered: Lowered) -> bool:
    """Reports whether a module is shown without compiling: it is optimized already, or has no StableHLO or no HLO."""
    return lowered.program.is_optimized or lowered.program.not_compilable is not None


def _explored(
    opened: Exploration | ShownAsExplorer, options: Any, wanted: list[tuple[Any, Any]], height_px: int | None
) -> Explorer:
    """Returns the Explorer of what was compiled before, or is shown without compiling.

    Raises:
      ModuleError: options or further variants need a compile.
    """
    exploration: Exploration = opened.exploration if hasattr(opened, "exploration") else opened
    if options or wanted:
        exploration.lowered.program.check_compilable()
    explorer = exploration.explorer(height_px)
    for more_options, more_target in wanted:
        explorer.add(more_options, more_target)
    return explorer


def _warm(target: Target) -> None:
    """Starts the worker that will compile while the function is traced."""
    from inspector._jax.compiling.attached_devices import attached_platform
    from inspector.engines.shared_engines import worker_engine

    if target.jax:
        return
    if target.kind == "cpu" or target.is_absent or attached_platform() == "cpu":
        worker_engine().warm(target)
