"""A small fuzz, and what the fuzz itself must be: repeatable, resumable, and able to see what is bad."""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from inspector.compilation.engine import Job
from inspector.compilation.options.options import Options
from inspector.compilation.target import Target
from inspector.engines.workers import fork_server
from inspector.engines.workers.environment import Environment
from inspector.engines.workers.worker_engine import WorkerEngine
from tests.fuzz import hostile, kernel
from tests.fuzz.driver import OUTCOMES, Settings, StateError, _Kernel, fuzz, summary

FIELDS = [
    hostile.Field("xla_a", "bool", False, (), False, True),
    hostile.Field("xla_b", "int32", False, (), 3, True),
    hostile.Field("xla_c", "enum", True, ("C_ONE", "C_TWO"), "", True),
    hostile.Field("xla_d", "string", False, (), "", True),
    hostile.Field("xla_e", "double", False, (), 0.5, True),
    hostile.Field("xla_f", "uint64", True, (), "", True),
    hostile.Field("num_replicas", "int64", False, (), 1, False),
    hostile.Field("tpu_g", "bool", False, (), False, True, of_libtpu=True),
]

linux = pytest.mark.skipif(not fork_server.ForkServer.supported(), reason="reads /proc, and forks")


@linux
@pytest.mark.slow
def test_hostile_requests_cost_no_kernel_and_no_result(tmp_path: Path) -> None:
    state = tmp_path / "state"
    settings = Settings(seed=20, requests=20, minutes=3, state=state, kernel_life=20)
    first = fuzz(settings)
    outcomes = fuzz(Settings(seed=20, requests=60, minutes=3, state=state, kernel_life=20))
    assert outcomes[: len(first)] == first
    requests = [outcome for outcome in outcomes if outcome["index"] >= 0]
    assert [outcome["index"] for outcome in requests] == list(range(60))
    assert [outcome for outcome in outcomes if outcome["bad"]] == [], summary(outcomes)
    assert {outcome["outcome"] for outcome in requests} <= set(OUTCOMES)
    assert {"ok", "refused before"} <= {outcome["outcome"] for outcome in requests}
    assert {o["kind"] for o in outcomes if o["index"] < 0} == {"kernel closed", "kernel killed"}


@linux
@pytest.mark.slow
def test_a_kernel_that_dies_is_a_death(tmp_path: Path) -> None:
    with _Kernel(Settings(0, 1, 1, tmp_path / "state")) as kernel:
        kernel._popen.send_signal(signal.SIGKILL)
        outcome = kernel.ask(0)
        assert not kernel.lives()
        assert "died (status -9)" in outcome["bad"]
        assert kernel.close().text == ""
    assert "kernel deaths 1" in summary([{**outcome, "jaxlib": ""}])


@linux
def test_processes_left_by_a_kernel_are_detected(tmp_path: Path) -> None:
    kernel = _Kernel.__new__(_Kernel)
    kernel._tag = "tag-of-a-test"
    child = os.posix_spawnp("sleep", ["sleep", "60"], {**os.environ, "INSPECTOR_FUZZ_KERNEL": kernel._tag})
    try:
        # `posix_spawn` returns before Linux has written the environment of the new program.
        until = time.monotonic() + 30
        while not (found := list(kernel._processes())) and time.monotonic() < until:
            time.sleep(0.01)
        assert [word.split()[1] for word in found] == [str(child)]
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@linux
@pytest.mark.slow
@pytest.mark.parametrize("fault", sorted(set(hostile.FAULTS)))
def test_faults_are_injected(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    for name in ("_signal", "_limit_memory", "_Garbage"):
        monkeypatch.setattr(kernel, name, lambda *_, name=name: done.append(name) or io.BytesIO())
    target = Target.parse("cpu")
    with contextlib.closing(WorkerEngine()) as engine:
        engine._lane(Environment.of(target, Options())).prepare(Job())
        kernel._inject(engine, target, fault, random.Random(0))()
    assert done


def test_a_failing_fault_is_reported() -> None:
    def act() -> Callable[[], None]:
        raise AttributeError("no such engine")

    with pytest.raises(AttributeError, match="no such engine"), kernel._During(0, act):
        pass


def test_another_seed_needs_another_file(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.write_text(json.dumps({"index": 0, "seed": 1, "bad": ""}) + "\n")
    with pytest.raises(StateError, match="seed"):
        fuzz(Settings(seed=2, requests=1, minutes=1, state=state))


def test_a_request_is_made_of_seed_and_number_alone() -> None:
    def made(seed: int) -> list[str]:
        return [repr(hostile.hostile(seed, i, FIELDS, ("fusion", "dce"))) for i in range(300)]

    assert made(0) == made(0)
    assert made(0) != made(1)
    kinds = {hostile.hostile(0, i, FIELDS, ("fusion", "dce")).kind for i in range(300)}
    assert kinds == set(hostile.WEIGHTS)
    asked = [hostile.hostile(0, i, FIELDS, ("fusion",), ("cpu", "tpu", "cuda")) for i in range(300)]
    assert {one.platform for one in asked} == set(hostile.PLATFORMS)
    assert {one.platform for one in asked if "tpu_g" in one.flags} == {"tpu"}
    faults = {hostile.hostile(0, i, FIELDS, ("fusion",)).fault for i in range(3000)}
    assert faults == {*hostile.FAULTS, None}


def test_mutations_change_something() -> None:
    text, data = "HloModule m\n\nENTRY main {\n  ROOT x = f32[3] parameter(0)\n}\n", bytes(range(64))
    sources = [random.Random(i) for i in range(100)]
    assert sum(hostile.mutated_text(text, source) != text for source in sources) > 60
    assert sum(hostile.mutated_bytes(data, source) != data for source in sources) > 95
