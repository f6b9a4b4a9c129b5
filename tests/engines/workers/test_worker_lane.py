"""The settings of a worker before it starts, and the results of requests, by workers that follow a script."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, cast

import pytest

from inspector.compilation.engine import Job
from inspector.compilation.options.options import Options
from inspector.engines.workers import worker_lane
from inspector.engines.workers.environment import Environment
from inspector.engines.workers.fork_server import Starter
from inspector.engines.workers.pending_executable import LOST, Awaited
from inspector.engines.workers.process import StartError, StartTimeoutError
from inspector.engines.workers.process_output import MEMORY_LIMIT
from inspector.engines.workers.wire import WireError
from inspector.engines.workers.worker_lane import WorkerLane, WorkerRequest, WorkerSettings
from inspector.errors import (
    CancelledError,
    CompilationError,
    ModuleError,
    StartLimitError,
    TimeLimitError,
    Unavailable,
    WorkerDiedError,
    WorkerLostError,
)

HERE = Environment("cpu", 8)


def limits_of(settings: WorkerSettings) -> tuple[int, int]:
    message: Any = WorkerLane(HERE, cast(Starter, None), settings)._message
    return message["memory_limit_bytes"], message["max_memory_bytes"]


def test_limits_of_memory_follow_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_lane, "worker_limits", lambda: (5, 11))
    assert limits_of(WorkerSettings()) == (5, 11)
    assert limits_of(WorkerSettings(memory_limit_bytes=7)) == (7, 11)
    assert limits_of(WorkerSettings(max_memory_bytes=9)) == (5, 9)


class FakeWorker:
    """Answers with messages in turn; an error is raised, a function is called first."""

    def __init__(self, *replies: Any, status: int | None = 0, log: str = "", with_server: bool = False) -> None:
        self.replies = list(replies)
        self.status, self.log, self.with_server = status, log, with_server
        self.sent: list[Any] = []
        self.killed, self.closed = threading.Event(), 0
        self.pid = 1

    def alive(self) -> bool:
        return not self.closed and not self.killed.is_set()

    def send(self, header: Any, blobs: Any) -> None:
        self.sent.append((header, blobs))

    def receive(self) -> Any:
        reply = self.replies.pop(0)
        if callable(reply):
            reply = reply(self)
        if isinstance(reply, Exception):
            raise reply
        return reply, []

    def kill(self) -> None:
        self.killed.set()

    def close(self) -> int | None:
        self.closed += 1
        return self.status

    def went_with_server(self) -> bool:
        return self.with_server

    def read_log(self) -> str:
        log, self.log = self.log, ""
        return log


class FakeStarter:
    """Hands out workers in turn; an error is raised."""

    def __init__(self, *workers: Any) -> None:
        self.workers = list(workers)
        self.environments: list[Any] = []
        self.limits: list[float] = []

    def start(self, environment: Any, limit_s: float) -> Any:
        self.environments.append(environment)
        self.limits.append(limit_s)
        worker = self.workers.pop(0) if self.workers else FakeWorker()
        if isinstance(worker, Exception):
            raise worker
        return worker


REQUEST = ({"do": "something"}, [b"blob"])
TAKEN, DONE = {"taken": True}, {"reply": "done"}
DIES = EOFError("the other process closed the stream")


def lane_of(*workers: Any, where: Environment = HERE, **limits: Any) -> tuple[WorkerLane, FakeStarter]:
    starter = FakeStarter(*workers)
    return WorkerLane(where, cast(Starter, starter), WorkerSettings(**limits)), starter


def ask(lane: WorkerLane, options: Options | None = None, show: Any = None) -> Job[Any]:
    request: WorkerRequest[Any] = WorkerRequest(
        cast(Any, REQUEST), "doing it", options or Options(), lambda header, _: header["reply"], show
    )
    return lane.put("doing it", lambda lane, job: lane.ask(job, request))


def waits(worker: FakeWorker) -> Exception:
    """Until it is killed."""
    assert worker.killed.wait(60)
    return DIES


def test_a_request_is_answered_by_a_worker_that_stays() -> None:
    worker = FakeWorker(TAKEN, {"stage": "half-way"}, {**DONE, "recycle": False}, TAKEN, DONE, log="a warning")
    lane, starter = lane_of(worker)
    stages: list[str] = []
    job = ask(lane)
    job.add_progress_callback(lambda job: stages.append(job.stage))
    assert job.result(60) == ("done", "a warning")
    assert ask(lane).result(60) == ("done", "")
    assert worker.sent == [REQUEST] * 2
    assert "half-way" in stages
    assert len(starter.environments) == 1
    assert starter.environments[0]["device_count"] == 8
    lane.close()
    assert worker.closed == 1


def test_a_worker_that_has_served_enough_is_replaced_when_nothing_waits() -> None:
    first, second = FakeWorker(TAKEN, {**DONE, "recycle": True}, log="said"), FakeWorker(DONE)
    lane, starter = lane_of(first, second)
    assert ask(lane).result(60) == ("done", "said")
    assert ask(lane).result(60) == ("done", "")
    assert first.closed == 1
    assert len(starter.environments) == 2
    lane.close()


def test_messages_before_the_reply_are_shown(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[Any] = []

    class Show:
        def hear(self, header: Any, blobs: Any) -> None:
            heard.append(header)
            if "counted" in header:
                raise ValueError("cannot be read")

    before = [{"preview": True}, {"counted": {}}]
    lane, _ = lane_of(FakeWorker(TAKEN, *before, DONE, *before, DONE))
    assert ask(lane, show=Show()).result(60) == ("done", "")
    assert heard == before
    assert "A preview could not be read" in caplog.text
    assert ask(lane).result(60) == ("done", "")
    lane.close()


class Told:
    """Gets what is compiled; asks for the executable that follows at once, or leaves it."""

    def __init__(self, error: Exception | None = None, *, asks: bool = False) -> None:
        self.done: list[Any] = []
        self.error, self.asks = error, asks

    def hear(self, *_: Any) -> None:
        raise AssertionError("nothing comes before")

    @functools.cached_property
    def executable(self) -> Awaited:
        return Awaited()

    def result(self, report: Any, said: str) -> None:
        self.done.append((report, said))
        if self.asks:
            self.done.append(self.executable.get())
        if self.error is not None:
            raise self.error


COMPILED = {"reply": "compiled"}
NONE = Unavailable("no code", "")
MISSING = {"reply": "executable", "missing": {"unavailable": "no code", "remedy": ""}}


@pytest.mark.parametrize("asks", [True, False])
def test_only_a_compiled_reply_is_followed_by_an_executable(asks: bool) -> None:
    worker = FakeWorker(TAKEN, COMPILED, {**MISSING, "recycle": False}, TAKEN, DONE, log="a warning")
    lane, starter = lane_of(worker)
    show = Told(asks=asks)
    assert ask(lane, show=show).result(60)[0] == "compiled"
    assert show.done == [("compiled", "a warning"), *([NONE] if asks else [])]
    assert show.executable.get() == NONE
    assert ask(lane).result(60) == ("done", "")
    assert len(starter.environments) == 1
    lane.close()


@pytest.mark.parametrize(
    "rest", [DIES, WireError("garbage"), {"reply": "error", "type": "", "text": "no"}, {"taken": True}]
)
def test_an_executable_that_never_comes_costs_only_itself(rest: Any) -> None:
    lane, starter = lane_of(FakeWorker(TAKEN, COMPILED, rest), FakeWorker(TAKEN, DONE))
    show = Told()
    assert ask(lane, show=show).result(60)[0] == "compiled"
    assert show.done == [("compiled", "")]
    assert show.executable.get() == LOST
    assert ask(lane).result(60) == ("done", "")
    assert len(starter.environments) == 2
    lane.close()


def test_a_failed_report_does_not_pass_its_executable_to_the_next_request() -> None:
    lane, starter = lane_of(FakeWorker(TAKEN, COMPILED, {**MISSING, "recycle": False}, TAKEN, DONE))
    show = Told(ValueError("odd"))
    with pytest.raises(ValueError, match="odd"):
        ask(lane, show=show).result(60)
    assert show.executable.get() == NONE
    assert ask(lane).result(60) == ("done", "")
    assert len(starter.environments) == 1
    lane.close()


def test_errors_of_the_request_cost_no_worker() -> None:
    worker = FakeWorker(
        TAKEN, {"reply": "error", "type": "ModuleError", "text": "no module"},
        TAKEN, {"reply": "error", "type": "", "text": "KeyError: 'x'"}, TAKEN, DONE,
    )  # fmt: skip
    lane, starter = lane_of(worker)
    with pytest.raises(ModuleError, match="no module"):
        ask(lane).result(60)
    with pytest.raises(CompilationError, match="The worker failed while doing it: KeyError: 'x'"):
        ask(lane).result(60)
    assert ask(lane).result(60)[0] == "done"
    assert len(starter.environments) == 1
    lane.close()


@pytest.mark.parametrize("reply", [{}, {"no": "reply"}, {"reply": "error"}, WireError("the stream is damaged")])
def test_an_invalid_reply_ends_the_worker(reply: Any) -> None:
    worker = FakeWorker(TAKEN, reply)
    lane, _ = lane_of(worker)
    with pytest.raises(
        WorkerDiedError, match=r"The worker's reply while doing it .* cannot be read, so the worker was stopped"
    ):
        ask(lane).result(60)
    assert worker.killed.is_set()
    assert worker.closed == 1
    lane.close()


def test_a_crash_is_reported_with_the_last_output_of_the_worker() -> None:
    lane, starter = lane_of(FakeWorker(TAKEN, DIES, status=-6, log="x.cc:1] Check failed: no\n"), FakeWorker(DONE))
    with pytest.raises(WorkerDiedError, match=r"XLA crashed \(SIGABRT\) while doing it") as caught:
        ask(lane).result(60)
    assert type(caught.value) is WorkerDiedError
    assert "with default flags: " in str(caught.value)
    assert "Check failed: no" in str(caught.value)
    assert str(caught.value).endswith("The module or its inputs may be too large for XLA on this machine.")
    assert ask(lane).result(60)[0] == "done"
    assert len(starter.environments) == 2
    lane.close()


def test_flags_are_named_when_a_worker_dies() -> None:
    lane, _ = lane_of(FakeWorker(TAKEN, DIES, status=1))
    options = Options(flags={"xla_cpu_enable_fast_math": True, "xla_dump_to": "x" * 400})
    with pytest.raises(
        WorkerDiedError, match=r"\(exit code 1\) .* with the flags xla_cpu_enable_fast_math=true"
    ) as caught:
        ask(lane, options).result(60)
    assert f"xla_dump_to={'x' * 300}..." in str(caught.value)
    assert str(caught.value).endswith("Remove or change a flag and try again.")
    lane.close()


def test_a_worker_killed_from_outside_does_not_blame_the_request() -> None:
    for log, kind in (("", WorkerLostError), (f"Fatal: 9 {MEMORY_LIMIT} 5\n", WorkerDiedError)):
        lane, _ = lane_of(FakeWorker(TAKEN, DIES, status=-9, log=log))
        with pytest.raises(kind) as caught:
            ask(lane).result(60)
        assert type(caught.value) is kind
        lane.close()


def test_a_worker_that_was_gone_before_is_another_cause() -> None:
    lane, starter = lane_of(FakeWorker(DIES, status=1), FakeWorker(TAKEN, DONE))
    assert ask(lane).result(60)[0] == "done"
    assert len(starter.environments) == 2
    lane.close()
    lane, starter = lane_of(FakeWorker(TAKEN, DIES, status=1, with_server=True), FakeWorker(DIES, status=1))
    with pytest.raises(WorkerLostError, match="exit code 1"):
        ask(lane).result(60)
    assert len(starter.environments) >= 2
    lane.close()


def test_cancelling_kills_the_worker_of_that_job_only() -> None:
    first, second = FakeWorker(TAKEN, waits), FakeWorker(TAKEN, DONE)
    lane, _ = lane_of(first, second)
    begun = threading.Event()
    job = ask(lane)
    job.add_progress_callback(lambda _: begun.set())
    later = ask(lane)
    while not first.sent:
        begun.wait(0.01)
    assert job.cancel()
    with pytest.raises(CancelledError):
        job.result(60)
    assert later.result(60)[0] == "done"
    assert first.killed.is_set()
    assert not second.killed.is_set()
    lane.close()


def test_closing_ends_running_and_waiting_requests() -> None:
    worker = FakeWorker(TAKEN, waits)
    lane, starter = lane_of(worker)
    jobs = [ask(lane), ask(lane)]
    while not worker.sent:
        threading.Event().wait(0.01)
    lane.close()
    for job in (*jobs, ask(lane)):
        with pytest.raises(CancelledError, match="The engine was closed"):
            job.result(60)
    assert worker.closed
    assert len(starter.environments) == 1


def test_a_limit_of_time_is_the_requests_start_included() -> None:
    worker = FakeWorker(TAKEN, waits, status=-9)
    lane, starter = lane_of(worker, time_limit_s=0.2)
    with pytest.raises(TimeLimitError, match=r"Doing it with default flags took longer than the limit of 0\.2 s"):
        ask(lane).result(60)
    assert starter.limits[0] <= 0.2
    lane.close()
    lane, _ = lane_of(StartTimeoutError("too long"), time_limit_s=0.2)
    with pytest.raises(StartLimitError, match=r"No worker started for doing it within the limit of 0\.2 s"):
        ask(lane).result(60)
    lane.close()


def test_a_worker_that_does_not_start_is_reported_with_a_remedy() -> None:
    cases: list[tuple[Environment, Exception, type[Exception], str]] = [
        (HERE, StartError("no room."), WorkerLostError, "no room. Use engine='inline'"),
        (Environment("tpu"), StartError("no room."), WorkerLostError, r"inspector.targets\(\) shows whether the compiler for tpu"),
        (Environment("tpu", init_args=("--xla_x=1",)), StartError("no room."), WorkerDiedError, "Flags read at its start: --xla_x=1. Remove"),
        (Environment("cpu", 2, ("--xla_y=2",)), StartError("no room."), WorkerDiedError, "Flags read at its start: --xla_y=2. Remove"),
        (HERE, StartTimeoutError("too long."), WorkerLostError, "too long. Use engine='inline'"),
    ]  # fmt: skip
    for where, error, kind, said in cases:
        lane, _ = lane_of(error, where=where)
        with pytest.raises(kind, match=said) as caught:
            ask(lane).result(60)
        assert type(caught.value) is kind
        lane.close()


def queued(lane: WorkerLane, work: Callable[[], Any]) -> Job[Any]:
    return lane.put("waiting", lambda lane, job: work())


def test_a_worker_that_rests_ends_once_all_before_is_done() -> None:
    first, second = FakeWorker(DONE), FakeWorker(DONE)
    lane, starter = lane_of(first, second)
    lane.rest()  # there is none
    assert ask(lane).result(60)[0] == "done"
    go = threading.Event()
    before = queued(lane, lambda: go.wait(60))
    lane.rest()
    after = ask(lane)
    lane.rest()  # as it does already
    last = queued(lane, lambda: None)
    assert not first.closed
    go.set()
    for job in (before, after, last):
        job.result(60)
    assert (first.closed, second.closed) == (1, 0)
    lane.rest()
    queued(lane, lambda: None).result(60)
    assert second.closed == 1
    assert len(starter.environments) == 2
    lane.close()
