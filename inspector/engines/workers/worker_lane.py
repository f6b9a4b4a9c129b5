"""`WorkerLane`: the worker of one device environment, what waits for it, and what becomes of both when it dies."""

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
from inspector.engines.workers.machine_memory import worker_limits
from inspector.engines.workers.messages import Header, Message
from inspector.engines.workers.pending_executable import LOST
from inspector.engines.workers.process import START_LIMIT_S, Process, StartError, StartTimeoutError
from inspector.engines.workers.process_output import Death
from inspector.engines.workers.wire import WireError
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
_TAKEN_LIMIT_S = 20.0  # until a worker that does nothing else says that it has read a request
_LEAST_BYTES_PER_S = 10 << 20
_LOOK_S, _LOOKS = 1.0, 3
_VALUE_LENGTH = 300  # of a flag's value in a message
_REMEDY = "Nothing else was lost and the next request gets a new worker."


@dataclasses.dataclass(frozen=True, slots=True)
class WorkerSettings:
    """How workers live.

    Attributes:
      time_limit_s: a request that takes longer costs its worker; None for what `inspector.settings` says when
        it is submitted.
      max_requests: requests after which a worker is replaced.
      memory_limit_bytes: resident memory above which it is replaced after a request; None for a
        quarter of the machine's, at least 2 GiB or half of it where it has more than 2 GiB.
      max_memory_bytes: resident memory above which it is stopped in the middle of a request; None for
        four fifths of the machine's.
      max_executables: executables that a worker keeps alive for running.
      max_workers: workers, one a device environment, that wait for requests; of more, the longest unused end. None for
        six, or one where the machine or what is allowed of it has at most 2 GiB.
      start: "fork" through the fork server, "spawn" in a fresh interpreter, "auto" for the first
        where it works.
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
    """What a worker is asked.

    Attributes:
      message: the request.
      what: for messages, such as "compiling 'jit_f' for cpu:8".
      options: the user's, to name them when the worker dies.
      read: makes a value of header and blobs of the answer.
      show: gets what comes before the answer, and what follows it.
    """

    message: Message
    what: str
    options: Options
    read: Callable[[Header, list[bytes]], T_co]
    show: Shower | None = None


class WorkerLane:
    """One device environment: its queue, its worker, the job under way."""

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
            f"It was to start with {' '.join(map(_clipped, read_at_start))}: leave out or change a flag."
            if (read_at_start := (*where.xla_flags, *where.init_args))
            else "Use engine='inline' to compile in this process."
            if where.platform == "cpu"
            else f"inspector.targets() tells whether the compiler for {where.platform} targets is installed."
        )
        # Flags can be the cause; nothing else of a request is there yet.
        self._start_error = WorkerDiedError if read_at_start else WorkerLostError
        self._starter = starter
        self._settings_limit_s = limits.time_limit_s
        self._time_limit_s: float | None = None  # of the job under way; the lane's thread alone uses it
        self._lane = Lane(f"inspector-worker-{where}")
        self._lock = threading.Lock()
        self._worker: Process | None = None  # set on the lane's thread only
        self._busy: tuple[Job[Any], Process] | None = None
        self._resting = False
        self._closed = False

    def put(self, what: str, work: Callable[[WorkerLane, Job[T]], T]) -> Job[T]:
        """Queues work, which is `what` in words; it runs on the lane's thread."""
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
        """Ends the worker when what is queued has been done; another request gets a new one."""
        if self._worker is not None and not self._resting:
            self._resting = True
            self._lane.put(Job[None](), self._rest)

    def _rest(self) -> None:
        self._resting = False
        self._discard()

    def ask(self, job: Job[Any], request: WorkerRequest[T]) -> tuple[T, str]:
        """Sends a request and waits for its answer. On the lane's thread.

        Args:
          job: gets the stages; cancelling it kills the worker.
          request: what is asked.

        Returns:
          The answer, and what XLA wrote meanwhile.

        Raises:
          InspectorError: what the worker answered.
          WorkerDiedError: it did not, or nothing that could be read.
          WorkerLostError: it was ended from outside, or could not be started.
          TimeLimitError: it was stopped; its start counts.
        """
        limit = _TimeLimit(self._time_limit_s)
        try:
            worker, answer, recycle = self._converse(job, request, limit)
        except _OtherCauseError:
            try:
                worker, answer, recycle = self._converse(job, request, limit)
            except _OtherCauseError as e:
                raise WorkerLostError(str(e)) from e
        said = worker.read_log()
        if recycle:
            self._replace()
        if isinstance(answer, InspectorError):
            raise answer
        return answer, said

    def close(self) -> None:
        """Cancels the job under way and what waits, and ends the worker."""
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
        # A worker that is stopped (SIGSTOP, a debugger) or hangs while idle takes no request: it is replaced.
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
        if self._closed:  # while it started, which took longer than closing waits
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
        """A new worker as soon as what is queued has been done, so that the next request finds one."""
        self._discard()
        if not self._closed:
            job: Job[None] = Job()
            self._lane.put(job, lambda: self.prepare(job))

    def _died(self, request: WorkerRequest[Any], limit: _TimeLimit, cause: Exception) -> WorkerDiedError:
        what, options = request.what, request.options
        worker = self._worker
        if worker is not None and isinstance(cause, WireError):
            worker.kill()  # it may be writing still
        status = self._discard()
        death = Death.of(status, worker.read_log() if worker is not None else "")
        self._replace()
        with_flags = _with_flags(options)
        if limit.reached:
            return limit.error(what, options)
        if isinstance(cause, WireError):
            return WorkerDiedError(
                f"What the worker answered while {what} {with_flags} cannot be read, so it was stopped: {cause} {_REMEDY}"
            )
        advice = (
            "Leave out or change a flag."
            if options.as_dict()
            else "The module or its inputs are more than XLA can take here."
        )
        fatal = f": {death.fatal}" if death.fatal else ""
        if death.is_from_outside:
            return WorkerLostError(
                f"A worker process was ended from outside ({death.how}) while {what} {with_flags}. {_REMEDY} Compile it"
                " again; where the system ended it because memory ran out, the program needs more than there is."
            )
        return WorkerDiedError(
            f"XLA took its worker process down ({death.how}) while {what} {with_flags}{fatal}. {_REMEDY} {advice}"
        )


def _size(message: Message) -> int:
    return sum(len(blob) for blob in message[1])


def _show(show: Shower | None, header: Header, blobs: list[bytes]) -> None:
    try:
        if show is not None:
            show.hear(header, blobs)
    except Exception:  # the conversation goes on to the result
        _log.exception("A preview could not be read.")


def _tell(show: Shower, report: Any, worker: Process) -> bool:
    """Tells what was compiled, and takes the executable that follows; whether the worker is to be replaced."""
    from inspector.engines.workers import messages

    ends = list[bool]()

    def read() -> bytes | Unavailable:
        try:
            header, blobs = worker.receive()
            executable = messages.read_executable(header, blobs)
        except Exception as e:  # of whatever came: all else of the program is there
            _log.info("A worker ended before it had sent a program's executable: %s", e)
            ends.append(True)
            return LOST
        ends.append(header.get("recycle") is True)
        return executable

    show.executable.follow(read)
    try:
        show.result(report, worker.read_log())
    finally:  # or the next request had it for an answer
        with _killed_when_stopped(worker):
            show.executable.get()
    return any(ends)


@contextlib.contextmanager
def _killed_when_stopped(worker: Process) -> Iterator[None]:
    """Ends a worker that somebody stops meanwhile: its user has the result and takes it for idle."""
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
    """The answer, or the error that it tells. Raises WireError when it is neither."""
    from inspector.engines.workers import messages

    try:
        return messages.read_error(header, doing) if header["reply"] == "error" else read(header, blobs)
    except Exception as e:
        raise WireError(f"Its reply {header.get('reply')!r} is not complete ({type(e).__name__}: {e}).") from e


class _OtherCauseError(WorkerDiedError):
    """The worker died, and not of the request: before it read it, while idle, or because its fork server did."""


class _TimeLimit:
    """The time that a request has, the start of its worker included. Kills the worker when it is over."""

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
            f" its worker was stopped. {_REMEDY}"
        )

    def start_error(self, what: str) -> StartLimitError:
        return StartLimitError(f"No worker had started for {what} within the limit of {self._limit_s:g} s. Try again.")
