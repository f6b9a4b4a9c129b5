"""`explore`: lowers a function, starts compiling it, and shows both in an Explorer."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from inspector.support import packages
from inspector.support.tracebacks import without_own_frames

if TYPE_CHECKING:
    from inspector.api.flag_effects import ScanJob
    from inspector.compilation.compiled import CompiledProgram
    from inspector.compilation.engine import Job
    from inspector.compilation.options.options import FlagValue, Options
    from inspector.compilation.request import CompileRequest, RunReply
    from inspector.compilation.target import Target
    from inspector.execution.run import Run
    from inspector.lowering.axis_env import AxisEnv
    from inspector.lowering.pallas import CompilerParams
    from inspector.stages.lowered import Lowered
    from inspector.stages.observing import Observing
    from inspector.widgets.explorer import Explorer
    from inspector.widgets.work import ScanLimits


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
    height_px: int = 700,
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
      fun: a function or anything else that `inspector.lower` accepts: a JAX stage, a module's text, a file.
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
      height_px: initial height of the panes in CSS pixels.
      compiler_params: compiler parameters for Pallas kernels, in the form that `inspector.lower` accepts.
      interpret: run Pallas kernels in JAX's interpreter, for example on a CPU.
      keywords: further keyword arguments of the function.

    Returns:
      The Explorer, a widget. Everything that it shows is also available as Python values.

    Raises:
      LoweringError, ModuleError: the program cannot be lowered or read.
      OptionError, TargetError: an invalid option or target.
      ParameterError: a keyword that neither the function nor `explore` has.
    """
    if not packages.folders("jax"):
        from inspector.errors import no_jax

        raise no_jax("inspector.explore")
    from inspector.engines.shared_engines import begin_workers

    begin_workers()  # first: the first start takes a second, as long as everything below, imports included

    from inspector._jax.caches.retraces import RetraceWatch
    from inspector.compilation.target import Target
    from inspector.compilation.tuning import AS_IT_IS, Tuning
    from inspector.engines.targets import offered_targets
    from inspector.lowering.keywords import function_keywords
    from inspector.lowering.lower import lower
    from inspector.lowering.pallas import fields_of
    from inspector.widgets.explorer import Explorer
    from inspector.widgets.variants import variants_of
    from inspector.widgets.work import Work

    def lower_for(axes: AxisEnv | None, platform: str | None, tuning: Tuning = AS_IT_IS) -> Lowered:
        return lower(
            fun, *args, kwargs=named, axis_env=axes, static_argnums=static_argnums, static_argnames=static_argnames,
            donate_argnums=donate_argnums, platform=platform, compiler_params=tuning.as_dict(),
            interpret=tuning.interpret, chip=tuning.chip, what_if=tuning.what_if,
        )  # fmt: skip

    named = function_keywords(fun, args, kwargs, keywords, explore)
    wanted = variants_of(compare, target)
    targets = [Target.parse(text) for text in (target, *(text for _, text in wanted if text is not None))]
    for each in targets:
        _warm(each)
    tuning = Tuning.of(compiler_params, interpret=interpret, chip=Target.parse(target).chip)
    lowered = lower_for(axis_env, Target.parse(target).platform, tuning)
    work = Work(
        lower=lambda pairs, platform: lower_for(list(pairs or ()) or None, platform),
        submit=_submit,
        run=lambda compiled, repeat: _start_run(compiled, repeat, fun, args, named),
        targets=offered_targets(),
        platform=platform_of,
        suit=_with_devices,
        tune=lambda pairs, platform, tuned: lower_for(list(pairs or ()) or None, platform, tuned),
        kernel_fields=fields_of,
        observe=lambda lowered, apart: _observe(lowered, apart, fun, args, named),
        scan=_scan,
        retraces=RetraceWatch(),
    )
    explorer = Explorer(
        lowered,
        work,
        options=options,
        target=_suitable(lowered, target),
        tuning=tuning if lowered.kernels else AS_IT_IS,
        can_lower=bool(args or named) and callable(fun),
        height_px=height_px,
        side_by_side=len({platform_of(each) for each in targets}) > 1,
    )
    for more_options, more_target in wanted:
        explorer.add(more_options, None if more_target is None else _suitable(lowered, more_target))
    return explorer


def _warm(target: Target) -> None:
    """Starts the worker that will compile while the function is traced."""
    from inspector._jax.compiling.attached_devices import attached_platform
    from inspector.engines.shared_engines import worker_engine

    if target.jax:
        return
    if target.kind == "cpu" or target.is_absent or attached_platform() == "cpu":
        worker_engine().warm(target)


def platform_of(target: Target) -> str:
    """Returns the platform that programs for a target are lowered for."""
    from inspector._jax.compiling.attached_devices import attached_platform

    return target.platform or attached_platform()


def _suitable(lowered: Lowered, target: str | Target) -> Target:
    """Returns the target, or virtual CPU devices if too few devices are attached for the program."""
    import jax

    from inspector.compilation.target import Target

    parsed, needed = Target.parse(target), lowered.program.device_count
    if parsed.kind == "attached" and platform_of(parsed) == "cpu" and needed > jax.local_device_count():
        return Target(f"cpu:{needed}").by(parsed.jax)
    return parsed


def _with_devices(lowered: Lowered, target: Target) -> Target:
    """Returns the target, or one with enough devices, for a program that was lowered again."""
    needed = lowered.program.device_count
    if target.device_count is not None and needed > target.device_count:
        return target.with_devices(needed) or target
    return _suitable(lowered, target)


def _submit(request: CompileRequest) -> Job[CompiledProgram]:
    from inspector.engines.shared_engines import default_engine
    from inspector.reports.other_jax import shared_other_jax

    wanted = _with_buffers(request)
    if request.target.jax:
        return shared_other_jax().submit(wanted)
    return default_engine(wanted.program, wanted.target).submit(wanted)


def _observe(lowered: Lowered, apart: bool, fun: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Observing:
    import jax

    from inspector.lowering.what_if import fitted_arguments

    inputs, named = fitted_arguments(fun, args, kwargs, lowered.program.arguments)
    replicas = lowered.program.options.num_replicas or 1
    if apart and replicas > 1:
        inputs, named = jax.tree.map(lambda leaf: _of_replicas(leaf, replicas), (inputs, named))
    from inspector.stages.lowered import begin_observing

    return begin_observing(lowered, *inputs, **named)


def _of_replicas(leaf: Any, replicas: int) -> Any:
    """Adds the replica number to numeric inputs, one row per replica. Inputs without values count from 0 to 7 repeatedly."""
    import jax
    import numpy as np

    is_array = isinstance(leaf, jax.Array | np.ndarray | jax.ShapeDtypeStruct)
    if not is_array or not jax.numpy.issubdtype(leaf.dtype, np.number):
        return leaf
    is_shape = isinstance(leaf, jax.ShapeDtypeStruct)
    array = np.resize(np.arange(8), leaf.shape) if is_shape else np.asarray(leaf)
    return np.stack([(array + number).astype(leaf.dtype) for number in range(replicas)])


def _scan(lowered: Lowered, target: Target, options: Options, limits: ScanLimits) -> ScanJob:
    from inspector.api.flag_effects import scan

    return scan(
        lowered, target=target, options=options, time_limit_s=limits.time_limit_s, machine_code=limits.machine_code,
        show_progress=False,
    )  # fmt: skip


def _with_buffers(request: CompileRequest) -> CompileRequest:
    """Requests the buffer assignment for devices with several memories, unless the user's flags dump to another folder.

    XLA writes it together with the HLO of the preview, at almost no cost.
    """
    theirs = (*request.build_options.flags, *os.environ.get("XLA_FLAGS", "").split())
    if not request.target.is_absent or any("xla_dump_" in flag or "xla_enable_dumping" in flag for flag in theirs):
        return request
    return dataclasses.replace(request, products=request.products | {"buffers"})


@dataclasses.dataclass(frozen=True, slots=True)
class _RunJob:
    """A job of an engine whose reply is converted to a `Run`."""

    job: Job[RunReply]
    finish: Callable[[RunReply], Run]

    @property
    def stage(self) -> str:
        return self.job.stage

    @property
    def elapsed_s(self) -> float:
        return self.job.elapsed_s

    def cancel(self) -> bool:
        return self.job.cancel()

    def result(self) -> Run:
        return self.finish(self.job.result())

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        self.job.add_done_callback(callback)

    def add_progress_callback(self, callback: Callable[[Any], None]) -> None:
        self.job.add_progress_callback(callback)


def _start_run(
    compiled: CompiledProgram, repeat: int, fun: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> _RunJob:
    from inspector.engines.shared_engines import default_engine
    from inspector.execution.run import choose_inputs, finish, start
    from inspector.lowering.what_if import fitted_arguments

    # A variant may be supposed to be of another call than the user's.
    args, kwargs = fitted_arguments(fun, args, kwargs, compiled.program.arguments)
    inputs = choose_inputs(compiled, args, kwargs)
    engine = default_engine(compiled.program, compiled.target)
    job = start(compiled, inputs, engine, repeat=repeat, warmup=2)
    return _RunJob(job, lambda reply: finish(compiled, inputs, reply))
