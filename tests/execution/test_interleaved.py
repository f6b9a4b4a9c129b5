"""Interleaved runs: turns, numbers of executions, failures and the time limit."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

import inspector
from inspector.compilation.engine import Job
from inspector.compilation.request import RunReply, RunRequest
from inspector.errors import ExecutionError, Unavailable
from inspector.execution.interleaved import run_interleaved
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
    return run_interleaved(programs, [engine] * len(programs), repeat=repeat, **kwargs)  # type: ignore[arg-type]


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
