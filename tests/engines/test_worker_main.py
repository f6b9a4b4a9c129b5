"""The fork server's and the worker's own steps, one by one and in this process."""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from inspector.engines import worker_main
from inspector.engines.last_words import MEMORY_LIMIT
from inspector.engines.worker_main import _Limits, _obey

ENVIRONMENT = {"max_requests": 3, "memory_limit_bytes": 1000, "max_memory_bytes": 5000}


class FakeScratch:
    path = "/somewhere"

    def __init__(self) -> None:
        self.done: list[str] = []

    def release(self) -> None:
        self.done.append("released")

    def delete(self) -> None:
        self.done.append("deleted")


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        yield ours, theirs


def ask(ends: tuple[socket.socket, socket.socket], workers: dict[int, Any], request: Any, *descriptors: int) -> Any:
    ours, theirs = ends
    socket.send_fds(ours, [json.dumps(request).encode()], descriptors)
    _obey(theirs, workers, os.getpid())
    return json.loads(ours.recv(1 << 16))


def test_a_worker_that_ended_is_reaped_once(ends: tuple[socket.socket, socket.socket]) -> None:
    with subprocess.Popen([sys.executable, "-c", "input(); raise SystemExit(3)"], stdin=subprocess.PIPE) as child:
        scratch, other = FakeScratch(), FakeScratch()
        workers: dict[int, Any] = {child.pid: scratch, 1: other}
        reap = {"do": "reap", "pid": child.pid}
        assert ask(ends, workers, reap) == {"status": None, "known": True}
        assert scratch.done == []
        assert child.stdin is not None
        child.stdin.write(b"\n")
        child.stdin.flush()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert ask(ends, workers, reap) == {"status": 3, "known": True}
        assert scratch.done == ["released"]  # the notebook kernel deletes it
        assert (workers, other.done) == ({1: other}, [])
        assert ask(ends, workers, reap) == {"status": None, "known": False}
        child.returncode = 3


def test_a_worker_is_forked_with_its_descriptors(
    ends: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    workers: dict[int, Any] = {}
    scratch = FakeScratch()
    given: list[Any] = []

    def fork(control: Any, descriptors: list[int], environment: Any, parent: int) -> tuple[int, Any]:
        os.write(descriptors[1], b"hello")
        given.extend([len(descriptors), environment, parent])
        return 77, scratch

    monkeypatch.setattr(worker_main, "_fork", fork)
    reader, writer = os.pipe()
    reply = ask(ends, workers, {"do": "fork", "environment": {"platform": "cpu"}}, reader, writer)
    os.close(writer)
    assert reply == {"pid": 77, "scratch": "/somewhere"}
    assert workers == {77: scratch}
    assert given == [2, {"platform": "cpu"}, os.getpid()]
    assert os.read(reader, 100) == b"hello"
    assert os.read(reader, 100) == b""  # the server has closed its own
    os.close(reader)


def test_no_room_for_a_process_is_said_and_leaves_no_directory(
    ends: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = FakeScratch()

    def refuse() -> int:
        raise OSError("no room")

    monkeypatch.setattr(worker_main, "Scratch", lambda parent: scratch)
    monkeypatch.setattr(os, "fork", refuse)
    workers: dict[int, Any] = {}
    assert ask(ends, workers, {"do": "fork", "environment": {}}) == {"error": "no room"}
    assert scratch.done == ["deleted"]
    assert workers == {}


def test_without_the_notebook_kernel_its_workers_end_before_their_directories(
    ends: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[Any] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: done.append((pid, number)))
    monkeypatch.setattr(os, "waitpid", lambda pid, options: done.append((pid, options)))
    monkeypatch.setattr(worker_main, "delete_orphans_of", lambda parent, limit_s: done.append(parent))

    def exit_(status: int) -> None:
        done.append(status)
        raise SystemExit

    monkeypatch.setattr(os, "_exit", exit_)
    scratches = {5: FakeScratch(), 6: FakeScratch()}
    ours, theirs = ends
    ours.close()
    with pytest.raises(SystemExit):
        _obey(theirs, scratches, 9)  # type: ignore[arg-type]
    assert done == [(5, signal.SIGKILL), (6, signal.SIGKILL), (5, 0), (6, 0), 9, 0]
    assert [scratch.done for scratch in scratches.values()] == [["deleted"], ["deleted"]]


def test_chores_are_done_a_piece_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    monkeypatch.setattr(worker_main, "delete_orphans", lambda: done.append("orphans"))
    monkeypatch.setattr(worker_main, "_import", done.append)
    monkeypatch.setattr(worker_main.gc, "collect", lambda: done.append("collect"))
    monkeypatch.setattr(worker_main.gc, "freeze", lambda: done.append("freeze"))
    steps = [["orphans"], *([name] for name in worker_main._LATER[:-1])]
    chores = worker_main._chores()
    for step in steps:
        done.clear()
        assert next(chores) == worker_main._BETWEEN_CHORES_S
        assert done == step
    done.clear()
    assert list(chores) == []
    assert done == [worker_main._LATER[-1], "collect", "freeze"]


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> _Limits:
    monkeypatch.setattr(worker_main.threading.Thread, "start", lambda self: None)
    monkeypatch.setattr(worker_main, "_resident_bytes", lambda: 1000)
    monkeypatch.setattr(worker_main, "_map_count", lambda: 50)
    monkeypatch.setattr(worker_main, "_max_map_count", lambda: 100)
    return _Limits(ENVIRONMENT)


def test_a_worker_serves_so_many_requests(limits: _Limits) -> None:
    assert [limits.reached() for _ in range(4)] == [False, False, True, True]


def test_a_worker_that_has_grown_has_served_enough(limits: _Limits, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_main, "_resident_bytes", lambda: 1001)
    assert limits.reached()


def test_memory_maps_are_counted_now_and_then(limits: _Limits, monkeypatch: pytest.MonkeyPatch) -> None:
    many = _Limits({**ENVIRONMENT, "max_requests": 100})
    assert not any(many.reached() for _ in range(2 * _Limits._MAPS_EVERY))
    monkeypatch.setattr(worker_main, "_map_count", lambda: 51)
    found = [many.reached() for _ in range(2 * _Limits._MAPS_EVERY)]
    assert list(itertools.compress(itertools.count(1), found)) == [_Limits._MAPS_EVERY, 2 * _Limits._MAPS_EVERY]


def test_without_such_figures_requests_are_counted(limits: _Limits, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_main, "_resident_bytes", _no_proc)
    assert [limits.reached() for _ in range(3)] == [False, False, True]
    assert not limits.is_large()


def _no_proc() -> int:
    raise FileNotFoundError("/proc/self/statm")


@pytest.mark.parametrize(("resident", "large"), [(_Limits._LARGE_BYTES, False), (_Limits._LARGE_BYTES + 1, True)])
def test_what_is_large(limits: _Limits, resident: int, large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_main, "_resident_bytes", lambda: resident)
    assert limits.is_large() is large


def test_who_grows_too_large_ends_itself_in_a_request_only(
    limits: _Limits, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    killed: list[Any] = []
    looks = iter(range(2))

    def sleep(seconds: float) -> None:
        if next(looks, None) is None:
            raise OSError("enough of it")

    monkeypatch.setattr(worker_main.time, "sleep", sleep)
    monkeypatch.setattr(worker_main.os, "kill", lambda pid, number: killed.append((pid, number)))

    def look(resident: int) -> tuple[list[Any], str]:
        nonlocal looks
        looks = iter(range(2))
        killed.clear()
        monkeypatch.setattr(worker_main, "_resident_bytes", lambda: resident)
        limits._watch()
        return list(killed), capfd.readouterr().err

    assert look(5001) == ([], "")
    with limits.watched():
        assert look(5000) == ([], "")
        sent, said = look(5001)
        assert sent == [(os.getpid(), signal.SIGKILL)] * 2
        assert said == f"Fatal: 5001 {MEMORY_LIMIT} 5000\n" * 2
    assert look(5001) == ([], "")
