"""Directories that someone lives for stay, others go, and a user's own is never touched."""

from __future__ import annotations

import os
import signal
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from inspector.engines.workers import scratch
from inspector.engines.workers.scratch import Scratch, delete_orphans, delete_orphans_of

pytest.importorskip("fcntl")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The parent of the directories, separate for each test."""
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


def test_a_directory_of_a_process_that_ended_before_locking_is_deleted(place: Path) -> None:
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


def test_the_folder_is_in_memory_where_possible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_folders_in_use_are_reported(place: Path) -> None:
    held, other = Scratch(1), Scratch(2)
    Scratch(3).release()
    assert sorted(delete_orphans()) == sorted([Path(held.path), Path(other.path)])
    held.delete()
    other.delete()
    assert delete_orphans() == []


def test_released_twice_is_released_once() -> None:
    made = Scratch(1)
    made.release()
    taken = os.open(os.devnull, os.O_RDONLY)  # often of the same number
    made.delete()
    os.close(taken)


def test_the_lock_is_private_and_deleted_when_it_cannot_be_locked(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Scratch(1)
    (lock,) = Path(made.path).iterdir()
    assert lock.stat().st_mode & 0o777 == 0o600
    made.delete()
    before = len(list(Path("/proc/self/fd").iterdir()))
    monkeypatch.setattr(scratch.fcntl, "flock", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        Scratch(1)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_directory_deleted_before_locking_is_created_again(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held, asked = scratch._lock_descriptor, []

    def late(lock: str) -> int:
        asked.append(lock)
        if len(asked) == 1:
            Path(lock).parent.rmdir()
        return held(lock)

    monkeypatch.setattr(scratch, "_lock_descriptor", late)
    made = Scratch(1)
    assert asked == [asked[0], f"{made.path}/{scratch._LOCK}"]
    assert [Path(made.path)] == list(place.iterdir()) == delete_orphans()
    made.delete()


def test_a_symbolic_link_is_not_a_lock(place: Path, tmp_path: Path) -> None:
    directory = place / "inspector-1-abcdefgh"
    directory.mkdir()
    (tmp_path / "file").touch()
    (directory / scratch._LOCK).symlink_to(tmp_path / "file")
    assert delete_orphans() == [directory]
    assert directory.exists()


def test_without_such_locks_nothing_is_deleted_but_by_its_maker(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "fcntl", None)
    one, other = Scratch(1), Scratch(2)
    one.release()
    assert delete_orphans() == []
    assert {Path(one.path), Path(other.path)} == set(place.iterdir())
    one.delete()
    other.delete()
    assert list(place.iterdir()) == []


class Clock:
    """The clock of `scratch`: each wait advances it, and then calls a function."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, happens: Callable[[], object]) -> None:
        self.now, self._happens = 100.0, happens
        monkeypatch.setattr(scratch, "time", self)

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self._happens()


def test_those_of_a_process_that_ends_are_waited_for(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ending, longer, other = Scratch(12), Scratch(123), Scratch(1)
    clock = Clock(monkeypatch, ending.release)
    delete_orphans_of(12, 30)
    assert clock.now < 101
    assert {Path(longer.path), Path(other.path)} == set(place.iterdir())
    Clock(monkeypatch, lambda: pytest.fail("waited for others"))
    delete_orphans_of(12, 30)


def test_deleting_orphans_does_not_wait_indefinitely(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = Scratch(12)
    clock = Clock(monkeypatch, lambda: None)
    delete_orphans_of(12, 30)
    assert 130 <= clock.now < 131
    assert list(place.iterdir()) == [Path(held.path)]
    held.delete()
