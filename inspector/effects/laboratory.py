"""Compiles variants of one program, and holds each against the program as it is."""

from __future__ import annotations

import dataclasses
import threading

from inspector.analysis.fingerprint import Fingerprint, fingerprint, reliable
from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.engine import TRIES, Engine, Job
from inspector.compilation.options import FlagValue, Options
from inspector.compilation.program import Program
from inspector.compilation.request import CompileRequest
from inspector.compilation.target import Target
from inspector.effects.effect import Failure, FlagEffect, compare, failed
from inspector.errors import CancelledError, InspectorError, TargetError, WorkerDiedError, WorkerLostError
from inspector.stages.lowered import Lowered


class Laboratory:
    """Compiles variants of one program, one at a time, and compares each with the baseline."""

    def __init__(
        self, lowered: Lowered, target: Target, options: Options, engine: Engine | None, time_limit_s: float | None
    ) -> None:
        options.check()
        self._request = CompileRequest(lowered.program, options, target)
        self._time_limit_s = time_limit_s
        self._given = engine
        self._engine: Engine | None = None
        self._baseline: tuple[CompiledProgram, Fingerprint] | None = None
        self._lock = threading.Lock()
        self._job: Job[CompiledProgram] | None = None
        self._stopped = False

    def effect(self, flag: str, value: FlagValue) -> FlagEffect:
        """What a value does.

        Raises:
          CancelledError: `stop` was called.
          CompilationError: the baseline cannot be compiled.
        """
        baseline, digests = self._compile_baseline()
        found = self._attempt(self._request.options.merge(Options(flags={flag: value})))
        if isinstance(found, Failure):
            return failed(flag, value, found)
        return compare(flag, value, baseline, digests, found)

    def stop(self) -> None:
        """Ends the compile under way. From any thread."""
        with self._lock:
            self._stopped = True
            job = self._job
        if job is not None:
            job.cancel()

    def close(self) -> None:
        """Ends the engine, if it is its own."""
        if self._engine is not None and self._given is None and self._engine.name == "worker":
            self._engine.close()

    def _compile_baseline(self) -> tuple[CompiledProgram, Fingerprint]:
        if self._baseline is None:
            first, second = self._compile(self._request.options), self._compile(self._request.options)
            self._baseline = first, reliable(fingerprint(first), fingerprint(second))
        return self._baseline

    def _attempt(self, options: Options, tries: int = TRIES) -> CompiledProgram | Failure:
        try:
            return self._compile(options)
        except TimeoutError:
            return Failure("timed out", f"stopped after the limit of {self._time_limit_s:g} s")
        except CancelledError:
            raise
        except WorkerLostError as e:
            return self._attempt(options, tries - 1) if tries > 1 else Failure("crashed", str(e))
        except WorkerDiedError as e:
            return Failure("crashed", str(e))
        except InspectorError as e:
            return Failure("refused", f"{type(e).__name__}: {e}")

    def _compile(self, options: Options) -> CompiledProgram:
        with self._lock:
            if self._stopped:
                raise CancelledError("The scan was cancelled.")
            self._job = self._ready().submit(dataclasses.replace(self._request, options=options))
            job = self._job
        try:
            return job.result(self._time_limit_s)
        except TimeoutError:
            job.cancel()  # kills the worker: XLA itself cannot be interrupted
            raise

    def _ready(self) -> Engine:
        if self._engine is None:
            self._engine = self._given or _own_engine(self._request.program, self._request.target)
        return self._engine


def check_isolated(program: Program, target: Target) -> None:
    """Refuses what only this process can compile.

    Raises:
      TargetError: a flag that crashes XLA would end it.
    """
    from inspector.engines.shared import default_engine

    if default_engine(program, target).name == "inline":
        why = "it calls back into it" if program.host_callbacks else f"the target {target} belongs to it"
        raise TargetError(
            f"The program {program.name!r} can only be compiled in this process ({why}), and a scan tries flags that"
            " crash XLA, which would end the process. Use the target 'cpu' if the program was lowered for it, or"
            " flag_effect for single flags; engine='inline' scans all the same."
        )


def _own_engine(program: Program, target: Target) -> Engine:
    """Workers that nobody else waits for, where workers suit; else the engine that does."""
    from inspector.engines.shared import default_engine
    from inspector.engines.worker import WorkerEngine

    suited = default_engine(program, target)
    return WorkerEngine() if suited.name == "worker" else suited
