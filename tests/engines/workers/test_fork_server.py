"""A forked worker as the notebook kernel holds it: asked, killed, reaped and closed, with no process behind it."""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from inspector.engines.workers import fork_server
from inspector.engines.workers.environment import Environment
from inspector.engines.workers.fork_server import ForkServer, Starter, _Forked
from inspector.engines.workers.process import Log, ServerLostError, StartError, StartTimeoutError
from inspector.engines.workers.worker_lane import WorkerLane, WorkerSettings

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
    monkeypatch.setattr(os, "killpg", lambda pid, _: kill(pid, signal.SIGKILL) if not sent else None)
    return sent


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def forked(ends: tuple[socket.socket, socket.socket], scratch: Path, *statuses: Any) -> _Forked:
    server: Any = FakeServer(*statuses)
    return _Forked(server, PID, ends[0], Log(), str(scratch))


def test_a_worker_runs_until_it_is_killed_or_exits(
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


def test_closing_reaps_processes_and_deletes_their_files(
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


def test_a_worker_ends_with_its_server(
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


SERVER = """
import json, os, socket, sys
control = socket.socket(fileno=int(sys.argv[2]))
def receive():
    data, descriptors, _, _ = socket.recv_fds(control, 1 << 16, 2)
    if not data:
        sys.exit(0)
    return json.loads(data), descriptors
def send(**reply):
    control.send(json.dumps(reply).encode())
"""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Makes the notebook kernel's end of a fork server that runs a script."""
    made: list[ForkServer] = []

    def start(script: str) -> ForkServer:
        program = SERVER + script
        monkeypatch.setattr(fork_server, "command", lambda *arguments: [sys.executable, "-c", program, *arguments])
        made.append(ForkServer())
        return made[-1]

    yield start
    for each in made:
        each.close()
        assert each._popen is None
        assert each._control is None


def test_a_failed_start_of_a_server_includes_its_output(server: Any) -> None:
    failing = server("print('x' * 3000 + ' and it cannot begin', file=sys.stderr); sys.exit(1)")
    with pytest.raises(StartError, match=r"The fork server failed: .*Its output: x+ and it cannot begin") as caught:
        failing.fork({})
    assert type(caught.value) is StartError
    assert str(caught.value).count("x") < 2100
    silent = server("sys.exit(1)")
    with pytest.raises(StartError, match="Its output: none"):
        silent.fork({})


def test_a_server_that_ends_later_is_replaced_once(server: Any) -> None:
    failing = server("send(ready=True); receive(); print('now it ends', file=sys.stderr); sys.exit(1)")
    with pytest.raises(ServerLostError, match="now it ends"):
        failing._ask({"do": "fork"}, time.monotonic() + 60)
    assert failing._popen is None


def test_a_full_server_is_reported(server: Any) -> None:
    full = server("send(ready=True)\nwhile True:\n    receive(); send(error='no room')")
    for _ in range(2):
        with pytest.raises(StartError, match="could not fork a worker: no room"):
            full.fork({})


WORKER = f"""PID = {PID}"""
WORKER += """
import struct
send(ready=True)
while True:
    request, descriptors = receive()
    if request["do"] == "reap":
        send(known=request["pid"] == PID, status=-3)
        continue
    stream = socket.socket(fileno=descriptors[0])
    text = json.dumps({"reply": "ready", "asked": request["environment"], "blobs": []}).encode()
    stream.sendall(struct.pack("<4sI", b"INSP", len(text)) + text)
    os.write(descriptors[1], b"of the worker")
    send(pid=PID, scratch="/nowhere")
"""


def test_a_worker_gets_a_stream_and_a_log(server: Any) -> None:
    starting = server(WORKER)
    starting.begin()
    begun = starting._popen
    worker = starting.fork({"platform": "cpu"})
    assert starting._popen is begun is not None
    assert (worker.pid, worker._scratch) == (PID, "/nowhere")
    with pytest.raises(ProcessLookupError, match=f"has no worker {PID + 1}"):
        starting.reap(PID + 1)
    assert starting.reap(PID) == -3
    assert worker.close() == -3


@pytest.mark.parametrize("pid", [0, -1, -4])
def test_an_invalid_process_id_is_refused(server: Any, pid: int) -> None:
    with pytest.raises(StartError, match=f"a worker with the process id {pid}"):
        server(WORKER.replace(f"PID = {PID}", f"PID = {pid}")).fork({})


def test_a_server_that_was_never_started_has_no_workers(server: Any) -> None:
    with pytest.raises(ProcessLookupError, match=f"has no worker {PID}"):
        server(WORKER).reap(PID)


def test_a_closed_server_starts_nothing(server: Any) -> None:
    closed = server(WORKER)
    closed.close()
    closed.begin()
    assert closed._popen is None
    with pytest.raises(StartError, match="The fork server is closed"):
        closed.fork({})


def test_a_timeout_leaves_the_server_starting(server: Any) -> None:
    slow = server("import time; time.sleep(600)")
    with pytest.raises(StartTimeoutError, match="has not started yet"):
        slow.fork({}, 0.1)
    assert slow._popen is not None
    assert slow._popen.poll() is None


def test_while_another_worker_starts_there_is_a_limit(server: Any) -> None:
    busy = server(WORKER)
    with busy._lock, pytest.raises(StartTimeoutError, match="busy with the start of another worker"):
        busy.fork({}, 0.05)


def test_a_stopped_server_is_replaced(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fork_server, "_LOOK_S", 0.02)
    stopping = server(WORKER)
    stopping.fork({}).close()
    first = stopping._popen.pid
    os.kill(first, signal.SIGSTOP)
    with pytest.raises(ServerLostError, match=r"stopped \(SIGSTOP\), so it was replaced"):
        stopping._ask({"do": "reap", "pid": PID}, time.monotonic() + 600)
    stopping.fork({}).close()
    second = stopping._popen.pid
    os.kill(second, signal.SIGSTOP)
    stopping.fork({}).close()
    assert len({first, second, stopping._popen.pid}) == 3


def test_a_server_that_ended_meanwhile_is_replaced(server: Any) -> None:
    ending = server(WORKER)
    ending.fork({}).close()
    ending._popen.kill()
    ending._popen.wait(60)
    ending.fork({}).close()


def test_a_server_that_does_not_answer_is_replaced(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fork_server, "_LOOK_S", 0.02)
    monkeypatch.setattr(fork_server, "_REPLY_LIMIT_S", 0.1)
    silent = server("import time; send(ready=True); time.sleep(600)")
    with pytest.raises(ServerLostError, match=r"did not answer within 0\.1 s, so it was replaced"):
        silent.fork({})


class ForkingServer:
    """Forks, or raises what it was told to."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.done: list[str] = []

    def fork(self, environment: Any, limit_s: float) -> Any:
        self.done.append("fork")
        if self.error is not None:
            raise self.error
        return "forked"

    def begin(self) -> None:
        self.done.append("begin")

    def close(self) -> None:
        self.done.append("close")


def starter(monkeypatch: pytest.MonkeyPatch, way: Any, error: Exception | None = None) -> tuple[Starter, ForkingServer]:
    made = Starter(way)
    server: Any = ForkingServer(error)
    monkeypatch.setattr(made, "_fork_server", server)
    monkeypatch.setattr(fork_server, "spawn", lambda environment, limit_s: f"spawned within {limit_s:.0f} s")
    return made, server


def test_workers_are_forked_where_that_works(monkeypatch: pytest.MonkeyPatch) -> None:
    for way in ("auto", "fork"):
        made, server = starter(monkeypatch, way)
        made.begin()
        assert [made.start({}, 60.0), made.start({}, 60.0)] == ["forked", "forked"]
        made.close()
        assert server.done == ["begin", "fork", "fork", "close"]


def test_workers_are_spawned_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    made, server = starter(monkeypatch, "spawn")
    made.begin()
    assert made.start({}, 60.0) == "spawned within 60 s"
    assert server.done == []


def test_where_forking_fails_workers_are_spawned_from_then_on(monkeypatch: pytest.MonkeyPatch) -> None:
    made, server = starter(monkeypatch, "auto", StartError("no fork"))
    assert [made.start({}, 60.0) for _ in range(2)] == ["spawned within 60 s"] * 2
    made.begin()
    assert server.done == ["fork"]


def test_one_that_took_too_long_to_fork_is_not_spawned(monkeypatch: pytest.MonkeyPatch) -> None:
    made, server = starter(monkeypatch, "auto", StartTimeoutError("too long"))
    for _ in range(2):
        with pytest.raises(StartTimeoutError, match="too long"):
            made.start({}, 60.0)
    assert server.done == ["fork", "fork"]


def test_required_forking_does_not_fall_back_to_spawning(monkeypatch: pytest.MonkeyPatch) -> None:
    made, server = starter(monkeypatch, "fork", StartError("no fork"))
    for _ in range(2):
        with pytest.raises(StartError, match="no fork"):
            made.start({}, 60.0)
    assert server.done == ["fork", "fork"]


def test_where_spawning_fails_too_forking_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(environment: Any, limit_s: float) -> Any:
        raise StartError("no worker at all")

    made, server = starter(monkeypatch, "auto", StartError("no fork"))
    monkeypatch.setattr(fork_server, "spawn", fail)
    for _ in range(2):
        with pytest.raises(StartError, match="no worker at all"):
            made.start({}, 60.0)
    assert server.done == ["fork", "fork"]


@pytest.mark.skipif(not ForkServer.supported(), reason="the fork server is Linux's")
def test_a_worker_is_a_child_of_the_server_that_forked_it() -> None:
    environment = dict(WorkerLane(Environment("cpu", 1), Starter("fork"), WorkerSettings())._message)
    server = ForkServer()
    try:
        workers = [server.fork(environment) for _ in range(2)]
        assert server._popen is not None
        parents = [int(Path(f"/proc/{each.pid}/stat").read_text().rpartition(")")[2].split()[1]) for each in workers]
        assert parents == [server._popen.pid] * 2
        assert len({server._popen.pid, *(each.pid for each in workers)}) == 3
        assert [each.close() for each in workers] == [0, 0]
        assert server._popen.poll() is None
    finally:
        server.close()


@pytest.mark.skipif(not ForkServer.supported(), reason="the fork server is Linux's")
def test_what_a_worker_starts_cannot_keep_its_stream_and_ends_with_it() -> None:
    """Or else the notebook kernel waits for ptxas after its worker was killed."""
    environment = dict(WorkerLane(Environment("cpu", 1), Starter("fork"), WorkerSettings())._message)
    server = ForkServer()
    try:
        worker = server.fork(environment)
        assert os.getpgid(worker.pid) == worker.pid
        kept = [
            each.name
            for each in Path(f"/proc/{worker.pid}/fd").iterdir()
            if "socket:" in str(each.readlink()) and not _flags(worker.pid, each.name) & os.O_CLOEXEC
        ]
        assert kept == []
        worker.kill()
        worker.close()
    finally:
        server.close()


def _flags(pid: int, descriptor: str) -> int:
    lines = Path(f"/proc/{pid}/fdinfo/{descriptor}").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("flags:")).split()[1], 8)
