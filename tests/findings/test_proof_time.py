"""The time limit of proofs: compiles that take too long, and programs whose executions do."""

from __future__ import annotations

import dataclasses
import functools
import time
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import inspector
from inspector.compilation.engine import Job
from inspector.compilation.request import RunReply
from inspector.engines.shared_engines import inline_engine
from inspector.errors import ParameterError
from inspector.stages.findings import Findings
from inspector.stages.proof_time import ProofTime
from tests.findings.test_undonated import PARAMS, X, sgd


class Endless:
    """Never ends a compile."""

    def __init__(self) -> None:
        self.jobs: list[Job[Any]] = []

    def submit(self, _: Any) -> Job[Any]:
        self.jobs.append(Job())
        return self.jobs[-1]

    run = submit

    def close(self) -> None: ...


class Slow:
    """Reports executions that take minutes."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.executions = seconds, 0

    def submit(self, request: Any) -> Job[Any]:
        return inline_engine().submit(request)

    def run(self, request: Any) -> Job[RunReply]:
        self.executions += request.repeat + request.warmup
        reply = inline_engine().run(dataclasses.replace(request, repeat=1, warmup=0)).result()
        job: Job[RunReply] = Job()
        job.resolve(dataclasses.replace(reply, durations_s=(self.seconds,) * request.repeat))
        return job

    def close(self) -> None: ...


def sorted_state(params: Any, x: jax.Array) -> Any:
    """Has a finding that saves memory, and one that saves time."""
    new = sgd(params, x)
    return new, x.ravel()[jnp.argsort(-x.ravel())[:3]]


@functools.cache
def compiled() -> inspector.Compiled:
    return inspector.lower(sorted_state, PARAMS, X).compile(target="cpu")


@pytest.fixture
def findings() -> Findings:
    return compiled().findings(kinds=["undonated", "sort-for-top-k"])


def test_a_compile_that_does_not_end_is_stopped_and_the_rest_is_not_tried(findings: Findings) -> None:
    engine, begin = Endless(), time.monotonic()
    findings.prove(time_limit_s=0.3, engine=engine)
    assert time.monotonic() - begin < 5
    assert [job.stage for job in engine.jobs] == ["cancelled"]
    assert [str(each.proof) for each in findings] == [
        "not tried: the compile did not end within the time limit of 300 ms", "not tried: the time limit of 300 ms was over",
    ]  # fmt: skip
    assert findings["undonated"].prove(run=False).verdict == "proven"


def test_a_finding_that_was_proven_keeps_its_proof(findings: Findings) -> None:
    proof = findings["undonated"].prove()
    findings.prove(time_limit_s=0.1, engine=Endless())
    assert findings["undonated"].proof is proof


def test_slow_programs_run_once_each(findings: Findings) -> None:
    engine = Slow(100.0)
    proof = findings["undonated"].prove(engine)
    assert engine.executions == 2
    assert (proof.verdict, proof.values, proof.is_measured) == ("proven", "equal results", False)
    late = findings["sort-for-top-k"].prove(engine)
    assert str(late).startswith("not tried: it saves time, which is unknown: one execution takes 100 s, and")
    engine.seconds = 1e-3
    assert findings["sort-for-top-k"].prove(engine, time_limit_s=600).verdict == "no gain"  # equally fast


def test_the_limit_of_the_executions_leaves_the_memory(findings: Findings) -> None:
    class Endlessly(Slow):
        def run(self, _: Any) -> Job[RunReply]:
            return Job()

    proof = findings["undonated"].prove(Endlessly(0.0), time_limit_s=2.0)
    assert proof.verdict == "proven"
    assert str(proof).endswith(
        "results not compared, because the time limit of 2 s was over before both programs had run once"
    )
    assert proof.is_stopped


def test_programs_run_if_a_second_proof_asks_for_it(findings: Findings) -> None:
    first = findings["undonated"].prove(run=False)
    assert not isinstance(first.values, str)
    second = findings["undonated"].prove(run=True)
    assert second.values == "equal results"
    assert findings["undonated"].prove() is second


def test_wrong_limits(findings: Findings) -> None:
    for prove in (findings.prove, findings["undonated"].prove):
        for limit_s in (0, -1.0, "60"):
            with pytest.raises(ParameterError, match="time_limit_s must be a number of seconds above 0"):
                prove(time_limit_s=limit_s)  # type: ignore[operator]


def test_proofs_share_the_time_of_their_executions() -> None:
    shared = ProofTime(60.0)
    shared.waiting = 3
    assert 14 < shared.of_runs(1.0).left_s <= 15
    shared.waiting = 0
    assert 59 < shared.of_runs(1.0).left_s <= 60
    assert ProofTime(None).of_runs(7.0).limit_s == 7.0
