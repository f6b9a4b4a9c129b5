"""The engine contract: `submit` returns a `Job` at once; the job has progress, a preview, cancel and result.

Who calls what: a cell, a script or a widget's `submit` calls `Engine.submit` and `Engine.run` from
any thread; the engine resolves the job on a thread of its own; callbacks added with
`Job.add_done_callback`, `Job.add_preview_callback` and `Job.add_progress_callback` run on that thread,
so they must be short and must not wait for another job. Every engine passes `tests/engines/test_contract.py`.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.preview import NOT_COUNTED, Preview
from inspector.compilation.request import CompileRequest, RunReply, RunRequest
from inspector.errors import CancelledError, InspectorError
from inspector.support.units import format_seconds

EngineLike: TypeAlias = "Engine | str | Any"
"""What users write for an engine: "worker" (a process of its own), "inline" (this process), "dask", a Dask client, or one."""

T = TypeVar("T")

READING_CACHE = "reading the cache"
"""The stage of a job that waits for no compiler."""

UNHEARD = (
    "What XLA itself warned of is not listed: a compile in this process writes it to the process's stderr, and not"
    " at all where TF_CPP_MIN_LOG_LEVEL is above 1. A worker's compile lists it."
)
"""The warning of every compile by the engine "inline"."""

TRIES = 3
"""So often is a request submitted whose worker is lost (`WorkerLostError`): by then it may well be the request's doing."""
V = TypeVar("V")


class Job(Generic[T]):
    """Work under way. Made by an engine; thread-safe.

    Attributes:
      stage: "queued", or for what the job waits ("queued behind compiling 'jit_f' for cpu:8"), then what the engine
        is doing ("starting a worker", "compiling", "reading"), last one of "done", "failed", "cancelled".
    """

    def __init__(self, cancel: Callable[[], None] | None = None) -> None:
        """Made by engines. `cancel` is called at most once, to stop work that has begun."""
        self.stage = "queued"
        self._started = time.monotonic()
        self._ended: float | None = None
        self._future: concurrent.futures.Future[T] = concurrent.futures.Future()
        self._first: concurrent.futures.Future[Preview] = concurrent.futures.Future()
        self._counted: concurrent.futures.Future[Preview] = concurrent.futures.Future()
        self._cancel = cancel
        self._progress: list[Callable[[Job[T]], None]] = []
        self._shown: Preview | None = None
        self._ending = threading.Lock()

    def __repr__(self) -> str:
        said = f"<Job {self.stage} after {format_seconds(self.elapsed_s)}"
        if not self.done():
            return f"{said}; result() waits for it>"
        error = self._future.exception()
        return f"{said}: {self._future.result()!r}>" if error is None else f"{said}: {type(error).__name__}: {error}>"

    @property
    def is_queued(self) -> bool:
        """Whether its engine has not begun with it."""
        return self.stage.startswith("queued")

    @property
    def elapsed_s(self) -> float:
        """Seconds since the job was submitted; stands still once it has ended."""
        return (self._ended or time.monotonic()) - self._started

    def done(self) -> bool:
        """Whether there is a result, an error, or the job was cancelled."""
        return self._future.done()

    def result(self, timeout: float | None = None) -> T:
        """Waits for the result.

        Args:
          timeout: seconds, None for no limit.

        Raises:
          TimeoutError: not ready in time; the job goes on.
          CancelledError: the job was cancelled.
          InspectorError: what the engine found (CompilationError, WorkerDiedError, ...).
        """
        return self._wait(self._future, timeout, "result")

    def preview(self, timeout: float | None = None, *, counted: bool = False) -> Preview:
        """Waits for what is known before there is code: optimized HLO and memory; the cost a moment later.

        Args:
          timeout: seconds, None for no limit.
          counted: to wait for the cost too, or for the end of a job that has none by then.

        Raises:
          TimeoutError: not there in time; the job goes on.
          CancelledError: the job was cancelled before.
          InspectorError: it failed before, or is none that compiles.
        """
        preview = self._wait(self._counted if counted else self._first, timeout, "preview")
        return self._counted.result() if self._counted.done() else preview

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """The job's error, or None; waits like `result`."""
        return self._future.exception(timeout)

    def cancel(self) -> bool:
        """Stops the job. Returns whether it was still running; `result` then raises CancelledError."""
        cancel = self._cancel
        if not self.fail(CancelledError("The job was cancelled."), stage="cancelled"):
            return False
        if cancel is not None:
            cancel()
        return True

    def add_done_callback(self, callback: Callable[[Job[T]], None]) -> None:
        """Calls `callback(job)` when the job has ended, at once if it already has, and lets go of it then."""
        reference = weakref.ref(self)  # in a callback of its own, it would wait for the garbage collector
        waiting = [callback]

        def call(_: object) -> None:
            job, callback = reference(), waiting.pop()
            if job is not None:  # it is: its own method settles the future
                callback(job)

        self._future.add_done_callback(call)

    def add_preview_callback(self, callback: Callable[[Preview], None]) -> None:
        """Calls `callback(preview)` when it is there, at once if it already is, and once more when its cost follows.

        Never without one. Lets go of it then.
        """
        counted, waiting = self._counted, [callback]  # not `self`: the future keeps its callbacks

        def call(done: concurrent.futures.Future[Preview]) -> None:
            if done.exception() is None and (done is counted or not counted.done()):
                for callback in tuple(waiting):
                    callback(done.result())
            if done is counted:
                waiting.clear()

        self._first.add_done_callback(call)
        counted.add_done_callback(call)

    def add_progress_callback(self, callback: Callable[[Job[T]], None]) -> None:
        """Calls `callback(job)` at each new stage."""
        self._progress.append(callback)

    def advance(self, stage: str) -> None:
        """For engines: enters a stage."""
        with self._ending:
            if self._ended is not None:
                return
            self.stage = stage
        for callback in tuple(self._progress):
            callback(self)

    def show(self, preview: Preview) -> bool:
        """For engines: tells the preview, and again with its cost where it came without.

        False when there was one that says as much, or the job had ended before.
        """
        with self._ending:
            before = self._shown
            if self._ended is not None or (before is not None and before.is_counted >= preview.is_counted):
                return False
            self._shown = preview
        if preview.is_counted:
            self._counted.set_result(preview)
        if before is None:
            self._first.set_result(preview)
        return True

    def resolve(self, value: T) -> bool:
        """For engines: ends the job with a result, for a compile after `show`. False when it had ended before."""
        return self._end("done", lambda: self._future.set_result(value))

    def fail(self, error: BaseException, stage: str = "failed") -> bool:
        """For engines: ends the job with an error. False when it had ended before."""
        return self._end(stage, lambda: self._future.set_exception(error))

    def _end(self, stage: str, settle: Callable[[], None]) -> bool:
        with self._ending:  # one thread wins; callbacks run outside, because they may end other jobs
            if self._ended is not None:
                return False
            self.stage, self._ended = stage, time.monotonic()
            shown, self._shown = self._shown, None
        if shown is not None and not shown.is_counted:
            self._counted.set_result(dataclasses.replace(shown, cost=NOT_COUNTED))
        settle()
        if shown is None:
            error = self._future.exception() or InspectorError("This job has no preview.")
            for preview in (self._first, self._counted):
                preview.set_exception(error)
        self._cancel = None  # both may refer to the job
        self._progress.clear()
        return True

    def _wait(self, future: concurrent.futures.Future[V], timeout: float | None, what: str) -> V:
        try:
            return future.result(timeout)
        except concurrent.futures.TimeoutError as e:
            if future.done():
                raise
            raise TimeoutError(f"No {what} after {timeout} s (stage: {self.stage}); the job goes on.") from e


class Engine(Protocol):
    """Who compiles and where. Thread-safe."""

    name: str

    def submit(self, request: CompileRequest) -> Job[CompiledProgram]:
        """Starts compiling and returns at once. Errors arrive through the job, none are raised here.

        The job gets a preview before its result: as soon as XLA's passes are through where the engine
        can see that, else together with the result (`Preview.before_code`). Its cost may follow.
        """
        ...

    def run(self, request: RunRequest) -> Job[RunReply]:
        """Starts running and returns at once. Errors arrive through the job."""
        ...

    def close(self) -> None:
        """Ends every process and cancels every job. May be called twice."""
        ...
