"""Directories that someone lives for stay, others go, and a user's own is never touched."""

from __future__ import annotations

import os
import signal
import tempfile
import time
import warnings
from pathlib import Path

import pytest

from inspector.engines import scratch
from inspector.engines.scratch import Scratch, delete_orphans

pytest.importorskip("fcntl")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where directories are made, for a test of its own."""
    monkeypatch.setattr(scratch, "_MEMORY", tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_directory_goes_when_its_holder_does_not_live(place: Path) -> None:
    held, released = Scratch(1), Scratch(1)
    (Path(held.path) / "hlo").mkdir()
    (Path(released.path) / "hlo").mkdir()
    released.release()
    delete_orphans()
    assert list(place.iterdir()) == [Path(held.path)]
    held.delete()
    assert list(place.iterdir()) == []


def test_a_fork_holds_it_until_it_is_killed(place: Path) -> None:
    made = Scratch(1)
    with warnings.catch_warnings(action="ignore"):  # JAX and Python warn of a fork; this child only sleeps
        pid = os.fork()
    if not pid:
        time.sleep(60)
        os._exit(0)
    made.release()
    try:
        delete_orphans()
        assert Path(made.path).exists()
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    delete_orphans()
    assert list(place.iterdir()) == []


def test_a_directory_of_a_maker_that_ended_before_it_held_it_goes(place: Path) -> None:
    (place / "inspector-1-abcdefgh").mkdir()
    delete_orphans()
    assert list(place.iterdir()) == []


def test_a_users_directory_of_such_a_name_stays(place: Path) -> None:
    mine = place / "inspector-2026-notebook"
    mine.mkdir()
    (mine / "work.ipynb").touch()
    (place / "inspector-2026-thefiles").touch()
    (place / "link").mkdir()
    (place / "inspector-2026-thelinks").symlink_to(place / "link")
    delete_orphans()
    assert (mine / "work.ipynb").exists()
    assert {p.name for p in place.iterdir()} == {
        mine.name,
        "inspector-2026-thefiles",
        "inspector-2026-thelinks",
        "link",
    }


def test_it_is_in_memory_where_that_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory, disk = tmp_path / "memory", tmp_path / "disk"
    memory.mkdir()
    disk.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(disk))
    for place, expected in ((memory, memory), (tmp_path / "missing", disk)):
        monkeypatch.setattr(scratch, "_MEMORY", place)
        made = Scratch(1)
        assert Path(made.path).parent == expected
        made.delete()
        assert list(expected.iterdir()) == []
