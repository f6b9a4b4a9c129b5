"""Profiles in saved explorations, against the profile that was measured."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import jax.numpy as jnp
import pytest

import inspector
from inspector.analysis.profile.profile import Profile
from inspector.api.recorded_work import RecordedWork
from inspector.errors import ExecutionError
from inspector.reports import bundle, recorded_exploration
from inspector.reports.recorded_exploration import RecordedExploration, RecordedVariant, within_limit


def step(x: jnp.ndarray) -> jnp.ndarray:
    return jnp.sort(jnp.tanh(x @ x), axis=0).sum()


@pytest.fixture(scope="module")
def exploration() -> RecordedExploration:
    x = jnp.ones((64, 64))
    lowered = inspector.lower(step, x)
    compiled = lowered.compile(target="cpu:1")
    variant = RecordedVariant(
        "baseline", compiled.options, compiled.target, "done", lowered=lowered, program=compiled,
        profile=compiled.profile(x, repeat=3),
    )  # fmt: skip
    return RecordedExploration.now(lowered, (variant,))


def profile_of(exploration: RecordedExploration) -> Profile:
    profile = exploration.variants[0].profile
    assert profile is not None
    return profile


def test_a_profile_survives_a_file(exploration: RecordedExploration, tmp_path: Path) -> None:
    bundle.save(exploration, tmp_path / "step.inspector")
    loaded = bundle.load(tmp_path / "step.inspector")
    assert profile_of(loaded) == profile_of(exploration)
    assert any(row.line is not None and row.line.file == __file__ for row in profile_of(loaded).rows)


def test_an_explorer_of_a_file_shows_the_profile(exploration: RecordedExploration, tmp_path: Path) -> None:
    bundle.save(exploration, tmp_path / "step.inspector")
    explorer = inspector.load(tmp_path / "step.inspector").explorer()
    try:
        variant = explorer.wait(60).baseline
        assert variant.profile == profile_of(exploration)
        assert variant.profile_count == 1
        explorer.save(tmp_path / "again.inspector")
    finally:
        explorer.close()
    assert profile_of(bundle.load(tmp_path / "again.inspector")) == profile_of(exploration)


def test_only_the_longest_rows_keep_their_lines(
    exploration: RecordedExploration, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorded_exploration, "_MOST_ATTRIBUTED", 1)
    (short,) = within_limit(exploration.variants)
    known, whole = short.profile, profile_of(exploration)
    assert known is not None
    assert len(whole.rows) > 1
    assert [row.parts for row in known.rows] == [whole.rows[0].parts, *[()] * (len(whole.rows) - 1)]
    assert known.total_s == whole.total_s
    assert "rows with the most time" in known.notes[-1]


def test_a_recorded_run_does_not_start_a_profile_here(exploration: RecordedExploration) -> None:
    from inspector.execution.outcome import Outcome

    (variant,) = exploration.variants
    assert variant.program is not None
    outcome = Outcome.of(variant.compiled.run(jnp.ones((64, 64)), repeat=2))
    work = RecordedWork(dataclasses.replace(exploration, variants=(dataclasses.replace(variant, outcome=outcome),)), ())
    assert work.run(variant.program, 2).result().durations_s == outcome.durations_s
    with pytest.raises(ExecutionError, match=r"The run was recorded\. Run the program again"):
        work.profile(variant.program, 2)
    assert isinstance(work.profile(variant.program, 2).result(120), Profile)
