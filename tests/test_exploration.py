"""`Explorer.save` and `inspector.load`: what was explored is an Explorer again, which answers without a compiler."""

from __future__ import annotations

from pathlib import Path

import jax.numpy as jnp
import pytest

import inspector
from inspector.exploration import Exploration
from tests.reports.recorded import exploration, step

FAST = {"xla_cpu_enable_fast_math": True}


def test_an_explorer_comes_back_as_it_was(tmp_path: Path) -> None:
    explorer = inspector.explore(step, jnp.ones((4, 8)), {"a": jnp.ones((8, 8))}, compare=[FAST])
    explorer.wait(120)
    explorer.pin(explorer.variants[1])
    board = explorer._compiles.board
    board.record(explorer.baseline, "passes")
    board.answer({"type": "run", "variant": 0, "repeat": 3})
    explorer.wait(120)
    while board.outcome(explorer.baseline) is None:
        explorer.wait(120)
    explorer.save(tmp_path / "x.inspector")
    loaded = inspector.load(tmp_path / "x.inspector")
    assert isinstance(loaded, Exploration)
    assert loaded.lowered == explorer.lowered
    assert [v.label for v in loaded.variants] == [v.label for v in explorer.variants]
    assert [v.is_pinned for v in loaded.variants] == [False, True]
    assert [v.compiled.hlo for v in loaded.variants] == [v.compiled.hlo for v in explorer.variants]
    assert len(loaded.baseline.compiled.passes or ()) > 3
    assert loaded.baseline.outcome is not None
    assert len(loaded.baseline.outcome.durations_s) == 3
    assert loaded.compare().equals(explorer.compare())
    again = loaded.explorer().wait(120)
    assert repr(again) == repr(explorer)
    assert again._compiles.board.products(again.baseline) == ("passes",)
    while again._compiles.board.outcome(again.baseline) is None:
        again.wait(120)
    again.save(tmp_path / "y.inspector")
    twice = inspector.load(tmp_path / "y.inspector")
    assert isinstance(twice, Exploration)
    assert twice.lowered == loaded.lowered
    assert twice.portable == loaded.portable
    assert twice.variants == loaded.variants
    explorer.close()
    again.close()


def test_a_record_is_shown_without_a_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    from inspector.reports.recompile import Recompiler

    def submit(*_: object) -> None:
        pytest.fail("compiled")

    monkeypatch.setattr(Recompiler, "submit", submit)
    explorer = exploration().explorer().wait(60)
    assert [(v.label, v.state) for v in explorer.variants] == [
        ("baseline", "done"), ("xla_cpu_enable_fast_math=true", "done"), ("cpu:2", "failed"), ("tpu:v5e:1x1", "cancelled"),
    ]  # fmt: skip
    assert "XLA refused it" in str(explorer.variants[2].failure)
    assert explorer.variants[1].compiled.hlo == exploration().variants[1].compiled.hlo
    explorer.close()


def test_what_was_not_recorded_is_compiled_here() -> None:
    explorer = exploration().explorer().wait(60)
    added = explorer.add({"xla_cpu_enable_fast_min_max": True})
    explorer.wait(120)
    assert added.state == "done", added.failure
    assert added.compiled.options.flags == {"xla_cpu_enable_fast_min_max": True}
    explorer.close()


def test_what_would_have_to_be_lowered_again_says_so() -> None:
    explorer = exploration().explorer().wait(60)
    added = explorer.add(None, "gpu:h100:1")
    assert added.state == "failed"
    assert "was recorded without its function" in str(added.failure)
    explorer.close()


def test_a_recorded_program_runs_once_it_is_compiled_here() -> None:
    explorer = exploration().explorer().wait(60)
    board = explorer._compiles.board
    while (recorded := board.outcome(explorer.baseline)) is None:
        explorer.wait(60)
    board.answer({"type": "run", "variant": 0, "repeat": 5})
    while (found := board.outcome(explorer.baseline)) is recorded or found is None:
        explorer.wait(60)
    assert len(found.durations_s) == 5
    assert len(found.inputs) == 2
    explorer.close()
