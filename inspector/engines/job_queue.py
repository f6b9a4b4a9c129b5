"""A queue of jobs and the thread that runs them in sequence.

The engine's caller adds jobs from any thread. Work, callbacks of jobs and their results all
run on the lane's own thread.
"""

from __future__ import annotations

import collections
import contextlib
import logging
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.engine import Job
from inspector.compilation.preview import Preview
from inspector.compilation.request import CompileRequest, RunRequest
from inspector.errors import CancelledError, of_resources

T = TypeVar("T")

_log = logging.getLogger(__name__)


class Lane:
    """Runs jobs in order. The thread starts with the first job and ends with `close`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._queue: queue.SimpleQueue[tuple[Job[Any], Callable[[], Any], str] | None] = queue.SimpleQueue()
        self._waiting: collections.deque[Job[Any]] = collections.deque()
        self._doing = ""
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False

    def put(self, job: Job[T], work: Callable[[], T], what: str = "") -> None:
        """Queues a job.

        Args:
          job: the job; while it waits, its stage names the work that it waits for.
          work: runs on the lane's thread; an exception fails the job.
          what: description of the work, such as "compiling 'jit_f' for cpu:8", for the jobs that wait for it.
        """
        with self._lock:
            if not self._closed:
                if self._doing:
                    advance(job, f"queued behind {self._doing}")
                self._waiting.append(job)
                self._queue.put((job, work, what))
                if self._thread is None:
                    thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
                    try:
                        thread.start()
                    except (RuntimeError, MemoryError) as e:
                        self._waiting.pop()
                        self._queue.get_nowait()
                        failed = of_resources(e, what) or e
                    else:
                        self._thread = thread
                        return
                else:
                    return
            else:
                failed = closed_error()
        job.fail(failed)

    def close(self, timeout_s: float = 0.0) -> None:
        """Cancels queued jobs and waits up to `timeout_s` for the current one. May be called repeatedly."""
        with self._lock:
            first, self._closed = not self._closed, True
        if first:
            self._queue.put(None)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)

    def hand_over(self, other: Lane) -> None:
        """Moves queued jobs to another lane, because the current job may never end. The thread ends with that job."""
        with self._lock:
            self._closed = True
            self._waiting.clear()
        items = []
        with contextlib.suppress(queue.Empty):
            while True:
                items.append(self._queue.get_nowait())
        self._queue.put(None)
        for item in items:
            if item is not None and not item[0].done():
                other.put(*item)

    def _serve(self) -> None:
        while (item := self._queue.get()) is not None:
            job, work, what = item
            self._begin(what)
            if self._closed:
                job.fail(closed_error(), stage="cancelled")
            elif not job.done():
                _do(job, work, what)
            self._doing = ""
            # So that results do not stay alive until the next job comes.
            del item, job, work

    def _begin(self, what: str) -> None:
        with self._lock:
            if self._waiting:
                self._waiting.popleft()
            self._doing = what
            waiting = tuple(self._waiting) if what else ()
        for job in waiting:
            if job.stage != (stage := f"queued behind {what}"):
                advance(job, stage)


def advance(job: Job[Any], stage: str) -> None:
    """Calls `job.advance` and logs an exception of a callback."""
    try:
        job.advance(stage)
    except Exception:
        _log.exception("A progress callback of a job failed.")


def forward(inner: Job[CompiledProgram], outer: Job[CompiledProgram]) -> None:
    """Repeats the stages, previews and result of `inner` on `outer`."""

    def show(preview: Preview) -> None:
        outer.show(preview)

    def end(done: Job[Any]) -> None:
        error = done.exception()
        if error is None:
            outer.resolve(done.result())
        else:
            outer.fail(error, stage=done.stage)

    inner.add_progress_callback(lambda job: advance(outer, job.stage))
    inner.add_preview_callback(show)
    inner.add_done_callback(end)
    if outer.done():  # canceled before `inner` existed
        inner.cancel()


def compiling(request: CompileRequest) -> str:
    """Describes a compile for messages."""
    return f"compiling {request.program.name!r} for {request.target}"


def running(request: RunRequest) -> str:
    """Describes a run for messages."""
    return f"running {request.compiled.program.name!r} on {request.compiled.target}"


def closed_error() -> CancelledError:
    """Returns the error of jobs whose engine was closed."""
    return CancelledError("The engine was closed before the job ran.")


def _do(job: Job[T], work: Callable[[], T], what: str) -> None:
    try:
        job.resolve(work())
    except BaseException as e:  # the lane's thread must continue; the job carries the error
        job.fail(of_resources(e, what) or e)
