"""A measurement as the Run pane shows it."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from inspector.compilation.options.options import Options
from inspector.compilation.program import Argument, Program, Result
from inspector.execution.inputs import Input
from inspector.execution.run import Run
from inspector.widgets import messages
from inspector.widgets.panes.run_parts import results
from inspector.widgets.panes.run_parts.results import RunResult, run_result
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


def test_generated_inputs_and_truncated_lists_are_reported() -> None:
    result = shown(np.zeros(2), made=True, count=50)
    assert result["inputs"][0]["generated"]
    assert len(result["inputs"]) == len(result["outputs"]) == 40
    assert result["note"].endswith("Showing the first 40 of 50 inputs. Showing the first 40 of 50 outputs.")


class Measured:
    """An Explorer with a baseline and two variants, whose runs end as a test says."""

    def __init__(self) -> None:
        self.work = FakeWork()
        self.explorer = self.work.explorer()
        self.work.finish(0)
        second, third = self.explorer.add(target="cpu:2"), self.explorer.add(target="cpu:4")
        self.numbers = (0, second.number, third.number)
        for index in (1, 2):
            self.work.finish(index)
        self.explorer.wait(10)
        self.box = Mailbox(self.explorer)
        self._ended = 0

    def measure(self, variant: int, value: float, seconds: float, given: np.ndarray | None = None) -> None:
        """A run of a variant: an output of two elements, the second of them `value`."""
        self.box.send({"type": "run", "variant": variant, "repeat": 6})
        until(lambda: len(self.work.runs) > self._ended)
        made = self.work.runs[-1]
        self._ended += 1
        value_in = np.ones(2, np.float32) if given is None else given
        about = Input(Argument("x", (2,), "float32", 0), value_in, per_replica=False, made=True)
        outputs = (np.array([1.0, value], np.float32),)
        made.job.resolve(Run(made.compiled.program, (about,), outputs, (seconds,) * 6, 1, "cpu"))
        until(lambda: any(m["state"] == "done" for m in self.box.of("run", variant=variant)))

    def compared(self, variant: int, count: int = 1) -> Any:
        """The latest of so many comparisons of a variant."""
        until(lambda: len(self.box.of("run_comparison", variant=variant)) >= count)
        return self.box.of("run_comparison", variant=variant)[-1]


@pytest.fixture
def measured() -> Iterator[Measured]:
    made = Measured()
    yield made
    made.explorer.close()


def test_the_recording_follows_a_run(measured: Measured, monkeypatch: pytest.MonkeyPatch) -> None:
    refreshed: list[str] = []
    monkeypatch.setattr(measured.explorer._recorder, "refresh", lambda: refreshed.append(repr(measured.explorer)))
    measured.measure(0, 1.0, 2.0)
    until(lambda: bool(refreshed))
    assert "\n    Run on cpu: median 2 s of 6 executions\n" in refreshed[-1]
    assert "baseline: Run on cpu: median 2 s of 6 executions" in measured.explorer._recorder.html()


def test_runs_are_compared_with_the_baselines_whichever_comes_first(measured: Measured) -> None:
    _, second, third = measured.numbers
    measured.measure(second, 2.0, 1.0)
    assert measured.box.of("run_comparison") == []
    measured.measure(0, 1.0, 2.0)
    found = measured.compared(second)
    assert (found["is_same"], found["is_faster"]) == (False, True)
    assert found["outputs"] == "the output differs, by at most 1 of an output's largest value"
    assert found["verdict"] == "differ by at most 1 of an output's largest value"
    assert found["rows"][0]["first"] == "[1] 2.0 for 1.0"
    measured.measure(third, 1.0, 2.0)
    found = measured.compared(third)
    assert (found["is_same"], found["is_faster"], found["outputs"]) == (True, None, "the outputs are equal")
    assert found["verdict"] == "equal"
    measured.measure(0, 2.0, 0.5)
    assert not measured.compared(third, 2)["is_same"]
    assert measured.compared(second, 2)["is_same"]
    assert measured.compared(second, 2)["is_faster"] is False
    assert measured.box.of("run_comparison", variant=0) == []


def test_outputs_of_all_variants_have_one_limit(measured: Measured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "_MOST_BYTES", 2 * 8)
    _, second, third = measured.numbers
    measured.measure(second, 1.0, 1.0)
    measured.measure(0, 1.0, 2.0)
    assert measured.compared(second)["is_same"]
    measured.measure(third, 1.0, 2.0)  # in the place of the second's
    assert measured.compared(third)["is_same"]
    measured.measure(0, 3.0, 2.0)
    assert measured.compared(third, 2)["is_same"] is False
    found = measured.compared(second, 2)
    assert (found["is_same"], found["is_faster"], found["rows"]) == (None, True, [])
    assert "exceed the storage limit of 256 MiB. Compare two runs with inspector.compare_runs" in found["outputs"]
    measured.measure(second, 3.0, 1.0)
    assert measured.compared(second, 3)["is_same"]


def test_outputs_above_the_limit_are_compared_by_time_alone(
    measured: Measured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "_MOST_BYTES", 7)
    _, second, _ = measured.numbers
    measured.measure(0, 1.0, 2.0)
    measured.measure(second, 1.0, 1.0)
    found = measured.compared(second)
    assert (found["is_same"], found["is_faster"]) == (None, True)


def test_inputs_are_compared_and_not_stored(measured: Measured) -> None:
    _, second, third = measured.numbers
    given = np.ones(2, np.float32)
    gone = weakref.ref(given)
    measured.measure(0, 1.0, 2.0, given)
    del given
    measured.work.runs.clear()
    measured._ended = 0
    measured.measure(second, 1.0, 2.0)
    assert measured.compared(second)["is_same"]
    measured.measure(third, 1.0, 2.0, np.zeros(2, np.float32))
    assert "inputs are the same: x differs" in measured.compared(third)["outputs"]
    gc.collect()
    assert gone() is None


def test_outputs_are_compared_on_a_separate_thread(measured: Measured, monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[str] = []
    compare = results.compare_outcomes

    def comparing(*outcomes: Any) -> Any:
        names.append(threading.current_thread().name)
        return compare(*outcomes)

    monkeypatch.setattr(results, "compare_outcomes", comparing)
    _, second, _ = measured.numbers
    measured.measure(0, 1.0, 2.0)
    measured.measure(second, 1.0, 1.0)
    measured.compared(second)
    assert [name.partition("_")[0] for name in names] == ["inspector-comparison"]


def test_outputs_too_large_to_store_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "_MOST_BYTES", 7)
    assert "Outputs of 8 B are too large to store" in shown(np.zeros(2, np.float32))["note"]
    assert shown(np.zeros(1, np.float32))["note"] == ""


def test_run_all_measures_the_compiled_variants_that_can_run(measured: Measured) -> None:
    asked: list[tuple[int, int]] = []
    run_in_turns = measured.work.run_in_turns

    def asking(programs: Any, repeat: int) -> Any:
        asked.append((len(programs), repeat))
        return run_in_turns(programs, repeat)

    measured.work.run_in_turns = asking  # type: ignore[method-assign]
    measured.explorer.add(target="cpu:8")  # is not compiled
    measured.box.send({"type": "run_all", "repeat": 6})
    until(lambda: len(measured.work.runs) == 3)
    assert asked == [(3, 6)]
    for made in measured.work.runs:
        made.finish()
    until(lambda: len(measured.box.of("run_comparison")) == 2)
    assert {m["variant"] for m in measured.box.of("run") if m["state"] == "done"} == set(measured.numbers)
