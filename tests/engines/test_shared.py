"""The engines of a process: closed together, and no child's of a fork."""

from __future__ import annotations

import platform
import threading
from pathlib import Path
from typing import Any

import pytest

from inspector.engines import shared

NAMES = ("_worker", "_inline", "_starter")


class Closing:
    def __init__(self, name: str, closed: list[str]) -> None:
        self._name, self._closed = name, closed

    def close(self) -> None:
        assert not shared._cached
        self._closed.append(self._name)


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was closed, of engines that are all there."""
    found: list[str] = []
    monkeypatch.setattr(shared, "_cached", {name: Closing(name, found) for name in ("one", "two")})
    monkeypatch.setattr(shared, "_lock", threading.RLock())
    for name in NAMES:
        monkeypatch.setattr(shared, name, Closing(name, found))
    return found


def held() -> list[Any]:
    return [*shared._cached.values(), *filter(None, (getattr(shared, name) for name in NAMES))]


def test_what_writes_is_closed_before_what_it_writes_for(closed: list[str]) -> None:
    shared.close_engines()
    assert closed == ["one", "two", *NAMES]
    assert held() == []
    shared.close_engines()
    assert closed == ["one", "two", *NAMES]


def test_a_child_of_a_fork_leaves_its_parents_alone(closed: list[str]) -> None:
    before = shared._lock
    shared._forget_in_child()  # its parent may have held the lock
    assert closed == []
    assert held() == []
    assert shared._lock is not before


@pytest.mark.parametrize(
    ("described", "machine"),
    [
        ("model name\t: A CPU\nflags\t\t: fpu sse\nbogomips: 1\n\nmodel name: another\n", ["A CPU", "fpu sse"]),
        ("processor: 0\nFeatures: fp asimd\n", ["fp asimd"]),
        ("processor: 0\n", []),
    ],
)
def test_the_processor_is_told_by_its_first_core(
    described: str, machine: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "read_text", lambda self: described)
    assert shared._machine.__wrapped__() == " ".join([platform.machine(), *machine])


def test_where_the_system_tells_nothing_of_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Path) -> str:
        raise OSError("no such file")

    monkeypatch.setattr(Path, "read_text", fail)
    assert shared._machine.__wrapped__() == f"{platform.machine()} {platform.processor()}"
