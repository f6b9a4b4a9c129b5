"""The accuracy of all variants in the Run pane, with a real program behind it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import inspector
from inspector.errors import CancelledError, ParameterError
from inspector.stages.accuracy import AccuracyMeasurement
from inspector.widgets import messages
from inspector.widgets.explorer import Explorer
from inspector.widgets.panes.run_parts.accuracy import AccuracyMessage
from tests.stages.accurate_programs import naive_variance
from tests.widgets.fakes import FakeWork, Mailbox

X = np.linspace(1000, 1001, 64, dtype=np.float32)


@pytest.fixture
def explorer() -> Iterator[Explorer]:
    made = inspector.explore(naive_variance, X, target="cpu", compare="--xla_cpu_enable_fast_math=true")
    made.wait(120)
    yield made
    made.close()


def test_all_variants_of_the_call_are_measured(explorer: Explorer) -> None:
    box = Mailbox(explorer)
    box.send({"type": "measure_accuracy"})
    for variant in (0, 1):
        message = box.wait_for("accuracy", variant=variant, state="done")
        assert messages.problem(message, AccuracyMessage) is None
        result: Any = message["result"]
        assert result["verdict"] == "wrong"
        assert "sub loses" in result["departure"]
        assert result["file"].endswith("accurate_programs.py")
        assert result["titles"][:3] == ["Output", "Type", "Verdict"]
        assert result["rows"][0][:3] == ["result", "float32", "wrong"]
    messages_of_it = box.of("accuracy", variant=1)
    assert [each["state"] for each in messages_of_it] == ["queued", "running", "running", "done"]
    early: Any = messages_of_it[2]["result"]  # before the search of the line
    assert (early["verdict"], early["departure"], early["rows"]) == ("wrong", "", result["rows"])
    assert early["words"].endswith("no line: its search has not ended")


def test_errors_stay_if_the_search_of_the_lines_is_canceled(
    explorer: Explorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def searching(self: Any, *_: object) -> None:
        self.cancel()
        raise CancelledError("canceled")

    monkeypatch.setattr(AccuracyMeasurement, "_departure", searching)
    box = Mailbox(explorer)
    box.send({"type": "measure_accuracy"})
    result: Any = box.wait_for("accuracy", variant=1, state="done")["result"]
    assert result["verdict"] == "wrong"


@pytest.mark.slow
def test_variants_of_another_call_are_left_out(explorer: Explorer) -> None:
    same, other = explorer.add(target="cpu:2"), explorer.what_if(dtype={"x": jnp.bfloat16})
    explorer.wait(120)
    assert (same.state, other.state) == ("done", "done")
    box = Mailbox(explorer)
    box.send({"type": "measure_accuracy"})
    box.wait_for("accuracy", variant=same.number, state="done")
    assert {each["variant"] for each in box.of("accuracy")} == {0, 1, same.number}


def test_a_program_without_its_function_has_the_reason() -> None:
    work = FakeWork()
    made = work.explorer()
    work.finish(0)
    made.wait(10)
    box = Mailbox(made)
    box.send({"type": "measure_accuracy"})
    error: Any = box.wait_for("accuracy", variant=0, state="failed")["error"]
    assert error["kind"] == ParameterError.__name__
    made.close()
