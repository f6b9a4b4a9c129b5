"""A measurement as the Run pane shows it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from inspector.compilation.options import Options
from inspector.compilation.program import Argument, Program, Result
from inspector.execution.inputs import Input
from inspector.execution.run import Run
from inspector.widgets import messages
from inspector.widgets.panes import run as run_pane
from inspector.widgets.panes.run import RunResult, run_result
from tests.widgets.fakes import FakeWork, Mailbox


def until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def shown(value: np.ndarray, *, replicas: int = 1, made: bool = False, count: int = 1) -> Any:
    shape = value.shape[1:] if replicas > 1 else value.shape
    argument = Argument("x", shape, value.dtype.name, 0)
    program = Program(
        "p", b"", (argument,) * count, (Result("['y']", shape, value.dtype.name),) * count, Options(), None, "cpu"
    )
    inputs = (Input(argument, value, per_replica=replicas > 1, made=made),) * count
    result = run_result(Run(program, inputs, (value,) * count, (0.2, 0.1, 0.3), replicas, "cpu"))
    assert messages.problem(result, RunResult) is None
    return result


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.float32(1.5), "1.5"),
        (np.arange(3), "[0, 1, 2]"),
        (np.arange(9.0).reshape(3, 3), "[0, 1, 2, 3, 4, 5, …]"),
        (np.zeros((0, 2)), "[]"),
        (np.array([True, False]), "[True, False]"),
        (np.array([1 + 2j], np.complex64), "[1+2j]"),
        (np.array([1.5, np.nan, -np.inf], ml_dtypes.bfloat16), "[1.5, nan, -inf]"),
        (np.array([-8, 7], ml_dtypes.int4), "[-8, 7]"),
    ],
)
def test_a_few_values_on_a_line(value: Any, text: str) -> None:
    result = shown(np.asarray(value))
    assert result["outputs"][0]["preview"] == [text]
    assert result["outputs"][0]["path"] == "result['y']"
    assert (result["median_s"], result["min_s"]) == (0.2, 0.1)


def test_a_line_for_each_of_the_first_replicas() -> None:
    result = shown(np.arange(40, dtype=np.int32).reshape(20, 2), replicas=20)
    preview = result["inputs"][0]["preview"]
    assert preview[:2] == ["[0, 1]", "[2, 3]"]
    assert preview[-1] == "… 4 more replicas"
    assert len(preview) == 17
    assert result["inputs"][0]["per_replica"]


def test_made_inputs_and_long_lists_are_said() -> None:
    result = shown(np.zeros(2), made=True, count=50)
    assert result["inputs"][0]["generated"]
    assert len(result["inputs"]) == len(result["outputs"]) == 40
    assert result["note"].endswith("The first 40 of 50 inputs are shown. The first 40 of 50 outputs are shown.")


def test_runs_are_compared_with_the_baselines_whichever_comes_first() -> None:
    work = FakeWork()
    explorer = work.explorer()
    work.finish(0)
    second, third = explorer.add(target="cpu:2"), explorer.add(target="cpu:4")
    for index in (1, 2):
        work.finish(index)
    explorer.wait(10)
    box = Mailbox(explorer)

    def measure(variant: int, value: float, seconds: float) -> None:
        box.send({"type": "run", "variant": variant, "repeat": 6})
        until(lambda: len(work.runs) > len(ended))
        made = work.runs[-1]
        ended.append(made)
        about = Input(Argument("x", (2,), "float32", 0), np.ones(2, np.float32), per_replica=False, made=True)
        outputs = (np.array([1.0, value], np.float32),)
        made.job.resolve(Run(made.compiled.program, (about,), outputs, (seconds,) * 6, 1, "cpu"))
        until(lambda: any(m["state"] == "done" for m in box.of("run", variant=variant)))

    ended: list[Any] = []
    measure(second.number, 2.0, 1.0)
    assert box.of("run_comparison") == []
    measure(0, 1.0, 2.0)
    until(lambda: bool(box.of("run_comparison", variant=second.number)))
    found = box.of("run_comparison", variant=second.number)[-1]
    assert (found["is_same"], found["is_faster"]) == (False, True)
    assert found["outputs"] == "the output differs, by at most 1 of an output's largest value"
    assert found["rows"][0]["first"] == "[1] 2.0 for 1.0"
    measure(third.number, 1.0, 2.0)
    until(lambda: bool(box.of("run_comparison", variant=third.number)))
    found = box.of("run_comparison", variant=third.number)[-1]
    assert (found["is_same"], found["is_faster"], found["outputs"]) == (True, None, "the output equal")
    measure(0, 2.0, 0.5)
    until(lambda: box.of("run_comparison", variant=third.number)[-1]["is_same"] is False)
    assert box.of("run_comparison", variant=second.number)[-1]["is_same"]
    assert box.of("run_comparison", variant=second.number)[-1]["is_faster"] is False
    assert box.of("run_comparison", variant=0) == []
    explorer.close()


def test_outputs_too_large_to_keep_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_pane, "_MOST_BYTES", 7)
    assert "Outputs of 8 B are not kept" in shown(np.zeros(2, np.float32))["note"]
    assert shown(np.zeros(1, np.float32))["note"] == ""
