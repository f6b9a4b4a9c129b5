"""`EnginePool`: engines of long work, each with one compile or run at a time, with cancel and a time limit.

Used by scans, flag effects and bisections.
"""

from __future__ import annotations

import contextlib
import functools
import math
import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from inspector.api.flag_effects.effect import FailedEffect
from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.engine import TRIES, Engine, Job
from inspector.compilation.program import Program
from inspector.compilation.request import CompileRequest
from inspector.compilation.target import Target
from inspector.errors import CancelledError, InspectorError, WorkerDiedError, WorkerLostError

T = TypeVar("T")

Wait = Callable[[Job[CompiledProgram], float | None], T]
"""Waits for a job, for a number of seconds or without a limit, and returns what is needed of it."""


class OverError(Exception):
    """The time for all compiles is over."""


class EnginePool:
    """Engines that compile and run programs. Thread-safe.

    Its own engines are workers, where workers suit the target.
    """

    def __init__(
        self, program: Program, target: Target, engine: Engine | None, *, time_limit_s: float | None, width: int = 1
    ) -> None:
        """Prepares the engines; starts nothing yet.

        Args:
          program: the program.
          target: the target.
          engine: the engine, for one compile at a time; None for own engines.
          time_limit_s: seconds for all work, from now on; None for no limit.
          width: maximum number of own engines.
        """
        self._are_own = engine is None
        self._engines = (engine,) if engine is not None else _own_engines(program, target, width)
        self._idle: queue.SimpleQueue[Engine] = queue.SimpleQueue()
        for each in self._engines:
            self._idle.put(each)
        self._until = math.inf if time_limit_s is None else time.monotonic() + time_limit_s
        self._lock = threading.Lock()
        self._jobs: set[Job[Any]] = set()
        self._stopped = False

    @property
    def width(self) -> int:
        """The number of simultaneous compiles."""
        return len(self._engines)

    def is_over(self) -> bool:
        """Reports whether no time is left.

        Raises:
          CancelledError: `stop` was called.
        """
        if self._stopped:
            raise CancelledError("The job was canceled.")
        return time.monotonic() >= self._until

    def stop(self) -> None:
        """Cancels the running work. May be called from any thread."""
        with self._lock:
            self._stopped = True
            jobs = tuple(self._jobs)
        for job in jobs:
            job.cancel()

    def close(self) -> None:
        """Closes the engines that it started."""
        for engine in self._engines:
            if self._are_own and engine.name == "worker":
                engine.close()

    def attempt(
        self, request: CompileRequest, limit_s: float | None, wait: Wait[T], tries: int = TRIES
    ) -> T | FailedEffect:
        """Compiles, and returns a failure as a value.

        Args:
          request: the request.
          limit_s: seconds after which it is stopped; None for no limit.
          wait: waits for the job.
          tries: number of attempts if the worker is ended from outside.

        Raises:
          CancelledError: `stop` was called.
          OverError: no time is left.
        """
        try:
            return self.compile(request, limit_s, wait)
        except TimeoutError:
            return FailedEffect("timed out", f"stopped after the limit of {limit_s:g} s")
        except CancelledError:
            raise
        except WorkerLostError as e:
            return self.attempt(request, limit_s, wait, tries - 1) if tries > 1 else FailedEffect("crashed", str(e))
        except WorkerDiedError as e:
            return FailedEffect("crashed", str(e))
        except InspectorError as e:
            return FailedEffect("refused", f"{type(e).__name__}: {e}")

    def compile(self, request: CompileRequest, limit_s: float | None, wait: Wait[T]) -> T:
        """Compiles on the next idle engine. Raises what the context of `compiling` raises."""
        with self.compiling(request, wait) as waiting:
            found: T = waiting(limit_s)
        return found

    @contextlib.contextmanager
    def compiling(self, request: CompileRequest, wait: Wait[T]) -> Iterator[Callable[[float | None], T]]:
        """Starts a compile and yields a function that waits for it for a number of seconds.

        The compile ends with the block. XLA cannot be interrupted, so that may end its worker. The function raises TimeoutError
        when its time is over, and OverError when no time is left for any compile.
        """
        with self._working(lambda engine: engine.submit(request)) as job:
            yield functools.partial(self._wait, job, wait)

    def work(self, start: Callable[[Engine], Job[T]], limit_s: float | None = None) -> T:
        """Starts other work, such as a run, on the next idle engine and waits for it.

        Args:
          start: starts the work on an engine.
          limit_s: seconds after which it is stopped; None for no limit.

        Raises:
          TimeoutError: it took longer than the limit.
          CancelledError: `stop` was called.
          OverError: no time is left.
          InspectorError: the error of the work.
        """
        with self._working(start) as job:
            found: T = self._wait(job, lambda each, wait_s: each.result(wait_s), limit_s)
        return found

    @contextlib.contextmanager
    def _working(self, start: Callable[[Engine], Job[T]]) -> Iterator[Job[T]]:
        engine = self._idle.get()
        job: Job[T] | None = None
        try:
            with self._lock:
                if self.is_over():
                    raise OverError
                job = start(engine)
                self._jobs.add(job)
            yield job
        finally:
            if job is not None:
                with self._lock:
                    self._jobs.discard(job)
                job.cancel()
            self._idle.put(engine)

    def _wait(self, job: Job[Any], wait: Callable[[Any, float | None], T], limit_s: float | None) -> T:
        left_s = self._until - time.monotonic()
        wait_s = left_s if limit_s is None else min(limit_s, left_s)
        try:
            return wait(job, None if math.isinf(wait_s) else max(0.0, wait_s))
        except TimeoutError:
            if time.monotonic() >= self._until:
                raise OverError from None
            raise


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
