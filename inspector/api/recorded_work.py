"""The work of an Explorer over a recorded exploration: answers from the recording, and compiles everything else."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Collection

from inspector.api.explore import platform_of
from inspector.compilation.compiled import CompiledProgram, digest_of
from inspector.compilation.engine import Job
from inspector.compilation.options.options import Options
from inspector.compilation.request import CompileRequest
from inspector.compilation.target import Target
from inspector.compilation.tuning import AS_IT_IS, Tuning
from inspector.engines.replay_engine import Answer, ReplayEngine
from inspector.engines.targets import offered_targets
from inspector.errors import LoweringError, Unavailable
from inspector.execution.outcome import Outcome
from inspector.execution.run import Run, choose_inputs, finish, start
from inspector.reports.guarded_engine import Guarded
from inspector.reports.portable import installed_jax
from inspector.reports.recompile import Recompiler, runnable
from inspector.reports.recorded_exploration import RecordedExploration, RecordedVariant
from inspector.stages.lowered import Lowered, compile_request
from inspector.widgets.explorer import Explorer
from inspector.widgets.work import Work

_WARMUP = 2


def explorer_of(exploration: RecordedExploration, height_px: int, allow: Collection[str] = ()) -> Explorer:
    """Returns a live Explorer of an exploration. Targets name the JAX version that compiled, if it is not the installed one.

    Args:
      exploration: the recorded exploration.
      height_px: initial height of the panes in CSS pixels.
      allow: names of recorded options that the user trusts.

    Raises:
      ParameterError: `allow` names an option that no variant has.
    """
    exploration = dataclasses.replace(exploration, variants=tuple(map(_with_jax, exploration.variants)))
    first = exploration.variants[0]
    explorer = Explorer(
        exploration.lowered,
        _Record(exploration, allow).work(),
        options=first.options,
        target=first.target,
        tuning=first.tuning,
        can_lower=False,
        height_px=height_px,
    )
    explorer.restore(exploration.variants)
    return explorer


class _Record:
    """Answers from an exploration."""

    def __init__(self, exploration: RecordedExploration, allow: Collection[str]) -> None:
        variants = exploration.variants
        self._exploration = exploration
        self._platforms = {v.target: v.lowered.program.platform for v in variants if v.lowered is not None}
        self._lowered = {(self._platform(v.target), v.tuning): v.lowered or v.error for v in variants}
        self._outcomes = [(v.program, v.outcome) for v in variants if v.program is not None and v.outcome is not None]
        self._recompiler = Guarded(Recompiler(exploration.portable), exploration, allow)
        self._engine = ReplayEngine(filter(None, map(_answer, variants)), lambda *_: self._recompiler)

    def work(self) -> Work:
        """Returns the operations that an Explorer may request."""
        recorded = (str(variant.target) for variant in self._exploration.variants)
        return Work(
            lower=lambda _, platform: self._lower(platform, AS_IT_IS),
            submit=self._engine.submit,
            run=self._run,
            targets=tuple(dict.fromkeys([*offered_targets(), *recorded])),
            platform=self._platform,
            tune=lambda _, platform, tuning: self._lower(platform, tuning),
            portable=self._exploration.portable,
            request=self._request,
        )

    def _request(self, lowered: Lowered, options: Options, target: Target) -> CompileRequest:
        """Returns a request. Recorded options are not checked: their compiler need not be installed."""
        request = CompileRequest(lowered.program, options, target)
        return request if self._engine.has(request) else compile_request(lowered, options, target)

    def _platform(self, target: Target) -> str:
        return self._platforms.get(target) or platform_of(target)

    def _lower(self, platform: str, tuning: Tuning) -> Lowered:
        result = self._lowered.get((platform, tuning))
        if isinstance(result, Lowered):
            return result
        name = self._exploration.lowered.name
        raise result or LoweringError(
            f"{name!r} was recorded without its function, so it cannot be lowered again, which for {platform}"
            f"{f' with {tuning}' if str(tuning) else ''} it would have to be. Other options and numbers of devices can be"
            " compiled; for the rest call explore() where the function is."
        )

    def _run(self, compiled: CompiledProgram, repeat: int) -> Job[Run]:
        """Returns the recorded run when a variant is run for the first time, then measurements on this machine."""
        for place, (program, outcome) in enumerate(self._outcomes):
            if digest_of(program) == digest_of(compiled):
                del self._outcomes[place]
                job: Job[Run] = Job()
                job.resolve(_recorded_run(compiled, outcome))
                return job
        return _in_background(lambda: self._measured(compiled, repeat))

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
    )


def _in_background(work: Callable[[], Run]) -> Job[Run]:
    job: Job[Run] = Job()

    def do() -> None:
        job.advance("running")
        try:
            job.resolve(work())
        except Exception as e:  # the job carries it
            job.fail(e)

    threading.Thread(target=do, name="inspector-replay-run", daemon=True).start()
    return job
