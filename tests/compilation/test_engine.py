"""`Job`: ends once, by the first caller."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Callable

import pytest

from inspector.compilation.cost import Cost
from inspector.compilation.engine import Job
from inspector.compilation.options.options import Options
from inspector.compilation.preview import COUNTING, NO_CODE, NOT_COUNTED, Preview
from inspector.compilation.program import Program
from inspector.compilation.target import Target
from inspector.errors import CancelledError, CompilationError, InspectorError, Unavailable


def test_a_job_goes_through_stages_and_ends_once() -> None:
    job: Job[int] = Job()
    stages: list[str] = []
    ended: list[str] = []
    job.add_progress_callback(lambda j: stages.append(j.stage))
    job.add_done_callback(lambda j: ended.append(j.stage))
    assert (job.stage, job.done()) == ("queued", False)
    job.advance("compiling")
    assert job.resolve(3)
    assert not job.resolve(4)
    assert not job.fail(CompilationError("late"))
    assert not job.cancel()
    job.advance("reading")
    assert (stages, ended, job.stage, job.result(0)) == (["compiling"], ["done"], "done", 3)
    assert job.exception() is None
    late: list[int] = []
    job.add_done_callback(lambda j: late.append(j.result()))
    assert late == [3]


def test_elapsed_time_stands_still_after_the_end() -> None:
    job: Job[int] = Job()
    time.sleep(0.01)
    assert job.elapsed_s >= 0.01
    job.fail(CompilationError("no"))
    at_end = job.elapsed_s
    time.sleep(0.01)
    assert job.elapsed_s == at_end
    assert job.stage == "failed"
    with pytest.raises(CompilationError, match="no"):
        job.result()


def test_cancel_stops_the_work_once() -> None:
    stopped: list[int] = []
    job: Job[int] = Job(cancel=lambda: stopped.append(1))
    assert job.cancel()
    assert not job.cancel()
    assert stopped == [1]
    assert job.stage == "cancelled"
    with pytest.raises(CancelledError):
        job.result()


def test_a_timeout_states_the_stage_of_the_job() -> None:
    job: Job[int] = Job()
    job.advance("compiling")
    with pytest.raises(TimeoutError, match=r"No result after 0.01 s \(stage: compiling\); the job continues"):
        job.result(0.01)
    job.fail(TimeoutError("the compiler's own"))
    with pytest.raises(TimeoutError, match="the compiler's own"):
        job.result(1)


def test_a_callback_may_end_another_job() -> None:
    first: Job[int] = Job()
    second: Job[int] = Job()
    first.add_done_callback(lambda _: second.resolve(2))
    second.add_done_callback(lambda _: first.cancel())
    first.resolve(1)
    assert (first.result(1), second.result(1)) == (1, 2)


def test_many_threads_end_a_job_and_one_of_them_wins() -> None:
    for _ in range(200):
        job: Job[int] = Job()
        start = threading.Barrier(4)
        won: list[str] = []

        def end(how: str, job: Job[int] = job, start: threading.Barrier = start, won: list[str] = won) -> None:
            start.wait()
            if {"done": lambda: job.resolve(1), "failed": lambda: job.fail(ValueError()), "cancelled": job.cancel}[
                how
            ]():
                won.append(how)

        threads = [threading.Thread(target=end, args=(how,)) for how in ("done", "failed", "cancelled", "done")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert won == [job.stage]


def preview(cost: Cost | Unavailable = NO_CODE) -> Preview:
    program = Program("f", b"", (), (), Options(), None, "cpu")
    return Preview(program, Options(), Target.parse("cpu"), "worker", "HloModule f", b"", NO_CODE, cost, 0.1)


def test_a_preview_is_shown_once_and_outlives_a_failure() -> None:
    job: Job[int] = Job()
    seen: list[str] = []
    job.add_preview_callback(lambda p: seen.append(p.hlo))
    with pytest.raises(TimeoutError, match=r"No preview after 0\.01 s \(stage: queued\)"):
        job.preview(0.01)
    assert job.show(preview())
    assert not job.show(preview())
    assert job.preview(0).before_code
    job.fail(CompilationError("no code"))
    job.add_preview_callback(lambda p: seen.append("late"))
    assert seen == ["HloModule f", "late"]
    assert job.preview() == preview()
    with pytest.raises(CompilationError, match="no code"):
        job.result()


def test_a_cost_follows_the_rest_of_its_preview() -> None:
    job: Job[int] = Job()
    seen: list[Preview] = []
    job.add_preview_callback(seen.append)
    assert job.show(preview(COUNTING))
    assert not job.show(preview(COUNTING))
    assert seen == [job.preview(0)] == [preview(COUNTING)]
    assert not seen[0].is_counted
    with pytest.raises(TimeoutError, match=r"No preview after 0\.01 s"):
        job.preview(0.01, counted=True)
    counted = preview(Cost(2.0, 0.0, 16.0))
    assert job.show(counted)
    assert not job.show(preview())
    assert job.preview(0) is job.preview(0, counted=True) is counted
    late: list[Preview] = []
    job.add_preview_callback(late.append)
    assert (seen[1:], late) == ([counted], [counted])
    job.resolve(1)
    assert job.preview() is counted


@pytest.mark.parametrize(
    "end", [lambda job: job.resolve(1), lambda job: job.fail(CompilationError("no code")), Job.cancel]
)
def test_a_missing_cost_does_not_stay_pending(end: Callable[[Job[int]], bool]) -> None:
    job: Job[int] = Job()
    told: list[tuple[Cost | Unavailable, bool]] = []
    job.add_preview_callback(lambda p: told.append((p.cost, job.done())))
    job.show(preview(COUNTING))
    assert end(job)
    assert told == [(COUNTING, False), (NOT_COUNTED, False)]  # before whoever waits for the end is woken
    assert job.preview() == job.preview(counted=True) == preview(NOT_COUNTED)
    assert not job.show(preview())


def test_a_missing_preview_has_a_reason() -> None:
    failed: Job[int] = Job()
    ended: Job[int] = Job()
    called: list[Preview] = []
    for job in (failed, ended):
        job.add_preview_callback(called.append)
    failed.cancel()
    ended.resolve(1)
    assert not ended.show(preview())
    with pytest.raises(CancelledError):
        failed.preview()
    with pytest.raises(InspectorError, match="no preview"):
        ended.preview(counted=True)
    assert called == []


def test_a_failing_preview_callback_does_not_reach_the_engine() -> None:
    job: Job[int] = Job()
    job.add_preview_callback(lambda _: 1 / 0)
    assert job.show(preview())
    assert job.resolve(1)


class Value:
    """Something big."""


def ended_job() -> weakref.ref[Value]:
    """The result of a job whose callbacks know it, as engines make them, without other references."""
    job: Job[Value] = Job(cancel=lambda: print(job))
    job.add_progress_callback(lambda _: print(job))
    job.add_done_callback(lambda done: None)
    value = Value()
    job.resolve(value)
    assert job.result(0) is value
    return weakref.ref(value)


def test_a_result_goes_with_the_last_reference_and_not_with_the_garbage_collector() -> None:
    gc.collect()
    gc.disable()
    try:
        assert ended_job()() is None
    finally:
        gc.enable()


def heard_job() -> weakref.ref[object]:
    """Ended, and nothing refers to it but who listened to it, which it then lets go of."""

    class Listener:
        def __init__(self, job: Job[object]) -> None:
            self.job = job

        def hear(self, _: object) -> None:
            """As a pane does."""

    job: Job[object] = Job()
    listener = Listener(job)
    job.add_progress_callback(listener.hear)
    job.add_preview_callback(listener.hear)
    job.add_done_callback(listener.hear)
    job.resolve("value")
    return weakref.ref(listener)


def test_listeners_are_released_when_the_job_has_ended() -> None:
    gc.collect()
    gc.disable()
    try:
        assert heard_job()() is None
    finally:
        gc.enable()
