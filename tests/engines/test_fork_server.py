"""A forked worker as the notebook kernel holds it: asked, killed, reaped and closed, with no process behind it."""

from __future__ import annotations

import os
import select
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from inspector.engines import fork_server
from inspector.engines.fork_server import _Forked
from inspector.engines.process import Log

PID = 1 << 29  # nobody's


class FakeServer:
    """Tells exit codes in turn; an error is raised."""

    def __init__(self, *statuses: Any) -> None:
        self._statuses = list(statuses)

    def reap(self, pid: int) -> int | None:
        assert pid == PID
        status = self._statuses.pop(0)
        if isinstance(status, Exception):
            raise status
        return status  # type: ignore[no-any-return]


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The signals that were sent."""
    sent: list[int] = []

    def kill(pid: int, number: int) -> None:
        assert pid == PID
        sent.append(number)
        raise ProcessLookupError

    monkeypatch.setattr(os, "kill", kill)
    return sent


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def forked(ends: tuple[socket.socket, socket.socket], scratch: Path, *statuses: Any) -> _Forked:
    server: Any = FakeServer(*statuses)
    return _Forked(server, PID, ends[0], Log(), str(scratch))


def test_it_lives_until_it_is_killed_or_gone(
    ends: tuple[socket.socket, socket.socket], killed: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    def look(*given: Any) -> Any:
        waits.append(given[-1])
        return select_(*given)

    select_ = select.select
    monkeypatch.setattr(fork_server.select, "select", look)
    worker = forked(ends, tmp_path, 0)
    assert worker.alive()
    worker.kill()
    assert not worker.alive()
    assert killed == [signal.SIGKILL]
    gone = forked(ends, tmp_path, 0)
    ends[1].close()
    assert not gone.alive()
    assert waits == [0, 0]
    worker.close()
    gone.close()


def test_closing_reaps_and_deletes_what_it_left(
    ends: tuple[socket.socket, socket.socket], killed: list[int], tmp_path: Path
) -> None:
    scratch = tmp_path / "scratch"
    (scratch / "hlo").mkdir(parents=True)
    worker = forked(ends, scratch, 3)
    assert worker.close() == 3
    assert (killed, worker.went_with_server(), scratch.exists()) == ([], False, False)
    assert ends[0].fileno() == -1
    assert ends[1].recv(1) == b""
    worker.kill()  # reaped: the pid may be another's
    assert killed == []


def test_one_that_does_not_end_is_killed(
    ends: tuple[socket.socket, socket.socket], killed: list[int], tmp_path: Path
) -> None:
    worker = forked(ends, tmp_path / "scratch", None, -9)
    assert worker.close() == -9
    assert (killed, worker.went_with_server()) == ([signal.SIGKILL], False)


def test_one_whose_server_is_gone_went_with_it(
    ends: tuple[socket.socket, socket.socket], killed: list[int], tmp_path: Path
) -> None:
    worker = forked(ends, tmp_path / "scratch", ProcessLookupError("gone"), ProcessLookupError("gone"))
    assert worker.close() is None
    assert (killed, worker.went_with_server()) == ([], True)


def test_one_that_ended_before_its_server_did_not_go_with_it(
    ends: tuple[socket.socket, socket.socket], killed: list[int], tmp_path: Path
) -> None:
    worker = forked(ends, tmp_path / "scratch", 0, ProcessLookupError("gone"))
    assert worker.close() == 0
    worker._reap()
    assert not worker.went_with_server()
