"""The work of an Explorer over a recorded exploration: answers from the recording, and compiles everything else."""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from inspector.analysis.profile.profile import Profile
from inspector.api.suitable_targets import platform_of
from inspector.compilation.compiled import CompiledProgram, digest_of
from inspector.compilation.engine import Engine, Job
from inspector.compilation.options.options import Options
from inspector.compilation.request import CompileRequest
from inspector.compilation.target import Target
from inspector.compilation.tuning import Tuning
from inspector.engines.replay_engine import Answer, ReplayEngine
from inspector.engines.targets import offered_targets
from inspector.errors import ExecutionError, LoweringError, Unavailable
from inspector.execution.in_turns import Runnable, start_in_turns
from inspector.execution.outcome import Outcome
from inspector.execution.run import Run, choose_inputs, finish, start
from inspector.reports.guarded_engine import Guarded
from inspector.reports.portable import PortableModules, installed_jax
from inspector.reports.recompile import Recompiler, runnable
from inspector.reports.recorded_exploration import RecordedExploration, RecordedVariant
from inspector.stages.compiled import as_compiled
from inspector.stages.lowered import Lowered, compile_request
from inspector.stages.measured import profile_of_run
from inspector.widgets.explorer import Explorer
from inspector.widgets.work import Axes, Work

T = TypeVar("T")

_WARMUP = 2


def explorer_of(exploration: RecordedExploration, height_px: int | None, allow: Collection[str] = ()) -> Explorer:
    """Returns a live Explorer of an exploration. Targets name the JAX version that compiled, if it is not the installed one.

    Args:
      exploration: the recorded exploration.
      height_px: initial height in CSS pixels; None for 85 % of the window, at most 900.
      allow: names of recorded options that the user trusts.

    Raises:
      ParameterError: `allow` names an option that no variant has.
    """
    exploration = dataclasses.replace(exploration, variants=tuple(map(_with_jax, exploration.variants)))
    first = exploration.variants[0]
    explorer = Explorer(
        exploration.lowered,
        RecordedWork(exploration, allow),
        options=first.options,
        target=first.target,
        tuning=first.tuning,
        can_lower=False,
        height_px=height_px,
    )
    explorer.restore(exploration.variants)
    return explorer


class RecordedWork(Work):
    """Answers from an exploration, and compiles everything else."""

    def __init__(self, exploration: RecordedExploration, allow: Collection[str]) -> None:
        """Creates the work of an exploration.

        Args:
          exploration: the recorded exploration.
          allow: names of recorded options that the user trusts.

        Raises:
          ParameterError: `allow` names an option that no variant has.
        """
        variants = exploration.variants
        recorded_targets = (str(variant.target) for variant in variants)
        self._exploration = exploration
        self._targets = tuple(dict.fromkeys([*offered_targets(), *recorded_targets]))
        self._platforms = {v.target: v.lowered.program.platform for v in variants if v.lowered is not None}
        own = (v for v in variants if not v.origin)
        self._lowered = {(self.platform(v.target), v.tuning): v.lowered or v.error for v in own}
        self._outcomes = [(v.program, v.outcome) for v in variants if v.program is not None and v.outcome is not None]
        self._answered: set[str] = set()  # digests of programs whose recorded run was shown, but not a profile of it
        self._recompiler = Guarded(Recompiler(exploration.portable), exploration, allow)
        self._engine = ReplayEngine(filter(None, map(_answer, variants)), lambda *_: self._recompiler)

    @property
    def targets(self) -> Sequence[str]:
        """Texts of the targets to offer, including the recorded ones."""
        return self._targets

    @property
    def portable(self) -> PortableModules:
        """The modules of the exploration, for other versions of JAX."""
        return self._exploration.portable

    def submit(self, request: CompileRequest) -> Job[CompiledProgram]:
        """Returns a recorded compile, or starts one."""
        return self._engine.submit(request)

    def engine_of_proofs(self, target: Target) -> Engine:  # noqa: ARG002
        """Returns the engine that compiles recorded programs, and refuses untrusted options."""
        return self._recompiler

    def request(self, lowered: Lowered, options: Options, target: Target) -> CompileRequest:
        """Returns a request. Recorded options are not checked: their compiler need not be installed."""
        request = CompileRequest(lowered.program, options, target)
        return request if self._engine.has(request) else compile_request(lowered, options, target)

    def platform(self, target: Target) -> str:
        """Returns the recorded platform of a target, or the one that programs for it are lowered for."""
        return self._platforms.get(target) or platform_of(target)

    def lower(self, axes: Axes, platform: str, tuning: Tuning) -> Lowered:  # noqa: ARG002
        """Returns a recorded program, or raises its recorded error."""
        result = self._lowered.get((platform, tuning))
        if isinstance(result, Lowered):
            return result
        name = self._exploration.lowered.name
        raise result or LoweringError(
            f"{name!r} was recorded without its function, so it cannot be lowered again for {platform}"
            f"{f' with {tuning}' if str(tuning) else ''}. Change only options or the number of devices, or call explore()"
            " with the function."
        )

    def run(self, compiled: CompiledProgram, repeat: int) -> Job[Run]:
        """Returns the recorded run when a variant is run for the first time, then measurements on this machine."""
        for place, (program, outcome) in enumerate(self._outcomes):
            if digest_of(program) == digest_of(compiled):
                del self._outcomes[place]
                self._answered.add(digest_of(compiled))
                job: Job[Run] = Job()
                job.resolve(_recorded_run(compiled, outcome))
                return job
        return _in_background(lambda: self._measured(compiled, repeat))

    def run_in_turns(self, programs: Sequence[CompiledProgram], repeat: int) -> Sequence[Job[Run]]:
        """Starts a measurement of several programs in turns on this machine, with generated inputs."""

        def ready(compiled: CompiledProgram) -> Runnable:
            here = runnable(compiled, self._recompiler)
            return Runnable(here, choose_inputs(here, (), {}), self._recompiler)

        return start_in_turns([functools.partial(ready, each) for each in programs], repeat)

    def profile(self, compiled: CompiledProgram, repeat: int) -> Job[Profile]:
        """Measures the time of each kernel on this machine, with generated inputs.

        Raises:
          ExecutionError: the run before it was a recorded one, whose profile, if it has one, is shown already.
        """
        if (digest := digest_of(compiled)) in self._answered:
            self._answered.remove(digest)
            raise ExecutionError("The run was recorded. Run the program again to measure each kernel on this machine.")

        def measured() -> Profile:
            here = runnable(compiled, self._recompiler)
            inputs = choose_inputs(here, (), {})
            run = start(here, inputs, self._recompiler, repeat=repeat, warmup=_WARMUP, profiled=True)
            return profile_of_run(here.module(), as_compiled(here).roofline().points, run.result())

        return _in_background(measured)

    def _measured(self, compiled: CompiledProgram, repeat: int) -> Run:
        here = runnable(compiled, self._recompiler)
        inputs = choose_inputs(here, (), {})
        return finish(here, inputs, start(here, inputs, self._recompiler, repeat=repeat, warmup=_WARMUP).result())


def _with_jax(variant: RecordedVariant) -> RecordedVariant:
    program = variant.program
    jax = variant.target.jax if program is None else program.versions.get("jax", variant.target.jax)
    return dataclasses.replace(variant, target=variant.target.by("" if installed_jax() in ("", jax) else jax))


def _answer(variant: RecordedVariant) -> Answer | None:
    result = variant.program or variant.error
    if variant.lowered is None or result is None:
        return None
    return Answer(CompileRequest(variant.lowered.program, variant.options, variant.target), result)


def _recorded_run(compiled: CompiledProgram, outcome: Outcome) -> Run:
    """Returns a run whose inputs are unknown."""
    outputs = () if isinstance(outcome.outputs, Unavailable) else outcome.outputs
    return Run(
        program=compiled.program,
        inputs=(),
        outputs=outputs,
        durations_s=outcome.durations_s,
        num_replicas=outcome.num_replicas,
        device_kind=outcome.device_kind,
        warnings=outcome.warnings,
        series=outcome.series,
    )


def _in_background(work: Callable[[], T]) -> Job[T]:
    job: Job[T] = Job()

    def do() -> None:
        job.advance("running")
        try:
            job.resolve(work())
        except Exception as e:  # the job carries it
            job.fail(e)

    threading.Thread(target=do, name="inspector-replay-run", daemon=True).start()
    return job
