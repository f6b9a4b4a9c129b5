"""`WorkerLane`: the worker of one device environment and its queue of requests. Replaces the worker when it dies."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from inspector import settings
from inspector.compilation.engine import Job
from inspector.compilation.options.options import Options
from inspector.compilation.options.options_text import value_text
from inspector.engines.job_queue import Lane, advance, closed_error
from inspector.engines.workers.environment import Environment
from inspector.engines.workers.fork_server import Starter, is_stopped
from inspector.engines.workers.messages import Header, Message
from inspector.engines.workers.pending_executable import LOST
from inspector.engines.workers.process import START_LIMIT_S, Process, StartError, StartTimeoutError
from inspector.engines.workers.process_output import Death
from inspector.engines.workers.wire import WireError
from inspector.engines.workers.worker_memory import worker_limits
from inspector.errors import (
    InspectorError,
    StartLimitError,
    TimeLimitError,
    Unavailable,
    WorkerDiedError,
    WorkerLostError,
)

if TYPE_CHECKING:
    from inspector.engines.assemble import Shower

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_log = logging.getLogger(__name__)
_TAKEN_LIMIT_S = 20.0  # until an idle worker must have confirmed a request
_LEAST_BYTES_PER_S = 10 << 20
_LOOK_S, _LOOKS = 1.0, 3
_VALUE_LENGTH = 300  # characters of a flag's value in a message
_REMEDY = "Your session is unaffected."


@dataclasses.dataclass(frozen=True, slots=True)
class WorkerSettings:
    """Limits and start method of workers.

    Attributes:
      time_limit_s: a worker whose request takes longer is stopped; None for the value in `inspector.settings` when the
        request is submitted.
      max_requests: requests after which a worker is replaced.
      memory_limit_bytes: resident memory above which it is replaced after a request; None for a
        quarter of the machine's memory, but at least 2 GiB (half of the memory of a machine with less than 4 GiB; no
        such minimum up to 2 GiB).
      max_memory_bytes: resident memory above which it is stopped during a request; None for
        four fifths of the machine's memory.
      max_executables: loaded executables that a worker retains to run them again.
      max_workers: idle workers, one for each device environment; beyond that, the least recently used ones end. None for
        six, or for one where the machine or the process's memory limit has at most 2 GiB.
      start: "fork" with the fork server, "spawn" in a fresh interpreter, "auto" for "fork" where
        it works and "spawn" elsewhere.
    """

    time_limit_s: float | None = None
    max_requests: int = 500
    memory_limit_bytes: int | None = None
    max_memory_bytes: int | None = None
    max_executables: int = 4
    max_workers: int | None = None
    start: Literal["auto", "fork", "spawn"] = "auto"


@dataclasses.dataclass(frozen=True, slots=True)
class WorkerRequest(Generic[T_co]):
    """A request to a worker.

    Attributes:
      message: the request.
      what: description for messages, such as "compiling 'jit_f' for cpu:8".
      options: the user's options, which the message lists when the worker dies.
      read: converts the header and blobs of the reply.
      show: receives the messages before the reply and after it.
      cause: the likely cause of a crash with default flags.
    """

    message: Message
    what: str
    options: Options
    read: Callable[[Header, list[bytes]], T_co]
    show: Shower | None = None
    cause: str = "The module or its inputs may be too large for XLA on this machine."


class WorkerLane:
    """The queue, the worker and the current job of one device environment."""

    def __init__(self, where: Environment, starter: Starter, limits: WorkerSettings) -> None:
        memory_limit_bytes, max_memory_bytes = worker_limits()
        self._message = {
            **dataclasses.asdict(where),
            "max_executables": limits.max_executables,
            "max_requests": limits.max_requests,
            "memory_limit_bytes": limits.memory_limit_bytes or memory_limit_bytes,
            "max_memory_bytes": limits.max_memory_bytes or max_memory_bytes,
        }
        self._start_remedy = (
            f"Flags read at its start: {' '.join(map(_clipped, read_at_start))}. Remove or change a flag."
            if (read_at_start := (*where.xla_flags, *where.init_args))
            else "Use engine='inline' to compile in this process."
            if where.platform == "cpu"
            else f"inspector.targets() shows whether the compiler for {where.platform} targets is installed."
        )
        # Flags can be the cause: a worker reads no other part of the request at its start.
        self._start_error = WorkerDiedError if read_at_start else WorkerLostError
        self._starter = starter
        self._settings_limit_s = limits.time_limit_s
        self._time_limit_s: float | None = None  # of the current job; used on the lane's thread only
        self._lane = Lane(f"inspector-worker-{where}")
        self._lock = threading.Lock()
        self._worker: Process | None = None  # set on the lane's thread only
        self._busy: tuple[Job[Any], Process] | None = None
        self._resting = False
        self._closed = False

    def put(self, what: str, work: Callable[[WorkerLane, Job[T]], T]) -> Job[T]:
        """Queues work for the lane's thread. `what` describes it in messages."""
        job: Job[T] = Job(cancel=lambda: self._cancel(job))
        time_limit_s = settings.current().time_limit_s if self._settings_limit_s is None else self._settings_limit_s

        def do() -> T:
            self._time_limit_s = time_limit_s
            return work(self, job)

        self._lane.put(job, do, what)
        return job

    def prepare(self, job: Job[Any]) -> None:
        """Starts a worker unless one is ready."""
        self._ready(job)

    def rest(self) -> None:
        """Ends the worker after the queued work. A later request starts a new one."""
        if self._worker is not None and not self._resting:
            self._resting = True
            self._lane.put(Job[None](), self._rest)

    def _rest(self) -> None:
        self._resting = False
        self._discard()

    def ask(self, job: Job[Any], request: WorkerRequest[T]) -> tuple[T, str]:
        """Sends a request and waits for the reply. Called on the lane's thread.

        Args:
          job: receives the stages; cancelling it kills the worker.
          request: the request.

        Returns:
          The reply, and the output of XLA during the request.

        Raises:
          InspectorError: the error that the worker replied.
          WorkerDiedError: the worker died, or its reply cannot be read.
          WorkerLostError: another process ended the worker, or it could not be started.
          TimeLimitError: the request took too long, including the start of its worker.
        """
        limit = _TimeLimit(self._time_limit_s)
        try:
            worker, answer, recycle = self._converse(job, request, limit)
        except _OtherCauseError:
            try:
                worker, answer, recycle = self._converse(job, request, limit)
            except _OtherCauseError as e:
                raise WorkerLostError(str(e)) from e
        log = worker.read_log()
        if recycle:
            self._replace()
        if isinstance(answer, InspectorError):
            raise answer
        return answer, log

    def close(self) -> None:
        """Cancels the current job and all queued ones, and ends the worker."""
        with self._lock:
            self._closed = True
            busy = self._busy
        if busy is not None:
            busy[0].fail(closed_error(), stage="cancelled")
            busy[1].kill()
        self._lane.close(timeout_s=10.0)
        self._discard()

    def _converse(
        self, job: Job[Any], request: WorkerRequest[T], limit: _TimeLimit
    ) -> tuple[Process, T | InspectorError, bool]:
        try:
            worker = self._ready(job, limit.left_s)
        except StartTimeoutError as e:
            raise limit.start_error(request.what) from e
        with self._lock:
            if job.done() or self._closed:
                raise closed_error()
            self._busy = (job, worker)
        limit.watch(worker)
        taken = False
        # A worker that is stopped (SIGSTOP, a debugger) or hangs while idle does not confirm the request. It is replaced.
        unresponsive = threading.Timer(_TAKEN_LIMIT_S + _size(request.message) / _LEAST_BYTES_PER_S, worker.kill)
        unresponsive.daemon = True
        unresponsive.start()
        try:
            worker.send(*request.message)
            while True:
                header, blobs = worker.receive()
                if "taken" in header:
                    unresponsive.cancel()
                    taken = True
                elif "stage" in header:
                    advance(job, str(header["stage"]))
                elif "preview" in header or "counted" in header:
                    _show(request.show, header, blobs)
                else:
                    answer = _read_reply(header, blobs, request.read, request.what)
                    if request.show is not None and header["reply"] == "compiled":
                        return worker, answer, _tell(request.show, answer, worker)
                    return worker, answer, header.get("recycle") is True
        except (EOFError, OSError, WireError) as e:
            limit.stop()
            error = self._died(request, limit, e)
            guilty = taken and not worker.went_with_server()
            raise error if guilty or limit.reached or job.done() else _OtherCauseError(str(error)) from e
        finally:
            unresponsive.cancel()
            limit.stop()
            with self._lock:
                self._busy = None

    def _ready(self, job: Job[Any], limit_s: float = START_LIMIT_S) -> Process:
        if self._worker is not None and self._worker.alive():
            if not is_stopped(self._worker.pid):
                return self._worker
            self._worker.kill()
        self._discard()
        advance(job, "starting a worker")
        try:
            self._worker = self._starter.start(self._message, min(limit_s, START_LIMIT_S))
        except StartTimeoutError as e:
            if limit_s < START_LIMIT_S:
                raise
            raise WorkerLostError(f"{e} {self._start_remedy}") from e
        except StartError as e:
            raise self._start_error(f"{e} {self._start_remedy}") from e
        if self._closed:  # during a start that took longer than `close` waits
            self._discard()
            raise closed_error()
        return self._worker

    def _cancel(self, job: Job[Any]) -> None:
        with self._lock:
            if self._busy is not None and self._busy[0] is job:
                self._busy[1].kill()

    def _discard(self) -> int | None:
        worker, self._worker = self._worker, None
        return worker.close() if worker is not None else None

    def _replace(self) -> None:
        """Queues the start of a new worker behind the queued work, so that the next request finds it ready."""
        self._discard()
        if not self._closed:
            job: Job[None] = Job()
            self._lane.put(job, lambda: self.prepare(job))

    def _died(self, request: WorkerRequest[Any], limit: _TimeLimit, cause: Exception) -> WorkerDiedError:
        what, options = request.what, request.options
        worker = self._worker
        if worker is not None and isinstance(cause, WireError):
            worker.kill()  # it may still be writing
        status = self._discard()
        death = Death.of(status, worker.read_log() if worker is not None else "")
        self._replace()
        with_flags = _with_flags(options)
        if limit.reached:
            return limit.error(what, options)
        if isinstance(cause, WireError):
            return WorkerDiedError(
                f"The worker's reply while {what} {with_flags} cannot be read, so the worker was stopped: {cause} {_REMEDY}"
            )
        advice = "Remove or change a flag and try again." if options.as_dict() else request.cause
        fatal = f": {death.fatal}" if death.fatal else ""
        if death.is_from_outside:
            return WorkerLostError(
                f"Another process ended the worker ({death.how}) while {what} {with_flags}. {_REMEDY} Try again. If the system"
                " ended it because memory ran out, use a smaller program or a machine with more memory."
            )
        return WorkerDiedError(f"XLA crashed ({death.how}) while {what} {with_flags}{fatal}. {_REMEDY} {advice}")


def _size(message: Message) -> int:
    return sum(len(blob) for blob in message[1])


def _show(show: Shower | None, header: Header, blobs: list[bytes]) -> None:
    try:
        if show is not None:
            show.hear(header, blobs)
    except Exception:  # the result still follows
        _log.exception("A preview could not be read.")


def _tell(show: Shower, report: Any, worker: Process) -> bool:
    """Passes on the compiled program, then reads the executable that follows. Reports whether to replace the worker."""
    from inspector.engines.workers import messages

    ends = list[bool]()

    def read() -> bytes | Unavailable:
        try:
            header, blobs = worker.receive()
            executable = messages.read_executable(header, blobs)
        except Exception as e:  # for any malformed message: the rest of the program has arrived
            _log.info("A worker ended before it sent a program's executable: %s", e)
            ends.append(True)
            return LOST
        ends.append(header.get("recycle") is True)
        return executable

    show.executable.follow(read)
    try:
        show.result(report, worker.read_log())
    finally:  # otherwise, the next request would read it as its reply
        with _killed_when_stopped(worker):
            show.executable.get()
    return any(ends)


@contextlib.contextmanager
def _killed_when_stopped(worker: Process) -> Iterator[None]:
    """Kills a worker that is stopped (SIGSTOP) meanwhile. The user already has the result and takes the worker for idle."""
    ended = threading.Event()

    def watch() -> None:
        looks = 0
        while not ended.wait(_LOOK_S):
            looks = looks + 1 if is_stopped(worker.pid) else 0
            if looks == _LOOKS:
                worker.kill()

    threading.Thread(target=watch, name="inspector-stopped", daemon=True).start()
    try:
        yield
    finally:
        ended.set()


def _with_flags(options: Options) -> str:
    flags = " ".join(f"{name}={_clipped(value)}" for name, value in options.as_dict().items())
    return f"with the flags {flags}" if flags else "with default flags"


def _clipped(value: object) -> str:
    text = value_text(value)
    return text if len(text) <= _VALUE_LENGTH else f"{text[:_VALUE_LENGTH]}..."


def _read_reply(
    header: Header, blobs: list[bytes], read: Callable[[Header, list[bytes]], T], doing: str
) -> T | InspectorError:
    """Returns the reply, or the error in it. Raises WireError when it is neither."""
    from inspector.engines.workers import messages

    try:
        return messages.read_error(header, doing) if header["reply"] == "error" else read(header, blobs)
    except Exception as e:
        raise WireError(f"Its reply {header.get('reply')!r} is not complete ({type(e).__name__}: {e}).") from e


class _OtherCauseError(WorkerDiedError):
    """The worker died of another cause: before it read the request, while idle, or because its fork server ended."""


class _TimeLimit:
    """The time limit of a request, including the start of its worker. Kills the worker when the time is up."""

    def __init__(self, limit_s: float | None) -> None:
        self._limit_s = limit_s
        self._until = math.inf if limit_s is None else time.monotonic() + limit_s
        self.reached = False
        self._timer: threading.Timer | None = None

    @property
    def left_s(self) -> float:
        return self._until - time.monotonic()

    def watch(self, worker: Process) -> None:
        if self._limit_s is None:
            return

        def end() -> None:
            self.reached = True
            worker.kill()

        self._timer = threading.Timer(max(0.0, self.left_s), end)
        self._timer.daemon = True
        self._timer.start()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def error(self, what: str, options: Options) -> TimeLimitError:
        return TimeLimitError(
            f"{what[:1].upper()}{what[1:]} {_with_flags(options)} took longer than the limit of {self._limit_s:g} s, so"
            f" the worker was stopped. {_REMEDY}"
        )

    def start_error(self, what: str) -> StartLimitError:
        return StartLimitError(f"No worker started for {what} within the limit of {self._limit_s:g} s. Try again.")
