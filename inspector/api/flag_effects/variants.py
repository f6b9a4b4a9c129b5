"""Compiles variants of one program and compares each with the baseline."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import threading
import time
from collections.abc import Sequence
from typing import Literal

from inspector.analysis.diff.fingerprint import fingerprint, reliable
from inspector.api.flag_effects.effect import (
    Baseline,
    FailedEffect,
    FlagEffect,
    Found,
    compare,
    failed,
    is_measurable,
    unmeasured,
    with_times,
)
from inspector.api.flag_effects.pool import EnginePool, OverError
from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.engine import Engine, Job
from inspector.compilation.options.options import FlagValue, Options
from inspector.compilation.program import Program
from inspector.compilation.request import CompileRequest
from inspector.compilation.target import Target
from inspector.engines.assemble import request_warnings
from inspector.engines.choice import engine_for
from inspector.errors import (
    TargetError,
    TimeLimitError,
)
from inspector.execution.interleaved import run_interleaved, timers
from inspector.hlo.module import Module
from inspector.platforms import Peak
from inspector.stages.estimates import estimate
from inspector.stages.lowered import Lowered

_MOST_WORKERS = 4
_GRACE_S = 0.2
"""Seconds that unneeded machine code may still take: about the time in which another worker starts."""
_TIMES_BASELINE = 5.0
_LEAST_LIMIT_S = 10.0


@dataclasses.dataclass(frozen=True, slots=True)
class ScanLimits:
    """Limits of the compiles.

    Attributes:
      has_code: compile to machine code; otherwise compiles stop when the optimized HLO is known and counted.
      total_s: time limit of all compiles in seconds, None for none.
      trial_s: time limit of each compile in seconds; "auto" for a multiple of the baseline's time, None for none.
      executions: number of measured executions of each program; 0 to measure none. Needs `has_code`.
    """

    has_code: bool
    total_s: float | None = None
    trial_s: float | Literal["auto"] | None = "auto"
    executions: int = 0


class Laboratory:
    """Compiles variants of one program, each on one engine, and compares them with the baseline. Thread-safe.

    Its own engines are workers, one per core, where workers suit the target.
    """

    def __init__(
        self,
        lowered: Lowered,
        target: Target,
        options: Options,
        engine: Engine | None,
        limits: ScanLimits,
        *,
        peak: Peak | None = None,
        width: int = 1,
    ) -> None:
        """Prepares the compiles; starts nothing yet.

        Args:
          lowered: the program.
          target: the target.
          options: options of the baseline.
          engine: the engine, for one compile at a time; None for own engines.
          limits: limits of the compiles.
          peak: the roofs of estimated times; None for the published ones of the target.
          width: maximum number of own engines.
        """
        options.check()
        self._request = CompileRequest(lowered.program, options, target)
        self._limits = limits
        self._peak = peak
        self._user_engine = engine
        self._pool = EnginePool(lowered.program, target, engine, time_limit_s=limits.total_s, width=width)
        self._baseline: Baseline | None = None
        self._trial_s = None if limits.trial_s == "auto" else limits.trial_s
        self._lock = threading.Lock()
        self._compiled: dict[tuple[str, str], CompiledProgram] = {}
        """Programs to measure, by flag and value."""

    @property
    def width(self) -> int:
        """The number of simultaneous compiles."""
        return self._pool.width

    @property
    def module(self) -> Module:
        """The baseline's optimized HLO; `prepare` must have returned."""
        assert self._baseline is not None, "it was prepared"
        return self._baseline.program.module()

    def prepare(self) -> None:
        """Compiles the baseline twice. Differences between the two are not attributed to flags.

        Raises:
          CancelledError: `stop` was called.
          CompilationError: the baseline cannot be compiled.
          TimeLimitError: the baseline alone exceeds the total time limit.
        """
        if self._baseline is not None:
            return
        options, began = self._request.options, time.monotonic()
        try:
            first, second = self._compile_twice(options)
        except (OverError, TimeoutError):
            raise TimeLimitError(
                f"Compiling the baseline of {self._request.program.name!r} took longer than the"
                f" {time.monotonic() - began:.3g} s left, so no flag was tried. Raise the time limit."
            ) from None
        digests = reliable(fingerprint(first), fingerprint(second))
        self._baseline = Baseline(
            first, digests, estimate(first, self._peak), self._peak, self._warnings(first, options)
        )
        if self._limits.trial_s == "auto":
            self._trial_s = max(_LEAST_LIMIT_S, _TIMES_BASELINE * (time.monotonic() - began))

    def effect(self, flag: str, value: FlagValue) -> FlagEffect:
        """Returns the effect of a value.

        Raises:
          CancelledError: `stop` was called.
          OverError: no time is left.
          CompilationError, TimeLimitError: as for `prepare`.
        """
        self.prepare()
        assert self._baseline is not None, "it was prepared"
        options = self._request.options.merge(Options(flags={flag: value}))
        result = self._pool.attempt(self._with(options), self._trial_s, self._result)
        if isinstance(result, FailedEffect):
            return failed(flag, value, result)
        effect = compare(flag, value, self._baseline, result, self._warnings(result, options))
        if self._limits.executions and is_measurable(effect) and isinstance(result, CompiledProgram):
            with self._lock:
                self._compiled[flag, str(value)] = result
        return effect

    def measured(self, effects: Sequence[FlagEffect]) -> list[FlagEffect]:
        """Returns effects with measured times, if these are requested. No compile may run meanwhile.

        The baseline and the programs that differ from it run in turns.

        Raises:
          CancelledError: `stop` was called.
        """
        if not self._limits.executions or self._baseline is None:
            return list(effects)
        base = self._baseline.program
        assert isinstance(base, CompiledProgram), "measured programs are compiled to machine code"
        engine = engine_for(self._user_engine, base.program, base.target)
        programs = [base, *self._compiled.values()]
        each_timer = timers(programs, [engine] * len(programs))
        found = run_interleaved(each_timer, repeat=self._limits.executions, is_over=self._pool.is_over)
        times = dict(zip(self._compiled, found[1:], strict=True))
        return [
            with_times(each, times[each.flag, str(each.value)], found[0])
            if (each.flag, str(each.value)) in times
            else each
            if each.measured_s is not None
            else unmeasured(each)
            for each in effects
        ]

    def stop(self) -> None:
        """Cancels the running compiles. May be called from any thread."""
        self._pool.stop()

    def close(self) -> None:
        """Closes the engines that it started."""
        self._pool.close()

    def _warnings(self, program: Found, options: Options) -> tuple[str, ...]:
        if isinstance(program, CompiledProgram):
            return program.warnings
        return request_warnings(self._with(options))

    def _compile_twice(self, options: Options) -> tuple[Found, Found]:
        request = self._with(options)
        if self.width == 1:
            first_found = self._pool.compile(request, self._trial_s, self._result)
            return first_found, self._pool.compile(request, self._trial_s, self._result)
        with (
            self._pool.compiling(request, self._result) as first,
            self._pool.compiling(request, self._result) as second,
        ):
            return first(self._trial_s), second(self._trial_s)

    def _with(self, options: Options) -> CompileRequest:
        return dataclasses.replace(self._request, options=options)

    def _result(self, job: Job[CompiledProgram], limit_s: float | None) -> Found:
        if self._limits.has_code:
            return job.result(limit_s)
        began = time.monotonic()
        preview = job.preview(limit_s)
        base = self._baseline.program if self._baseline is not None else None
        if base is not None and preview.hlo == base.hlo:  # then it costs the same, which takes time to count
            preview = dataclasses.replace(preview, cost=base.cost)
        else:
            preview = job.preview(
                None if limit_s is None else max(0.0, limit_s - time.monotonic() + began), counted=True
            )
        with contextlib.suppress(
            TimeoutError
        ):  # the code is not asked for, but that there can be none is worth knowing
            job.result(_GRACE_S)
        return preview


def check_runnable(target: Target) -> None:
    """Refuses to measure programs that cannot run.

    Raises:
      TargetError: the target's device is not attached.
    """
    if target.is_absent or target.jax:
        raise TargetError(
            f"measure=True runs the program, but {target} can only be compiled for. Use an attached device or cpu:N, or"
            " measure=False to rank by the estimated time."
        )


def check_isolated(program: Program, target: Target) -> None:
    """Refuses programs that only this process can compile.

    Raises:
      TargetError: a flag that crashes XLA would end this process.
    """
    from inspector.engines.shared_engines import default_engine

    if default_engine(program, target).name == "inline":
        why = "because of its callbacks" if program.host_callbacks else f"which has the devices of the target {target}"
        raise TargetError(
            f"The program {program.name!r} can only be compiled in this process, {why}. A scan tries flags that can crash"
            " XLA and would end the process. Use the target 'cpu' if the program was lowered for it, or flag_effect for"
            " single flags. To scan anyway, pass engine='inline'."
        )


def cores() -> int:
    """Returns the number of programs that this process can compile at the same time."""
    known = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(known, _MOST_WORKERS)
