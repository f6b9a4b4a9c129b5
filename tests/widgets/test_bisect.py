"""The Bisect pane, with a real program behind it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inspector
from inspector.errors import ExecutionError
from inspector.widgets import messages
from inspector.widgets.explorer import Explorer
from inspector.widgets.panes.bisect import BisectMessage, ReproductionSaved
from tests.widgets.fakes import FakeWork, Mailbox

X = np.array([1.0, -2.0, 3.0], np.float32)
NANS = "--xla_cpu_enable_fast_math=true --xla_cpu_fast_math_honor_nans=false"


def guarded(x: jax.Array) -> jax.Array:
    y = jnp.log(x)
    return jnp.where(jnp.isnan(y), 0.0, y) * 2


@pytest.fixture(scope="module")
def explorer() -> Iterator[Explorer]:
    made = inspector.explore(guarded, X, target="cpu", compare=NANS)
    made.wait(120)
    yield made
    made.close()


def start(box: Mailbox, variant: int, search: str) -> None:
    box.send({"type": "bisect", "variant": variant, "do": "start", "search": search, "time_limit_s": 300.0})


def facts(message: dict[str, Any]) -> dict[str, str]:
    return dict(message["result"]["facts"])


def test_the_change_that_alters_the_results(
    explorer: Explorer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    box = Mailbox(explorer)
    start(box, 1, "values")
    message = box.wait_for("bisect", variant=1, state="done")
    assert messages.problem(message, BisectMessage) is None
    assert facts(message)["by values"].startswith("found: ")
    assert "xla_cpu_fast_math_honor_nans=false" in facts(message)["changes"]
    assert "stablehlo" in message["result"]["stablehlo"]
    assert [each["outcome"] for each in message["steps"]][:2] == ["good", "bad"]
    assert len(message["steps"][0]["cells"]) == len(message["columns"])
    states = [each["state"] for each in box.of("bisect", variant=1)]
    assert states[0] == "queued"
    assert states[-1] == "done"
    found = explorer.variants[1].bisection
    assert found is not None
    assert found.verdict == "found"
    assert "Bisection: by values: found" in str(explorer)

    monkeypatch.chdir(tmp_path)
    box.send({"type": "save_reproduction", "variant": 1})
    saved = box.wait_for("reproduction_saved", variant=1)
    assert messages.problem(saved, ReproductionSaved) is None
    assert (Path(saved["folder"]) / "run.py").exists()
    assert Path(saved["folder"]).parent == tmp_path


def test_the_part_that_is_slow_to_compile(explorer: Explorer) -> None:
    box = Mailbox(explorer)
    start(box, 0, "parts")
    message = box.wait_for("bisect", variant=0, state="done")
    assert messages.problem(message, BisectMessage) is None
    assert message["search"] == "parts"
    assert "slowest part" in facts(message)
    result = message["result"]
    assert all(len(row["cells"]) == len(result["columns"]) for row in result["rows"])
    assert explorer.baseline.compile_time is not None


def test_the_baseline_is_not_compared_with_itself(explorer: Explorer) -> None:
    box = Mailbox(explorer)
    start(box, 0, "memory")
    error = box.wait_for("bisect", variant=0, state="failed")["error"]
    assert "Add a variant that differs" in error["message"]


def test_a_variant_of_another_call_is_not_compared(explorer: Explorer) -> None:
    other = explorer.what_if(dtype={"x": jnp.bfloat16})
    explorer.wait(120)
    box = Mailbox(explorer)
    start(box, other.number, "values")
    error = box.wait_for("bisect", variant=other.number, state="failed")["error"]
    assert "another program than the baseline" in error["message"]
    box.send({"type": "save_reproduction", "variant": other.number})
    assert "Bisect the variant first" in box.wait_for("reproduction_saved", variant=other.number)["error"]["message"]
    explorer.remove(other)


def test_a_search_can_be_stopped(explorer: Explorer) -> None:
    box = Mailbox(explorer)
    start(box, 1, "memory")
    box.wait_for("bisect", variant=1, state="running")
    box.send({"type": "bisect", "variant": 1, "do": "stop", "search": "memory", "time_limit_s": 1.0})
    until = time.monotonic() + 60
    while box.of("bisect", variant=1)[-1]["state"] not in ("cancelled", "done"):
        assert time.monotonic() < until
        time.sleep(0.05)


def test_a_loaded_exploration_says_why_not() -> None:
    work = FakeWork()
    made = work.explorer()
    work.finish(0)
    made.wait(10)
    box = Mailbox(made)
    start(box, 0, "parts")
    error: Any = box.wait_for("bisect", variant=0, state="failed")["error"]
    assert error["kind"] == ExecutionError.__name__
    assert "loaded from a file" in error["message"]
    made.close()
