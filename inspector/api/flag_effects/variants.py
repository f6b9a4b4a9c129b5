"""Compiles variants of one program and compares each with the baseline."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
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
from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.engine import TRIES, Engine, Job
from inspector.compilation.options.options import FlagValue, Options
from inspector.compilation.program import Program
from inspector.compilation.request import CompileRequest
from inspector.compilation.target import Target
from inspector.engines.assemble import request_warnings
from inspector.engines.choice import engine_for
from inspector.errors import (
    CancelledError,
    InspectorError,
    TargetError,
    TimeLimitError,
    WorkerDiedError,
    WorkerLostError,
)
from inspector.execution.interleaved import run_interleaved
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


class OverError(Exception):
    """The time for all compiles is over."""


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
        self._engines = (engine,) if engine is not None else _own_engines(lowered.program, target, width)
        self._idle: queue.SimpleQueue[Engine] = queue.SimpleQueue()
        for each in self._engines:
            self._idle.put(each)
        self._until = math.inf if limits.total_s is None else time.monotonic() + limits.total_s
        self._baseline: Baseline | None = None
        self._trial_s = None if limits.trial_s == "auto" else limits.trial_s
        self._lock = threading.Lock()
        self._jobs: set[Job[CompiledProgram]] = set()
        self._compiled: dict[tuple[str, str], CompiledProgram] = {}
        """Programs to measure, by flag and value."""
        self._stopped = False

    @property
    def width(self) -> int:
        """The number of simultaneous compiles."""
        return len(self._engines)

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
        result = self._attempt(options)
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
        found = run_interleaved(
            programs, [engine] * len(programs), repeat=self._limits.executions, is_over=self._is_over
        )
        times = dict(zip(self._compiled, found[1:], strict=True))
        return [
            with_times(each, times[each.flag, str(each.value)], found[0])
            if (each.flag, str(each.value)) in times
            else each
            if each.measured_s is not None
            else unmeasured(each)
            for each in effects
        ]

    def _is_over(self) -> bool:
        if self._stopped:
            raise CancelledError("The scan was canceled.")
        return time.monotonic() >= self._until

    def stop(self) -> None:
        """Cancels the running compiles. May be called from any thread."""
        with self._lock:
            self._stopped = True
            jobs = tuple(self._jobs)
        for job in jobs:
            job.cancel()

    def close(self) -> None:
        """Closes the engines that it started."""
        for engine in self._engines:
            if self._user_engine is None and engine.name == "worker":
                engine.close()

    def _warnings(self, program: Found, options: Options) -> tuple[str, ...]:
        if isinstance(program, CompiledProgram):
            return program.warnings
        return request_warnings(dataclasses.replace(self._request, options=options))

    def _attempt(self, options: Options, tries: int = TRIES) -> Found | FailedEffect:
        try:
            return self._compile(options, self._trial_s)
        except TimeoutError:
            return FailedEffect("timed out", f"stopped after the limit of {self._trial_s:g} s")
        except CancelledError:
            raise
        except WorkerLostError as e:
            return self._attempt(options, tries - 1) if tries > 1 else FailedEffect("crashed", str(e))
        except WorkerDiedError as e:
            return FailedEffect("crashed", str(e))
        except InspectorError as e:
            return FailedEffect("refused", f"{type(e).__name__}: {e}")

    def _compile_twice(self, options: Options) -> tuple[Found, Found]:
        if self.width == 1:
            return self._compile(options, self._trial_s), self._compile(options, self._trial_s)
        with self._compiling(options) as first, self._compiling(options) as second:
            return first(self._trial_s), second(self._trial_s)

    def _compile(self, options: Options, limit_s: float | None) -> Found:
        """Compiles on the next idle engine. Raises what the context of `_compiling` raises."""
        with self._compiling(options) as wait:
            return wait(limit_s)

    @contextlib.contextmanager
    def _compiling(self, options: Options) -> Iterator[Callable[[float | None], Found]]:
        """Starts a compile and yields a function that waits for it for a number of seconds.

        The compile ends with the block. XLA cannot be interrupted, so that may end its worker. The function raises TimeoutError
        when its time is over, and OverError when no time is left for any compile.
        """
        engine = self._idle.get()
        job: Job[CompiledProgram] | None = None
        try:
            job = self._submit(engine, options)
            yield functools.partial(self._wait, job)
        finally:
            if job is not None:
                with self._lock:
                    self._jobs.discard(job)
                job.cancel()
            self._idle.put(engine)

    def _submit(self, engine: Engine, options: Options) -> Job[CompiledProgram]:
        with self._lock:
            if self._stopped:
                raise CancelledError("The scan was canceled.")
            if time.monotonic() >= self._until:
                raise OverError
            job = engine.submit(dataclasses.replace(self._request, options=options))
            self._jobs.add(job)
            return job

    def _wait(self, job: Job[CompiledProgram], limit_s: float | None) -> Found:
        left_s = self._until - time.monotonic()
        wait_s = left_s if limit_s is None else min(limit_s, left_s)
        try:
            return self._result(job, None if math.isinf(wait_s) else max(0.0, wait_s))
        except TimeoutError:
            if time.monotonic() >= self._until:
                raise OverError from None
            raise

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


def _own_engines(program: Program, target: Target, width: int) -> tuple[Engine, ...]:
    """Returns separate workers where workers suit the target; otherwise the default engine."""
    from inspector.engines.shared_engines import default_engine
    from inspector.engines.workers.fork_server import Starter
    from inspector.engines.workers.worker_engine import WorkerEngine

    suited = default_engine(program, target)
    if suited.name != "worker":
        return (suited,)
    starter = Starter("auto")  # of all: the fork server is what takes long to start
    return tuple(WorkerEngine(starter=starter) for _ in range(width))
