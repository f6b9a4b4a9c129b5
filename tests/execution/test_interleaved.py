"""Interleaved runs: turns, numbers of executions, failures and the time limit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inspector
from inspector.compilation.engine import Job
from inspector.compilation.request import RunReply, RunRequest
from inspector.errors import ExecutionError, Unavailable
from inspector.execution.interleaved import Measured, Timer, run_interleaved, run_until_apart, timers
from inspector.stages.compiled import Compiled


class Turns:
    """An engine that notes the programs that it runs; the n-th run takes n seconds each execution."""

    name = "turns"

    def __init__(self, programs: list[Compiled], failing: int = -1) -> None:
        self.programs, self.failing = programs, failing
        self.order: list[tuple[int, int]] = []

    def run(self, request: RunRequest) -> Job[RunReply]:
        index = next(n for n, each in enumerate(self.programs) if each is request.compiled)
        self.order.append((index, request.repeat))
        job: Job[RunReply] = Job()
        if index == self.failing:
            job.fail(ExecutionError("out of memory"))
        else:
            job.resolve(RunReply((), (float(len(self.order)),) * request.repeat, "cpu"))
        return job


@pytest.fixture(scope="module")
def programs() -> list[Compiled]:
    lowered = inspector.lower(jnp.sin, jax.ShapeDtypeStruct((4,), jnp.float32))
    return [lowered.compile(target="cpu") for _ in range(3)]


def run(programs: list[Compiled], engine: Turns, repeat: int, **kwargs: Any) -> list[tuple[float, ...] | Unavailable]:
    return run_interleaved(timers(programs, [engine] * len(programs)), repeat=repeat, **kwargs)  # type: ignore[list-item]


def test_programs_take_turns_and_every_second_round_is_reversed(programs: list[Compiled]) -> None:
    engine = Turns(programs[:2])
    found = run(programs[:2], engine, 7)
    assert [index for index, _ in engine.order] == [0, 1, 1, 0, 0, 1, 1, 0, 0, 1]
    assert [count for index, count in engine.order if index == 0] == [2, 2, 1, 1, 1]
    assert found[1] == (2.0, 2.0, 3.0, 3.0, 6.0, 7.0, 10.0)


def test_a_program_that_fails_is_left_out_of_the_next_rounds(programs: list[Compiled]) -> None:
    engine = Turns(programs, failing=1)
    found = run(programs, engine, 6)
    failed = found[1]
    assert isinstance(failed, Unavailable)
    assert "out of memory" in failed.reason
    assert [index for index, _ in engine.order].count(1) == 1
    assert [len(each) for each in (found[0], found[2]) if not isinstance(each, Unavailable)] == [6, 6]


def test_durations_before_the_time_limit_are_kept(programs: list[Compiled]) -> None:
    engine = Turns(programs)
    found = run(programs, engine, 10, is_over=lambda: len(engine.order) >= 2)
    assert found[:2] == [(1.0, 1.0), (2.0, 2.0)]
    assert isinstance(found[2], Unavailable)
    assert "time limit" in found[2].reason


def _pair(programs: list[Compiled], engine: Any) -> tuple[Timer, Timer]:
    first, second = timers(programs[:2], [engine, engine])
    return first, second


class Clock:
    """An engine whose executions take a duration that a function of the program's number and the execution gives."""

    name = "clock"

    def __init__(self, programs: list[Compiled], seconds: Callable[[int, int], float]) -> None:
        self.programs, self.seconds, self.count = programs, seconds, 0

    def run(self, request: RunRequest) -> Job[RunReply]:
        index = next(n for n, each in enumerate(self.programs) if each is request.compiled)
        durations = tuple(self.seconds(index, self.count + n) for n in range(request.repeat))
        self.count += request.repeat
        job: Job[RunReply] = Job()
        job.resolve(RunReply((), durations, "cpu"))
        return job


def until_apart(programs: list[Compiled], seconds: Callable[[int, int], float]) -> Measured:
    engine: Any = Clock(programs, seconds)
    found = run_until_apart(_pair(programs, engine))
    assert isinstance(found, Measured)
    return found


def test_a_clear_difference_is_known_after_ten_turns(programs: list[Compiled]) -> None:
    found = until_apart(programs, lambda index, n: (1.0, 1.3)[index] + n % 7 * 0.01)
    assert found.speed.is_known
    assert found.speed.ratio == pytest.approx(1.3, rel=0.05)
    assert found.speed.words.startswith("faster, 1.")
    assert len(found.durations_s) == len(found.other_s) == 20


def test_a_small_difference_takes_more_turns(programs: list[Compiled]) -> None:
    noise = np.random.default_rng(0).gamma(2.0, 0.1, 10_000)
    found = until_apart(programs, lambda index, n: (1.08, 1.0)[index] + noise[n])
    assert found.speed.is_known
    assert found.speed.words.startswith("slower")
    assert 20 < len(found.durations_s) <= 160


def test_a_machine_that_gets_slower_makes_no_difference(programs: list[Compiled]) -> None:
    noise = np.random.default_rng(1).gamma(2.0, 0.1, 10_000)
    known = [
        until_apart(programs, lambda _, n, shift=shift: 1 + n / 50 + noise[n + shift]).speed.is_known
        for shift in range(0, 4000, 100)
    ]
    assert sum(known) <= 2  # of 40


def test_a_program_that_fails_is_not_compared(programs: list[Compiled]) -> None:
    engine: Any = Turns(programs, failing=1)
    found = run_until_apart(_pair(programs, engine))
    assert isinstance(found, Unavailable)
    assert "out of memory" in found.reason


def test_no_turn_begins_after_the_time_limit(programs: list[Compiled]) -> None:
    engine: Any = Turns(programs)
    assert isinstance(
        run_until_apart(_pair(programs, engine), is_over=lambda: len(engine.order) > 3),
        Unavailable,
    )
