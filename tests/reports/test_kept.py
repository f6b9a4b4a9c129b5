"""Explorations that earlier versions wrote, of every JAX and platform: they keep loading (`record_explorations.py` made them)."""

from __future__ import annotations

from pathlib import Path

import pytest

import inspector
from inspector.api.exploration import Exploration
from inspector.errors import Unavailable, UnknownFlagError
from inspector.toolchain.flags import types as flag_types

FOLDER = Path(__file__).parent.parent / "data" / "explorations"
FILES = sorted(FOLDER.iterdir())


def test_there_is_one_of_each() -> None:
    names = {f"{platform}-{jax}.inspector" for platform in ("cpu", "tpu", "gpu") for jax in ("0.10.2", "0.12.0.1")}
    assert names <= {file.name for file in FILES}


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_a_recorded_file_loads_completely(file: Path) -> None:
    platform, _, jax = file.stem.partition("-")
    loaded = inspector.load(file)
    assert isinstance(loaded, Exploration)
    assert loaded.installation.jax == jax
    assert loaded.lowered.name == "jit_step"
    assert [v.state for v in loaded.variants] == ["done"] * 3
    assert len(loaded.baseline.compiled.passes or ()) > 10
    assert loaded.variants[1].options.flags
    assert loaded.compare().loc["peak_bytes"].notna().any()
    first, other = loaded.variants[0].compiled, loaded.variants[2].compiled
    assert first.target.kind == platform
    assert first.versions["jax"] == other.versions["jax"] == jax
    assert first.diff(first).headline == "the same program"
    assert "layer" in str(loaded.lowered.stablehlo_listing.origins)
    if platform != "cpu":
        assert first.timeline()
    if platform == "cpu":
        assert loaded.baseline.outcome is not None
        assert len(loaded.baseline.outcome.durations_s) == 3


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_a_recorded_file_opens_as_an_explorer(file: Path) -> None:
    loaded = inspector.load(file)
    assert isinstance(loaded, Exploration)
    explorer = loaded.explorer().wait(100)
    assert [v.state for v in explorer.variants] == ["done"] * 3
    assert explorer._compiles.board.products(explorer.baseline)
    assert explorer.baseline.compiled.hlo == loaded.baseline.compiled.hlo
    explorer.close()


@pytest.mark.parametrize("file", sorted(FOLDER.glob("tpu-*")), ids=lambda file: file.stem)
def test_a_recorded_file_opens_as_an_explorer_without_libtpu(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flag_types, "_libtpu", lambda: Unavailable("libtpu is not installed"))
    monkeypatch.setattr(flag_types, "libtpu_flags", dict)
    loaded = inspector.load(file)
    assert isinstance(loaded, Exploration)
    explorer = loaded.explorer().wait(100)
    assert [v.state for v in explorer.variants] == ["done"] * 3
    flags = loaded.variants[1].options.flags
    assert explorer.variants[1].options.flags == flags
    with pytest.raises(UnknownFlagError, match="libtpu is not installed"):  # of what was not recorded
        explorer.add(dict.fromkeys(flags, False), loaded.variants[1].target)
    explorer.close()


@pytest.mark.slow
def test_a_program_of_every_jax_compiles_under_this_one() -> None:
    for file in FILES:
        if file.name.startswith("cpu"):
            loaded = inspector.load(file)
            assert isinstance(loaded, Exploration)
            assert [v.state for v in loaded.replay().replayed.variants[:2]] == ["done", "done"]
