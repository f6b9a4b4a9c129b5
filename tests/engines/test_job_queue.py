from __future__ import annotations

import threading

import pytest

from inspector.compilation.engine import Job
from inspector.engines.job_queue import Lane, advance
from inspector.errors import CancelledError

LIMIT_S = 60


def test_jobs_are_done_in_order_and_a_failure_costs_only_its_own() -> None:
    lane, order = Lane("test"), list[int]()
    jobs: list[Job[None]] = [Job() for _ in range(4)]

    def work(number: int) -> None:
        order.append(number)
        if number == 1:
            raise ZeroDivisionError

    for number, job in enumerate(jobs):
        lane.put(job, lambda number=number: work(number))  # type: ignore[misc]
    assert isinstance(jobs[1].exception(LIMIT_S), ZeroDivisionError)
    assert jobs[3].exception(LIMIT_S) is None
    assert order == [0, 1, 2, 3]
    lane.close(LIMIT_S)


def test_a_job_canceled_while_waiting_never_starts() -> None:
    lane, go, begun = Lane("test"), threading.Event(), list[str]()
    first, cancelled, last = Job[bool](), Job[None](), Job[None]()
    lane.put(first, lambda: go.wait(LIMIT_S))
    lane.put(cancelled, lambda: begun.append("cancelled"))
    lane.put(last, lambda: begun.append("last"))
    assert cancelled.cancel()
    go.set()
    assert last.exception(LIMIT_S) is None
    assert begun == ["last"]
    lane.close(LIMIT_S)


def test_closing_cancels_waiting_jobs_and_lets_running_ones_end() -> None:
    lane, go, begun = Lane("test"), threading.Event(), list[str]()
    running, waiting, late = Job[bool](), Job[None](), Job[None]()
    started = threading.Event()
    lane.put(running, lambda: started.set() or go.wait(LIMIT_S))
    lane.put(waiting, lambda: begun.append("waiting"))
    assert started.wait(LIMIT_S)
    lane.close()
    lane.put(late, lambda: begun.append("late"))
    go.set()
    for job in (waiting, late):
        with pytest.raises(CancelledError, match="closed before the job ran"):
            job.result(LIMIT_S)
    assert running.result(LIMIT_S)
    lane.close(LIMIT_S)
    assert begun == []
    assert waiting.stage == "cancelled"


def test_a_listener_that_fails_does_no_harm() -> None:
    job: Job[None] = Job()
    job.add_progress_callback(lambda _: 1 / 0)  # type: ignore[arg-type,return-value]
    advance(job, "compiling")
    assert job.stage == "compiling"


def test_a_waiting_job_names_the_running_job() -> None:
    lane, go, begun = Lane("test"), threading.Event(), threading.Event()
    first, second, third = Job[bool](), Job[bool](), Job[None]()
    stages: list[str] = []
    third.add_progress_callback(lambda job: stages.append(job.stage))
    lane.put(first, lambda: begun.set() or go.wait(LIMIT_S), "compiling 'jit_f' for cpu")
    assert begun.wait(LIMIT_S)
    lane.put(second, lambda: go.wait(LIMIT_S), "running 'jit_g' on cpu")
    lane.put(third, lambda: advance(third, "running"))
    assert second.stage == third.stage == "queued behind compiling 'jit_f' for cpu"
    assert second.is_queued
    assert not first.done()
    go.set()
    assert third.exception(LIMIT_S) is None
    assert stages == [f"queued behind {what}" for what in ("compiling 'jit_f' for cpu", "running 'jit_g' on cpu")] + [
        "running"
    ]
    after = Job[None]()
    lane.put(after, lambda: None)
    assert after.exception(LIMIT_S) is None
    lane.close(LIMIT_S)


def test_a_job_without_memory_or_a_thread_fails_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise MemoryError

    lane, job = Lane("test"), Job[None]()
    lane.put(job, fail, "compiling 'f'")
    assert "Memory ran out while compiling 'f'" in str(job.exception(10))
    lane.close()

    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        other, job = Lane("test"), Job[None]()
        other.put(job, lambda: None)
    assert "No thread can be started" in str(job.exception(1))
    other.put(job := Job[None](), lambda: None)
    assert job.exception(10) is None
    other.close()


def test_a_job_behind_an_endless_job_continues_in_another_lane() -> None:
    ended, begun = threading.Event(), threading.Event()
    lane, other = Lane("test"), Lane("other")

    def wait() -> bool:
        begun.set()
        return ended.wait()

    lane.put(endless := Job[bool](), wait)
    assert begun.wait(10)
    lane.put(waiting := Job[int](), lambda: 3)
    lane.hand_over(other)
    assert waiting.result(10) == 3
    assert not endless.done()
    lane.put(late := Job[int](), lambda: 4)
    assert "closed" in str(late.exception(10))
    ended.set()
    assert endless.result(10)
    other.close()
