"""The work of an Explorer over a function in this process."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from inspector.api.suitable_targets import platform_of, suitable_target
from inspector.engines.targets import offered_targets
from inspector.errors import ExecutionError
from inspector.lowering.lower import lower
from inspector.lowering.pallas import fields_of
from inspector.stages.retraces import RetraceWatch
from inspector.widgets.work import Work

if TYPE_CHECKING:
    from inspector.analysis.profile.profile import Profile
    from inspector.api.bisection.jobs import BisectJob, CompileTimeJob
    from inspector.api.flag_effects import ScanJob
    from inspector.compilation.compiled import CompiledProgram
    from inspector.compilation.engine import Engine, Job
    from inspector.compilation.options.options import Options
    from inspector.compilation.program import Program
    from inspector.compilation.request import CompileRequest, RunReply
    from inspector.compilation.target import Target
    from inspector.compilation.tuning import Tuning
    from inspector.execution.inputs import Input
    from inspector.execution.run import Run
    from inspector.hlo.pallas import ParamField
    from inspector.lowering.axis_env import AxisEnv
    from inspector.stages.accuracy import AccuracyMeasurement
    from inspector.stages.bisection.sides import Side
    from inspector.stages.kernel import Kernel
    from inspector.stages.lowered import Lowered
    from inspector.stages.observing import Observing
    from inspector.widgets.work import Axes, ScanLimits, Sides

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, eq=False)
class LiveWork(Work):
    """Lowers a function again, compiles it, and runs it on the user's arguments.

    Attributes:
      fun: the function, or anything else that `inspector.lower` accepts.
      args: its example arguments, which are also the inputs of runs.
      kwargs: its keyword arguments.
      static_argnums: positions of static arguments.
      static_argnames: names of static arguments.
      donate_argnums: positions of donated arguments.
      choice: the `module` and `function` of a file.
    """

    fun: Any
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    static_argnums: int | Iterable[int] = ()
    static_argnames: str | Iterable[str] = ()
    donate_argnums: int | Iterable[int] = ()
    choice: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @functools.cached_property
    def targets(self) -> Sequence[str]:
        """Texts of the targets to offer."""
        return offered_targets()

    @functools.cached_property
    def retraces(self) -> RetraceWatch:
        """Watches why JAX traces again in this process."""
        return RetraceWatch()

    def lower_for(self, axes: AxisEnv | None, platform: str | None, tuning: Tuning) -> Lowered:
        """Lowers the function with any axis environment that `inspector.lower` accepts, None for the attached platform."""
        return lower(
            self.fun, *self.args, kwargs=self.kwargs, axis_env=axes, static_argnums=self.static_argnums,
            static_argnames=self.static_argnames, donate_argnums=self.donate_argnums, platform=platform,
            compiler_params=tuning.as_dict(), interpret=tuning.interpret, chip=tuning.chip, what_if=tuning.what_if, **self.choice,
        )  # fmt: skip

    def lower(self, axes: Axes, platform: str, tuning: Tuning) -> Lowered:
        """Lowers the function."""
        return self.lower_for(list(axes or ()) or None, platform, tuning)

    def submit(self, request: CompileRequest) -> Job[CompiledProgram]:
        """Starts a compile by this or another version of JAX."""
        with_buffers = _with_buffers(request)
        return _engine(with_buffers.program, with_buffers.target).submit(with_buffers)

    def engine_of_proofs(self, target: Target) -> Engine | None:
        """Returns the other version of JAX that compiles for a target; None for this one."""
        from inspector.reports.other_jax import other_jax_of

        return other_jax_of(target)

    def run(self, compiled: CompiledProgram, repeat: int) -> Measuring[Run]:
        """Starts a measurement on the user's arguments."""
        from inspector.execution.run import finish

        inputs = self._inputs(compiled)
        return Measuring(_start(compiled, inputs, repeat), lambda reply: finish(compiled, inputs, reply))

    def run_in_turns(self, programs: Sequence[CompiledProgram], repeat: int) -> Sequence[Job[Run]]:
        """Starts a measurement of several programs in turns on the user's arguments."""
        from inspector.execution.in_turns import Runnable, start_in_turns

        def ready(compiled: CompiledProgram) -> Runnable:
            return Runnable(compiled, self._inputs(compiled), _engine(compiled.program, compiled.target))

        return start_in_turns([functools.partial(ready, each) for each in programs], repeat)

    def profile(self, compiled: CompiledProgram, repeat: int) -> Measuring[Profile]:
        """Starts measuring the time of each kernel on the user's arguments.

        Raises:
          ExecutionError: another version of JAX compiled the program.
        """
        if compiled.target.jax:
            raise ExecutionError(
                f"Programs that JAX {compiled.target.jax} compiled cannot be profiled in this process."
            )
        from inspector.stages.compiled import as_compiled
        from inspector.stages.measured import profile_of_run

        job = _start(compiled, self._inputs(compiled), repeat, profiled=True)
        return Measuring(
            job, lambda reply: profile_of_run(compiled.module(), as_compiled(compiled).roofline().points, reply)
        )

    def _inputs(self, compiled: CompiledProgram) -> tuple[Input, ...]:
        from inspector.execution.run import choose_inputs
        from inspector.lowering.what_if import fitted_arguments

        # A variant may be supposed to be of another call than the user's.
        args, kwargs = fitted_arguments(self.fun, self.args, self.kwargs, compiled.program.arguments)
        return choose_inputs(compiled, args, kwargs)

    def platform(self, target: Target) -> str:
        """Returns the platform that programs for a target are lowered for."""
        return platform_of(target)

    def suit(self, lowered: Lowered, target: Target) -> Target:
        """Returns the target, or one with enough devices, for a program that was lowered again."""
        device_count = lowered.program.device_count
        if target.device_count is not None and device_count > target.device_count:
            return target.with_devices(device_count) or target
        return suitable_target(lowered, target)

    def kernel_fields(self, kernel: Kernel, platform: str) -> Sequence[ParamField]:
        """Returns the compiler parameters that a kernel can have on a platform."""
        return fields_of(kernel, platform)

    def observe(self, lowered: Lowered, is_numbered: bool) -> Observing:
        """Starts a run that observes the collectives; `is_numbered` adds each replica's number to its inputs."""
        import jax

        from inspector.lowering.what_if import fitted_arguments
        from inspector.stages.lowered import begin_observing

        args, kwargs = fitted_arguments(self.fun, self.args, self.kwargs, lowered.program.arguments)
        replicas = lowered.program.options.num_replicas or 1
        if is_numbered and replicas > 1:
            args, kwargs = jax.tree.map(lambda leaf: _of_replicas(leaf, replicas), (args, kwargs))
        return begin_observing(lowered, *args, **kwargs)

    def accuracy(self, lowered: Lowered, variants: Sequence[tuple[Options, Target]]) -> AccuracyMeasurement:
        """Starts measuring the errors of variants against 64-bit values, on the inputs of the call."""
        from inspector.execution.output_error import Tolerance
        from inspector.lowering.what_if import fitted_arguments
        from inspector.stages.accuracy import BASELINE, AccuracyMeasurement

        call = fitted_arguments(self.fun, self.args, self.kwargs, lowered.program.arguments)
        names = (BASELINE, *map(str, range(1, len(variants))))
        requests = {name: self.request(lowered, *each) for name, each in zip(names, variants, strict=True)}
        return AccuracyMeasurement(
            lowered, requests, call, Tolerance(), lambda request: _engine(request.program, request.target), locate=True
        )

    def scan(self, lowered: Lowered, target: Target, options: Options, limits: ScanLimits) -> ScanJob:
        """Starts trying flags on a program, in addition to the given options."""
        from inspector.api.flag_effects import scan

        return scan(
            lowered, target=target, options=options, time_limit_s=limits.time_limit_s,
            machine_code=limits.machine_code, measure=limits.measure, show_progress=False,
        )  # fmt: skip

    def bisect(self, lowered: Lowered, sides: Sides, by: Any, time_limit_s: float) -> BisectJob:
        """Starts looking for the change that makes two compiles of a program differ, on the user's arguments."""
        from inspector.api.bisection import bisect
        from inspector.lowering.what_if import fitted_arguments

        args, kwargs = fitted_arguments(self.fun, self.args, self.kwargs, lowered.program.arguments)
        return bisect(
            lowered, *((each.target, each.options) for each in sides), *args, kwargs=kwargs, by=by, wait=False,
            time_limit_s=time_limit_s, show_progress=False,
        )  # fmt: skip

    def compile_time(self, lowered: Lowered, side: Side, time_limit_s: float) -> CompileTimeJob:
        """Starts looking for the part of a program that makes its compile slow."""
        from inspector.api.bisection.compile_time import compile_time

        return compile_time(
            lowered, side.options, target=side.target, wait=False, time_limit_s=time_limit_s, show_progress=False
        )


def _engine(program: Program, target: Target) -> Engine:
    """Returns the engine of a program and a target, which may name another version of JAX."""
    from inspector.engines.shared_engines import default_engine
    from inspector.reports.other_jax import other_jax_of

    return other_jax_of(target) or default_engine(program, target)


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


def _with_buffers(request: CompileRequest) -> CompileRequest:
    """Requests the buffer assignment for CPUs and absent devices, unless the user's flags dump to another folder.

    XLA writes it together with the HLO of the preview, in up to a tenth of the compile's time. Attached accelerators were not measured.
    """
    theirs = (*request.build_options.flags, *os.environ.get("XLA_FLAGS", "").split())
    is_cheap = request.target.is_absent or request.program.platform == "cpu"
    if not is_cheap or any("xla_dump_" in flag or "xla_enable_dumping" in flag for flag in theirs):
        return request
    return dataclasses.replace(request, products=request.products | {"buffers"})


def _start(compiled: CompiledProgram, inputs: Sequence[Input], repeat: int, *, profiled: bool = False) -> Job[RunReply]:
    from inspector.execution.run import start

    engine = _engine(compiled.program, compiled.target)
    return start(compiled, inputs, engine, repeat=repeat, warmup=2, profiled=profiled)


@dataclasses.dataclass(frozen=True, slots=True)
class Measuring(Generic[T]):
    """A job of an engine whose reply is converted: to a `Run`, or to a `Profile`."""

    job: Job[RunReply]
    finish: Callable[[RunReply], T]

    @property
    def stage(self) -> str:
        return self.job.stage

    @property
    def elapsed_s(self) -> float:
        return self.job.elapsed_s

    def cancel(self) -> bool:
        return self.job.cancel()

    def result(self) -> T:
        return self.finish(self.job.result())

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        self.job.add_done_callback(callback)

    def add_progress_callback(self, callback: Callable[[Any], None]) -> None:
        self.job.add_progress_callback(callback)
