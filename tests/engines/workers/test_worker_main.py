"""The fork server's and the worker's own steps, one by one and in this process."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inspector._jax.compiling.execution import Execution
from inspector._jax.compiling.report import EarlyReport, Report
from inspector.engines.workers import messages, worker_main
from inspector.engines.workers.messages import PlainCompile, PlainRun
from inspector.engines.workers.process_output import MEMORY_LIMIT
from inspector.engines.workers.wire import read_message, write_message
from inspector.engines.workers.worker_main import _Limits, _obey
from inspector.errors import ModuleError, Unavailable

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


def test_a_failed_fork_is_reported_and_leaves_no_directory(
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
    assert limits.spare_s() is None


def _no_proc() -> int:
    raise FileNotFoundError("/proc/self/statm")


@pytest.mark.parametrize(
    ("resident", "limit", "spare_s"),
    [
        (600 << 20, 3 << 30, None), ((600 << 20) + 1, 3 << 30, _Limits._SPARE_S), (1 << 30, 3 << 30, _Limits._SPARE_S),
        ((1 << 30) + 1, 3 << 30, 0.0), (100 << 20, 300 << 20, None), ((100 << 20) + 1, 300 << 20, 0.0),
    ],
)  # fmt: skip
def test_more_free_memory_is_released_sooner(
    resident: int, limit: int, spare_s: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = _Limits({**ENVIRONMENT, "memory_limit_bytes": limit})
    monkeypatch.setattr(worker_main, "_resident_bytes", lambda: resident)
    assert limits.spare_s() == spare_s


def test_a_too_large_worker_ends_only_during_a_request(
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


def test_the_memory_map_count_is_read_from_the_system() -> None:
    if not Path("/proc/self/status").exists():
        pytest.skip("no /proc here")
    told = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS"))
    assert worker_main._resident_bytes() == pytest.approx(int(told.split()[1]) * 1024, rel=0.2)
    assert worker_main._map_count() == pytest.approx(len(Path("/proc/self/maps").read_text().splitlines()), abs=20)
    assert worker_main._max_map_count() > worker_main._map_count()


def run_worker(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script], input="", capture_output=True, text=True, timeout=120, check=False
    )


def test_a_spawned_worker_that_fails_ends_and_does_not_wait_for_its_parent(tmp_path: Path) -> None:
    done = run_worker(f"""
from inspector.engines.workers import worker_main
def fail(*_):
    raise RuntimeError("it cannot serve")
worker_main._serve = fail
worker_main.spawned({{"scratch": {str(tmp_path)!r}}})
""")
    assert done.returncode == 1
    assert "it cannot serve" in done.stderr


def test_printed_text_does_not_disturb_the_protocol_of_a_spawned_worker(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    done = run_worker(f"""
from inspector.engines.workers import worker_main
def serve(reader, writer, environment):
    print("printed", flush=True)
    writer.write(b"said " + reader.read() + environment["scratch"].encode())
    writer.flush()
worker_main._serve = serve
worker_main.spawned({{"scratch": {str(scratch)!r}}})
""")
    assert (done.returncode, done.stdout) == (0, f"said {scratch}")
    assert "printed" in done.stderr
    assert not scratch.exists()


class FakeLimits:
    """The limits in the environment: the number of requests, and when free memory is released."""

    def __init__(self, environment: Any) -> None:
        self._left = environment["max_requests"]
        self._spare_s: float | None = environment["spare_s"]

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        yield

    def reached(self) -> bool:
        self._left -= 1
        return bool(self._left <= 0)

    def spare_s(self) -> float | None:
        return self._spare_s


class FakeTimer:
    """Says when it is cancelled."""

    def __init__(self, done: list[str]) -> None:
        self._done = done

    def cancel(self) -> None:
        self._done.append("kept")


class Serving:
    """A worker that serves the requests of a test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.done: list[str] = []
        self.error: Exception | None = None
        for name in ("leave_no_core_file", "go_first"):
            monkeypatch.setattr(worker_main.child_process, name, lambda name=name: self.done.append(name))
        monkeypatch.setattr(worker_main.signal, "signal", lambda *sent: self.done.append(f"signal {sent}"))
        monkeypatch.setattr(worker_main, "_exit_at_once", lambda: self.done.append("exit at once"))
        monkeypatch.setattr(worker_main, "_Limits", FakeLimits)
        monkeypatch.setattr(worker_main, "_start", self._start)
        monkeypatch.setattr(worker_main, "_answer", self._answer)
        monkeypatch.setattr(worker_main.memory_release, "give_back_in", self._give_back_in)

    def _start(self, environment: Any) -> str:
        if self.error is not None:
            raise self.error
        return "a server"

    def _answer(self, server: Any, sender: Any, header: Any, blobs: Any, scratch: str) -> Any:
        assert (server, scratch) == ("a server", "/scratch")
        return header, [blobs[0] + b"!"] if blobs else []

    def _give_back_in(self, wait_s: float) -> FakeTimer:
        self.done.append(f"given back in {wait_s:g}")
        return FakeTimer(self.done)

    def serve(self, *requests: Any, most: int = 10, spare_s: float | None = None) -> list[Any]:
        """The replies to requests, a header each or a header with blobs."""
        reader, writer = io.BytesIO(), io.BytesIO()
        for request in requests:
            write_message(reader, *(request if isinstance(request, tuple) else (request,)))
        reader.seek(0)
        worker_main._serve(reader, writer, {"scratch": "/scratch", "max_requests": most, "spare_s": spare_s})
        writer.seek(0)
        found: list[Any] = []
        with contextlib.suppress(EOFError):
            while True:
                header, blobs = read_message(writer)
                found.append((header, blobs) if blobs else header)
        return found


@pytest.fixture
def serving(monkeypatch: pytest.MonkeyPatch) -> Serving:
    return Serving(monkeypatch)


def test_requests_are_answered_until_the_stream_ends(serving: Serving) -> None:
    assert serving.serve(({"reply": "one"}, [b"blob"]), {"reply": "two"}) == [
        {"reply": "ready"}, {"taken": True}, ({"reply": "one", "recycle": False}, [b"blob!"]),
        {"taken": True}, {"reply": "two", "recycle": False},
    ]  # fmt: skip
    assert serving.done.count("exit at once") == 2
    assert serving.done[0] == f"signal {(signal.SIGINT, signal.SIG_IGN)}"
    assert {"leave_no_core_file", "go_first"} < set(serving.done)


def test_a_worker_at_its_request_limit_reports_it(serving: Serving) -> None:
    replies = serving.serve({"reply": "one"}, {"reply": "two"}, most=2)
    assert [reply["recycle"] for reply in replies if reply.get("reply") in ("one", "two")] == [False, True]


@pytest.mark.parametrize(
    ("kind", "recycle"), [("", True), ("CompilationError", True), ("OptionError", False), ("ModuleError", False)]
)
def test_a_worker_in_which_xla_refused_something_serves_no_more(serving: Serving, kind: str, recycle: bool) -> None:
    replies = serving.serve({"reply": "error", "type": kind}, {"reply": "compiled", "type": kind})
    assert [reply["recycle"] for reply in replies if "recycle" in reply] == [recycle, False]


@pytest.mark.parametrize(
    ("most", "spare_s", "given"),
    [(10, 7.0, ["given back in 7"]), (10, 0.0, ["given back in 0"]), (10, None, []), (1, 7.0, [])],
)
def test_free_memory_is_released_between_requests(
    serving: Serving, most: int, spare_s: float | None, given: list[str]
) -> None:
    serving.serve({"reply": "one"}, most=most, spare_s=spare_s)
    assert [each for each in serving.done if each.startswith(("given", "kept"))] == given


def test_a_request_that_comes_before_finds_it(serving: Serving) -> None:
    serving.serve({"reply": "one"}, {"reply": "two"}, spare_s=7.0)
    told = [each for each in serving.done if each.startswith(("given", "kept", "exit"))]
    assert told == ["exit at once", "given back in 7", "kept", "exit at once", "given back in 7"]


def test_a_worker_that_cannot_start_reports_the_reason_and_ends(serving: Serving) -> None:
    serving.error = ModuleError("no jax")
    (reply,) = serving.serve({"reply": "one"})
    assert (reply["reply"], reply["type"], reply["text"]) == ("error", "ModuleError", "no jax")


class Sent:
    """Takes what a worker sends on the way to its reply."""

    def __init__(self) -> None:
        self.headers: list[Any] = []

    def send(self, header: Any, blobs: Any = ()) -> None:
        self.headers.append(header)


def test_a_compile_reports_its_stages_and_early_results(monkeypatch: pytest.MonkeyPatch) -> None:
    configs: list[Any] = []
    early = EarlyReport("HloModule f", b"proto", b"", ("TPU 0",))
    report = Report("HloModule f", b"proto", Unavailable("m"), Unavailable("c"), b"code", {}, {}, devices=("TPU 0",))
    asked = PlainCompile("k", b"module", {}, "cpu", {"a": 1})

    class Server:
        def compile(self, request: Any, progress: Any, *, watch: Any) -> Report:
            assert (request.module, watch.directory) == (b"module", "/scratch/hlo")
            progress("compiling")
            watch.take(early)
            watch.counted({"flops": 1.0})
            return report

    monkeypatch.setattr("inspector._jax.compiling.configuration.apply_config", configs.append)
    sent = Sent()
    header, blobs = worker_main._answer(Server(), sent, *messages.write_compile(asked), "/scratch")  # type: ignore[arg-type]
    *before, compiled = sent.headers
    assert before == [{"stage": "compiling"}, {"preview": True, "devices": ["TPU 0"]}, {"counted": {"flops": 1.0}}]
    assert configs == [{"a": 1}]
    assert (compiled["reply"], compiled["as_told"]) == ("compiled", True)
    assert (header, blobs) == ({"reply": "executable", "missing": None}, [b"code"])


def test_runs_counts_and_errors_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    configs: list[Any] = []
    asked = PlainRun(PlainCompile("k", b"module", {}, "cpu", {"b": 2}), None, {}, (), (), (), 1, 0)

    class Server:
        def run(self, request: Any, progress: Any) -> Execution:
            progress("running")
            if configs:
                return Execution((np.zeros(2),), (0.5,), "cpu")
            raise ModuleError("never")

    monkeypatch.setattr("inspector._jax.compiling.configuration.apply_config", configs.append)
    monkeypatch.setattr("inspector.engines.workers.counting.serve", lambda blobs: ({"reply": "counted"}, blobs))
    server: Any = Server()
    sent: Any = Sent()
    header, _ = worker_main._answer(server, sent, *messages.write_run(asked), "/scratch")  # type: ignore[arg-type]
    assert (header["reply"], header["durations_s"], configs) == ("ran", [0.5], [{"b": 2}])
    assert sent.headers == [{"stage": "running"}]
    assert worker_main._answer(server, sent, {"do": "count"}, [b"m"], "/scratch") == ({"reply": "counted"}, [b"m"])
    header, _ = worker_main._answer(server, sent, {"do": "run"}, [], "/scratch")
    assert (header["reply"], header["text"]) == ("error", "KeyError: 'compile'")
