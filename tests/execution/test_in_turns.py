"""Runs of several programs in turns: executions, verdicts, failures and cancellation."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inspector
from inspector.compilation.engine import Job
from inspector.compilation.request import RunReply, RunRequest
from inspector.errors import CancelledError, ExecutionError
from inspector.execution import in_turns
from inspector.execution.comparison import relative_speed
from inspector.execution.in_turns import Runnable, start_in_turns
from inspector.execution.outcome import Outcome
from inspector.execution.run import Run, choose_inputs
from inspector.stages.compiled import Compiled


class Clock:
    """An engine whose executions take what a function of the program's number and the execution says."""

    name = "clock"

    def __init__(self, programs: list[Compiled], seconds: Callable[[int, int], float]) -> None:
        self.programs, self.seconds = programs, seconds
        self.order: list[tuple[int, int, int]] = []
        self.count = 0

    def run(self, request: RunRequest) -> Job[RunReply]:
        index = next(n for n, each in enumerate(self.programs) if each is request.compiled)
        self.order.append((index, request.warmup, request.repeat))
        job: Job[RunReply] = Job()
        try:
            durations = tuple(self.seconds(index, self.count + n) for n in range(request.repeat))
        except ExecutionError as error:
            job.fail(error)
            return job
        self.count += request.repeat
        outputs = (np.full(4, len(self.order), np.float32),) if request.with_outputs else ()
        job.resolve(RunReply(outputs, durations, "cpu", first_s=9.0, dispatch_s=(0.1,) * request.repeat))
        return job


@pytest.fixture(scope="module")
def programs() -> list[Compiled]:
    lowered = inspector.lower(jnp.sin, jax.ShapeDtypeStruct((4,), jnp.float32))
    return [lowered.compile(target="cpu") for _ in range(3)]


def begin(programs: list[Compiled], engine: Any, repeat: int) -> tuple[Job[Run], ...]:
    def ready(compiled: Compiled) -> Runnable:
        return Runnable(compiled, choose_inputs(compiled, (), {}), engine)

    return start_in_turns([lambda each=each: ready(each) for each in programs], repeat)  # type: ignore[misc]


def speed(ours: Run, theirs: Run) -> Any:
    return relative_speed(Outcome.of(ours), Outcome.of(theirs))


def test_each_program_has_its_executions_in_turns_of_two(programs: list[Compiled]) -> None:
    engine = Clock(programs, lambda index, n: 1e-3 * ((1.0, 1.3, 2.0)[index] + n % 7 * 0.01))
    runs = [job.result(20) for job in begin(programs, engine, 20)]
    assert [len(each.durations_s) for each in runs] == [20, 20, 20]
    assert [index for index, *_ in engine.order[:6]] == [0, 1, 2, 2, 1, 0]
    assert [warmup for index, warmup, _ in engine.order if index == 1] == [2, *[1] * 9]
    assert {count for *_, count in engine.order} == {2}
    assert len({each.series for each in runs}) == 1
    assert runs[0].series
    assert [float(each.outputs[0][0]) for each in runs] == [1.0, 2.0, 3.0]  # of the first turn
    assert runs[1].first_s == 9.0
    assert len(runs[1].dispatch_s) == 20
    found = speed(runs[1], runs[0])
    assert found.is_known
    assert found.words.startswith("slower")
    assert inspector.compare_runs(runs[1], runs[0]).speed == found


def test_slow_programs_are_not_executed_before_each_turn(programs: list[Compiled]) -> None:
    engine = Clock(programs[:2], lambda index, n: (1.0, 1e-3)[index])
    [job.result(20) for job in begin(programs[:2], engine, 20)]
    assert [warmup for index, warmup, _ in engine.order if index == 0] == [2, *[0] * 9]
    assert [warmup for index, warmup, _ in engine.order if index == 1] == [2, *[1] * 9]


def test_only_programs_whose_difference_is_unknown_go_on(programs: list[Compiled]) -> None:
    noise = np.random.default_rng(0).gamma(2.0, 0.1, 10_000)
    runs = [
        job.result(20)
        for job in begin(programs, Clock(programs, lambda index, n: (1.0, 1.0, 3.0)[index] + noise[n]), 20)
    ]
    assert [len(each.durations_s) for each in runs] == [160, 160, 20]
    assert not speed(runs[1], runs[0]).is_known
    assert speed(runs[2], runs[0]).is_known


def test_a_drift_of_the_machine_is_no_difference(programs: list[Compiled]) -> None:
    noise = np.random.default_rng(1).gamma(2.0, 0.05, 10_000)
    known = 0
    for shift in range(0, 2000, 100):
        engine = Clock(programs[:2], lambda _, n, shift=shift: 1 + n / 20 + noise[n + shift])  # type: ignore[misc]
        first, second = (job.result(20) for job in begin(programs[:2], engine, 20))
        known += speed(second, first).is_known
    assert known <= 1  # of 20


@pytest.mark.parametrize(("repeat", "count"), [(1, 1), (3, 4), (40, 40)])
def test_the_number_of_executions_is_a_minimum(
    programs: list[Compiled], repeat: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_turns, "_LIMIT_S", -1.0)  # no more than what was asked for
    runs = [job.result(20) for job in begin(programs, Clock(programs, lambda *_: 1.0), repeat)]
    assert {len(each.durations_s) for each in runs} == {count}


def test_a_program_that_fails_leaves_the_turns(programs: list[Compiled]) -> None:
    def seconds(index: int, n: int) -> float:
        if index == 1 and n > 5:
            raise ExecutionError("out of memory")
        return 1.0 + index

    first, failed, third = begin(programs, Clock(programs, seconds), 20)
    with pytest.raises(ExecutionError, match="out of memory"):
        failed.result(20)
    assert [len(job.result(20).durations_s) for job in (first, third)] == [20, 20]


def test_a_program_that_cannot_be_prepared_does_not_stop_the_others(programs: list[Compiled]) -> None:
    engine: Any = Clock(programs, lambda *_: 1.0)

    def unready() -> Runnable:
        raise ExecutionError("no such inputs")

    def ready() -> Runnable:
        return Runnable(programs[1], choose_inputs(programs[1], (), {}), engine)

    failed, other = start_in_turns([unready, ready], 6)
    with pytest.raises(ExecutionError, match="no such inputs"):
        failed.result(20)
    assert len(other.result(20).durations_s) == 6


def test_a_canceled_program_leaves_the_turns(programs: list[Compiled]) -> None:
    jobs: list[Job[Run]] = []
    is_ready = threading.Event()

    def seconds(index: int, n: int) -> float:
        assert is_ready.wait(20)
        if index == 2 and n > 5:
            jobs[2].cancel()
        return 1.0 + index

    jobs += begin(programs, Clock(programs, seconds), 20)
    is_ready.set()
    with pytest.raises(CancelledError):
        jobs[2].result(20)
    assert [len(job.result(20).durations_s) for job in jobs[:2]] == [20, 20]
