"""The output of a process, read piece by piece, and spawned workers: by programs that behave like workers."""

from __future__ import annotations

import os
import signal
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from inspector.engines.workers import process
from inspector.engines.workers.process import Log, StartError, StartTimeoutError, _Spawned, environ, spawn


@pytest.fixture
def log() -> Iterator[Log]:
    made = Log()
    yield made
    made.close()


def write(log: Log, text: bytes) -> None:
    log.file.write(text)
    log.file.flush()


def test_new_log_text_is_read_once(log: Log) -> None:
    assert log.read() == ""
    write(log, b"one\n")
    assert log.read() == "one\n"
    assert log.read() == ""
    write(log, b"two")
    write(log, b" three\xff")
    assert log.read() == "two three\ufffd"


def test_a_closed_log_can_still_be_read(log: Log) -> None:
    write(log, b"one ")
    assert log.read() == "one "
    write(log, b"two")
    log.close()
    log.close()
    assert log.file.closed
    assert log.read() == "two"
    assert log.read() == ""


def test_only_the_end_of_a_long_log_is_read(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_LOG_BYTES", 4)
    write(log, b"12345")
    assert log.read() == "2345"
    write(log, b"6789")
    assert log.read() == "6789"
    write(log, b"0")
    assert log.read() == "0"


def test_a_full_disk_is_reported_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise OSError("disk full")

    monkeypatch.setattr(process.tempfile, "TemporaryFile", fail)
    with pytest.raises(StartError, match=r"disk full.* Set TMPDIR"):
        Log()


Script = Callable[[str], None]
READY = """
    import json, struct, sys
    def write(header):
        text = json.dumps({**header, "blobs": []}).encode()
        sys.stdout.buffer.write(struct.pack("<4sI", b"INSP", len(text)) + text)
        sys.stdout.buffer.flush()
"""


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    """Sets what a worker's process runs, which `sys.argv[1:]` tells how it was asked for."""

    def use(text: str) -> None:
        program = textwrap.dedent(READY) + textwrap.dedent(text)
        monkeypatch.setattr(process, "command", lambda *arguments: [sys.executable, "-c", program, *arguments])

    return use


def scratch_of(worker: Any) -> Path:
    return Path(worker._scratch.path)


def test_one_that_is_killed_ends(script: Script) -> None:
    script("import time; time.sleep(600)")
    worker = _Spawned({})
    assert worker.alive()
    assert scratch_of(worker).is_dir()
    worker.kill()
    assert not worker.alive()
    assert worker._popen.wait(60) == -signal.SIGKILL
    assert worker.close() == -signal.SIGKILL
    assert not scratch_of(worker).exists()
    assert worker._log.file.closed


def test_a_worker_with_a_closed_stream_ends_by_itself(script: Script) -> None:
    script("print('to read', file=sys.stderr); sys.stdin.read(); sys.exit(7)")
    worker = _Spawned({})
    assert worker.close() == 7
    assert not worker.alive()
    assert worker.read_log() == "to read\n"
    assert not worker.went_with_server()
    assert not scratch_of(worker).exists()


def test_one_that_does_not_end_is_killed(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_REAP_LIMIT_S", 0.05)
    script("import time; time.sleep(600)")
    worker = _Spawned({})
    assert worker.close() == -signal.SIGKILL
    assert not scratch_of(worker).exists()


def test_a_worker_gets_its_settings_and_its_folder(script: Script) -> None:
    script("write({'reply': 'ready'}); write({'argv': sys.argv[1:]}); sys.stdin.read()")
    worker = spawn({"platform": "cpu"})
    try:
        (role, environment), _ = worker.receive()[0]["argv"], None
        assert role == "worker"
        assert f'"scratch": "{scratch_of(worker)}"' in environment
        assert '"platform": "cpu"' in environment
    finally:
        worker.close()


def test_sent_messages_are_read(script: Script) -> None:
    script("write({'reply': 'ready'}); size = len(sys.stdin.buffer.read(20)); write({'size': size}); sys.stdin.read()")
    worker = spawn({})
    try:
        worker.send({"do": "something"}, [b"12345"])
        assert worker.receive() == ({"size": 20}, [])
    finally:
        worker.close()


def test_output_during_the_start_belongs_to_no_request(script: Script) -> None:
    script("print('a start', file=sys.stderr, flush=True); write({'reply': 'ready'}); sys.stdin.read()")
    worker = spawn({})
    try:
        assert worker.read_log() == ""
    finally:
        worker.close()


def test_a_failed_start_has_a_reason(script: Script) -> None:
    script("write({'reply': 'error', 'text': 'no jax here'}); sys.stdin.read()")
    with pytest.raises(StartError, match="A worker process could not start: no jax here"):
        spawn({})


def test_an_exit_during_the_start_is_described(script: Script) -> None:
    script("print('Fatal: no memory', file=sys.stderr); sys.exit(3)")
    with pytest.raises(StartError, match=r"ended during its start \(.*3.*\): .*no memory") as caught:
        spawn({})
    assert type(caught.value) is StartError
    script("sys.exit(4)")
    with pytest.raises(StartError, match="it had no output"):
        spawn({})


def test_one_that_takes_too_long_to_start_is_killed(script: Script) -> None:
    script("import time; time.sleep(600)")
    begun = time.monotonic()
    with pytest.raises(StartTimeoutError, match=r"did not start within 0\.1 s"):
        spawn({}, 0.1)
    assert time.monotonic() - begun < 300


def test_no_room_for_a_process_leaves_no_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    class Scratch(process.Scratch):
        def __init__(self, parent: int) -> None:
            super().__init__(parent)
            made.append(self.path)

    def fail(*_: object, **__: object) -> None:
        raise OSError("too many processes")

    monkeypatch.setattr(process, "Scratch", Scratch)
    monkeypatch.setattr(process.subprocess, "Popen", fail)
    with pytest.raises(StartError, match="Could not start a worker process: too many processes"):
        spawn({})
    assert [Path(path).exists() for path in made] == [False]


def test_a_worker_has_its_own_devices_and_none_of_jaxs_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("JAX_NUM_CPU_DEVICES", "JAX_COMPILATION_CACHE_DIR", "JAX_PLATFORM_NAME"):
        monkeypatch.setenv(name, "8")
    monkeypatch.setenv("JAX_PLATFORMS", "tpu")
    monkeypatch.setenv("MINE", "stays")
    monkeypatch.setenv("XLA_FLAGS", "--xla_a=1 --xla_force_host_platform_device_count=8 --xla_b=2")
    made = environ()
    assert (made["JAX_PLATFORMS"], made["XLA_FLAGS"], made["MINE"]) == ("cpu", "--xla_a=1 --xla_b=2", "stays")
    assert made["TF_CPP_MIN_LOG_LEVEL"] == "1"
    assert not made.keys() & {"JAX_NUM_CPU_DEVICES", "JAX_COMPILATION_CACHE_DIR", "JAX_PLATFORM_NAME"}
    assert os.environ["JAX_PLATFORMS"] == "tpu"
    monkeypatch.delenv("XLA_FLAGS")
    assert environ()["XLA_FLAGS"] == ""
