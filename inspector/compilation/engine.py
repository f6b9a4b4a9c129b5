"""The engine contract: `submit` returns a `Job` at once. A job has progress, a preview, a result, and can be canceled.

Threads: a cell, a script or a widget's `submit` calls `Engine.submit` and `Engine.run` from
any thread. The engine resolves the job on a separate thread. Callbacks added with
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
from inspector.support.notebook import short
from inspector.support.units import format_seconds

EngineLike: TypeAlias = "Engine | str | Any"
"""The forms of an engine for users: "worker" (a separate process), "inline" (this process), "dask", a Dask client, an engine."""

T = TypeVar("T")

READING_CACHE = "reading the cache"
"""The stage of a job that waits for the cache, not for a compiler."""

UNHEARD = (
    "XLA's own warnings are not listed: a compile in this process writes them to the process's stderr, or"
    " drops them if TF_CPP_MIN_LOG_LEVEL is above 1. A worker's compile lists them."
)
"""The warning of every compile by the engine "inline"."""

COMPILED_BY = "Compiled by JAX "
"""The beginning of the warning of every compile by another version of JAX, which names its folder."""

TRIES = 3
"""Number of tries if the worker of a request is lost (`WorkerLostError`): after that, the request is the likely cause."""
V = TypeVar("V")


class Job(Generic[T]):
    """A compile or run in progress. Created by an engine. Thread-safe.

    Attributes:
      stage: "queued", or what the job waits for ("queued behind compiling 'jit_f' for cpu:8"), then the current stage of
        the engine ("starting a worker", "compiling", "reading"), at the end "done", "failed" or "cancelled".
    """

    def __init__(self, cancel: Callable[[], None] | None = None) -> None:
        """Creates a job, for engines. `cancel` is called at most once, to stop work that has begun."""
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
        text = f"<Job {self.stage} after {format_seconds(self.elapsed_s)}"
        if not self.done():
            return f"{text}; result() waits for it>"
        error = self._future.exception()
        return (
            f"{text}: {short(self._future.result())}>" if error is None else f"{text}: {type(error).__name__}: {error}>"
        )

    @property
    def is_queued(self) -> bool:
        """True if the engine has not begun to work on the job."""
        return self.stage.startswith("queued")

    @property
    def elapsed_s(self) -> float:
        """Seconds since the job was submitted, until it ended."""
        return (self._ended or time.monotonic()) - self._started

    def done(self) -> bool:
        """Reports whether the job has a result or an error, or was canceled."""
        return self._future.done()

    def result(self, timeout: float | None = None) -> T:
        """Waits for the result.

        Args:
            timeout: seconds, None for no limit.

        Raises:
            TimeoutError: not ready in time; the job continues.
            CancelledError: the job was canceled.
            InspectorError: the engine's error (CompilationError, WorkerDiedError, ...).
        """
        return self._wait(self._future, timeout, "result")

    def preview(self, timeout: float | None = None, *, counted: bool = False) -> Preview:
        """Waits for the results before code generation: optimized HLO and memory, and the cost a moment later.

        Args:
            timeout: seconds, None for no limit.
            counted: waits for the cost too, or for the end of the job if the cost is not known by then.

        Raises:
            TimeoutError: not ready in time; the job continues.
            CancelledError: the job was canceled before.
            InspectorError: the job failed before, or is not a compile.
        """
        preview = self._wait(self._counted if counted else self._first, timeout, "preview")
        return self._counted.result() if self._counted.done() else preview

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Returns the job's error, or None. Waits like `result`."""
        return self._future.exception(timeout)

    def cancel(self) -> bool:
        """Stops the job. Returns whether it was still running; `result` then raises CancelledError."""
        cancel = self._cancel
        if not self.fail(CancelledError("The job was canceled."), stage="cancelled"):
            return False
        if cancel is not None:
            cancel()
        return True

    def add_done_callback(self, callback: Callable[[Job[T]], None]) -> None:
        """Calls `callback(job)` when the job ends, or at once if it has ended. Then drops the reference to it."""
        reference = weakref.ref(self)  # a reference cycle would wait for the garbage collector
        waiting = [callback]

        def call(_: object) -> None:
            job, callback = reference(), waiting.pop()
            if job is not None:  # always true: a method of the job settles the future
                callback(job)

        self._future.add_done_callback(call)

    def add_preview_callback(self, callback: Callable[[Preview], None]) -> None:
        """Calls `callback(preview)` when the preview is ready, or at once if it is, and again when its cost is known.

        Does not call it if there is no preview. Then drops the reference to it.
        """
        counted, waiting = self._counted, [callback]  # not `self`, because the future references its callbacks

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
        """Enters a stage. For engines."""
        with self._ending:
            if self._ended is not None:
                return
            self.stage = stage
        for callback in tuple(self._progress):
            callback(self)

    def show(self, preview: Preview) -> bool:
        """Sets the preview, or sets it again with its cost. For engines.

        Returns False if an equally complete preview was set before, or if the job has ended.
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
        """Ends the job with a result, after `show` for a compile. For engines. Returns False if it had ended before."""
        return self._end("done", lambda: self._future.set_result(value))

    def fail(self, error: BaseException, stage: str = "failed") -> bool:
        """Ends the job with an error. For engines. Returns False if it had ended before."""
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
            raise TimeoutError(f"No {what} after {timeout} s (stage: {self.stage}); the job continues.") from e


class Engine(Protocol):
    """The contract of engines, which compile and run programs. Thread-safe."""

    name: str

    def submit(self, request: CompileRequest) -> Job[CompiledProgram]:
        """Starts compiling and returns at once. Errors are reported through the job, not raised.

        The job gets a preview before its result: right after XLA's passes if the engine
        can read it then, otherwise together with the result (`Preview.before_code`). The cost may follow.
        """
        ...

    def run(self, request: RunRequest) -> Job[RunReply]:
        """Starts running and returns at once. Errors are reported through the job."""
        ...

    def close(self) -> None:
        """Ends every process and cancels every job. May be called repeatedly."""
        ...
