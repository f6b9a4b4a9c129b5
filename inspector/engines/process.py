"""Starts worker processes from the kernel, by a fork server or by spawning, and ends them.

Knows processes, streams and logs; nothing of requests. Used by `worker.py` on its lanes' threads;
`Process.kill` may come from any thread.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from typing import IO, Any, BinaryIO, Protocol

from inspector.engines.scratch import Scratch
from inspector.engines.wire import Blob, WireError, read_message, write_message

START_LIMIT_S = 120.0
_REAP_LIMIT_S = 5.0
_LOG_BYTES = 1 << 20
_BOOT = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]);"
    " from inspector.engines.worker_main import main; main(sys.argv[2:])"
)


class StartError(Exception):
    """A process could not be started. The text says why, with what it wrote."""


class ServerLostError(StartError):
    """The fork server ended meanwhile; another one can be started."""


class Process(Protocol):
    """A worker process, from its start to its end."""

    pid: int

    def alive(self) -> bool:
        """Whether it can take a message. False once killed."""
        ...

    def send(self, header: Mapping[str, Any], blobs: Sequence[Blob]) -> None:
        """Raises OSError when it is gone."""
        ...

    def receive(self) -> tuple[dict[str, Any], list[bytes]]:
        """Waits for a message. Raises EOFError or OSError when it is gone, WireError for junk."""
        ...

    def kill(self) -> None:
        """Ends it at once. From any thread, more than once."""
        ...

    def close(self) -> int | None:
        """Ends it, releases everything. Its exit code, negative for a signal, None when not known."""
        ...

    def went_with_server(self) -> bool:
        """Once closed: whether it ended because its fork server did, whatever it was doing."""
        ...

    def read_log(self) -> str:
        """What it wrote to stdout and stderr since the last call."""
        ...


class Log:
    """A file without a name that a process writes to and the kernel reads, also after its death."""

    def __init__(self) -> None:
        self.file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  lives as long as the process
        self._offset = 0
        self._rest = ""

    def close(self) -> None:
        """Closes the file; what was not read yet can still be."""
        if not self.file.closed:
            self._rest = self.read()
            self.file.close()

    def read(self) -> str:
        """What is new; its last part when it is very long."""
        if self.file.closed:
            rest, self._rest = self._rest, ""
            return rest
        if not hasattr(os, "pread"):  # without it, reading would move where the process writes
            return ""
        end = os.fstat(self.file.fileno()).st_size
        start = max(self._offset, end - _LOG_BYTES)
        self._offset = end
        return os.pread(self.file.fileno(), end - start, start).decode(errors="replace")


class ForkServer:
    """A process that has imported JAX and forks workers. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._popen: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._log: Log | None = None
        self._closed = False

    @staticmethod
    def supported() -> bool:
        """Whether this system can pass sockets to a process that forks."""
        return sys.platform == "linux"

    def fork(self, environment: Mapping[str, Any]) -> Process:
        """A new worker, of a new server when the one there was has been killed.

        Raises:
          StartError: the server or the worker did not start.
        """
        try:
            return self._fork(environment)
        except ServerLostError:
            return self._fork(environment)

    def _fork(self, environment: Mapping[str, Any]) -> Process:
        ours, theirs = socket.socketpair()
        log = Log()
        order = {"do": "fork", "environment": environment}
        try:
            with self._lock:
                reply = self._ask(order, [theirs.fileno(), log.file.fileno()])
            if "error" in reply:
                raise StartError(f"The fork server could not make a worker: {reply['error']}")
        except BaseException:
            ours.close()
            log.close()
            raise
        finally:
            theirs.close()
        return _await_ready(_Forked(self, reply["pid"], ours, log, reply["scratch"]))

    def reap(self, pid: int) -> int | None:
        """The exit code of a worker that ends, None when that is not known.

        Raises:
          ProcessLookupError: its server is gone, and with it the worker.
        """
        until = time.monotonic() + _REAP_LIMIT_S
        while time.monotonic() < until:
            with self._lock:
                try:
                    reply = self._ask({"do": "reap", "pid": pid}) if self._control is not None else {"known": False}
                except StartError as e:
                    raise ProcessLookupError(str(e)) from e
            if not reply["known"]:
                raise ProcessLookupError(f"The fork server has no worker {pid}.")
            if reply["status"] is not None:
                return int(reply["status"])
            time.sleep(0.005)
        return None

    def close(self) -> None:
        """Ends the server and with it every worker; there will be no other."""
        with self._lock:
            self._closed = True
            self._end()

    def _ask(self, order: Mapping[str, Any], descriptors: Sequence[int] = ()) -> dict[str, Any]:
        if self._closed:
            raise StartError("The fork server is closed.")
        lost = ServerLostError if self._control is not None else StartError
        try:
            control = self._control or self._start()
            data = json.dumps(order).encode()
            socket.send_fds(control, [data], list(descriptors))
            return _receive(control)
        except (OSError, EOFError, ValueError) as e:
            said = self._log.read() if self._log else ""
            self._end()
            raise lost(f"The fork server failed: {e!r}. It wrote: {said[-2000:] or 'nothing'}") from e

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._log = Log()
        self._control = ours
        with theirs:
            self._popen = subprocess.Popen(
                _command("fork-server", str(theirs.fileno())),
                stdin=subprocess.DEVNULL,
                stdout=self._log.file,
                stderr=self._log.file,
                pass_fds=[theirs.fileno()],
                env=_environ(),
                start_new_session=True,  # Ctrl-C in a terminal goes to the kernel alone
            )
        ours.settimeout(START_LIMIT_S)
        _receive(ours)
        return ours

    def _end(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._popen is not None:
            self._popen.kill()
            self._popen.wait()
            self._popen = None
        if self._log is not None:
            self._log.close()


class _Forked:
    def __init__(self, server: ForkServer, pid: int, stream: socket.socket, log: Log, scratch: str) -> None:
        self.pid = pid
        self._scratch = scratch
        self._server = server
        self._stream = stream
        self._log = log
        self._reader: BinaryIO = stream.makefile("rb")
        self._writer: BinaryIO = stream.makefile("wb")
        self._lock = threading.Lock()
        self._killed = False
        self._reaped = False
        self._gone = False

    def alive(self) -> bool:
        if self._killed:
            return False
        readable, _, _ = select.select([self._stream], [], [], 0)
        return not readable  # it never speaks unasked: readable means that it is gone

    def send(self, header: Mapping[str, Any], blobs: Sequence[Blob]) -> None:
        write_message(self._writer, header, blobs)

    def receive(self) -> tuple[dict[str, Any], list[bytes]]:
        return read_message(self._reader)

    def kill(self) -> None:
        with self._lock:  # not after it was reaped, when the pid may be another's
            self._killed = True
            if not self._reaped:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.pid, signal.SIGKILL)

    def close(self) -> int | None:
        with contextlib.suppress(OSError):
            self._stream.shutdown(socket.SHUT_RDWR)
        status = self._reap()
        if status is None:
            self.kill()
            status = self._reap()
        for stream in (self._reader, self._writer, self._stream, self._log):
            with contextlib.suppress(OSError):
                stream.close()
        shutil.rmtree(self._scratch, ignore_errors=True)
        return status

    def went_with_server(self) -> bool:
        return self._gone

    def read_log(self) -> str:
        return self._log.read()

    def _reap(self) -> int | None:
        status, gone = None, False
        try:
            status = self._server.reap(self.pid)
        except ProcessLookupError:
            gone = True
        with self._lock:
            self._gone = self._gone or (gone and not self._reaped)
            self._reaped = self._reaped or gone or status is not None
        return status


class _Spawned:
    def __init__(self, environment: Mapping[str, Any]) -> None:
        self._log = Log()
        self._scratch = Scratch(os.getpid())
        self._popen = subprocess.Popen(
            _command("worker", json.dumps({**environment, "scratch": self._scratch.path})),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log.file,
            env=_environ(),
            start_new_session=True,
        )
        self.pid = self._popen.pid
        self._killed = False

    def alive(self) -> bool:
        return not self._killed and self._popen.poll() is None

    def send(self, header: Mapping[str, Any], blobs: Sequence[Blob]) -> None:
        assert self._popen.stdin is not None
        write_message(self._popen.stdin, header, blobs)  # type: ignore[arg-type]

    def receive(self) -> tuple[dict[str, Any], list[bytes]]:
        assert self._popen.stdout is not None
        return read_message(self._popen.stdout)  # type: ignore[arg-type]

    def kill(self) -> None:
        self._killed = True
        self._popen.kill()

    def close(self) -> int | None:
        for stream in (self._popen.stdin, self._popen.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        try:
            return self._popen.wait(_REAP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return self._popen.wait()
        finally:
            self._log.close()
            self._scratch.delete()

    def went_with_server(self) -> bool:
        return False

    def read_log(self) -> str:
        return self._log.read()


def spawn(environment: Mapping[str, Any]) -> Process:
    """A new worker in a fresh interpreter.

    Raises:
      StartError: it did not start.
    """
    try:
        process = _Spawned(environment)
    except OSError as e:
        raise StartError(f"No worker process could be started: {e}") from e
    return _await_ready(process)


@dataclasses.dataclass(frozen=True, slots=True)
class Death:
    """How a process ended: its signal or exit code in words, and its last words."""

    how: str
    fatal: str

    @classmethod
    def of(cls, status: int | None, log: str) -> Death:
        """From an exit code (negative for a signal) and what the process wrote."""
        return cls(_describe(status), _fatal_line(log))


def warnings_in(log: str) -> tuple[str, ...]:
    """The lines of a log that a user should see: XLA's warnings and errors, without time stamps."""
    lines = (_message(line) for line in log.splitlines())
    return tuple(dict.fromkeys(line for line in lines if line and not any(b in line for b in _BORING)))


# What every start of XLA writes.
_BORING = (
    "All log messages before absl::InitializeLog() is called",
    "cpu_feature_guard",
    "rebuild TensorFlow with the appropriate compiler flags",
    "Unable to register cuDNN factory",
    "Unable to register cuBLAS factory",
    "Unable to register cuFFT factory",
)
_FATAL = (
    "Check failed",
    "LLVM ERROR",
    "Fatal",
    "terminate called",
    "what():",
    "assertion",
    "Assertion",
    "corrupt",
    "free()",
)


def _message(line: str) -> str:
    """Without the prefix of Google's log (`W0101 12:00:00.0 123 file.cc:1] text`); "" for information."""
    if not _is_log(line):
        return line.strip()
    if line[0] == "I":
        return ""
    head, _, text = line.partition("] ")
    return f"{text.strip()} ({head.split()[-1]})"


def _is_log(line: str) -> bool:
    return len(line) > 5 and line[0] in "IWEF" and line[1:5].isdigit() and "] " in line


def _fatal_line(log: str) -> str:
    lines = [line for line in log.splitlines() if line.strip()]
    for line in lines:
        if line[0] == "F" and _is_log(line):
            return _message(line)
    for line in lines:
        if any(word in line for word in _FATAL):
            return _message(line)
    said = warnings_in(log)
    return said[-1] if said else ""


def _describe(status: int | None) -> str:
    if status is None:
        return "it is gone"
    if status < 0:
        with contextlib.suppress(ValueError):
            return f"killed by {signal.Signals(-status).name}"
        return f"killed by signal {-status}"
    return f"exit code {status}"


def _await_ready(process: Process) -> Process:
    timer = threading.Timer(START_LIMIT_S, process.kill)
    timer.daemon = True
    timer.start()
    try:
        header, _ = process.receive()
    except (EOFError, OSError, WireError) as e:
        status = process.close()
        death = Death.of(status, process.read_log())
        raise (ServerLostError if process.went_with_server() else StartError)(
            f"A worker process ended while it started ({death.how}): {death.fatal or 'it wrote nothing'}"
        ) from e
    finally:
        timer.cancel()
    if header.get("reply") != "ready":
        process.close()
        raise StartError(f"A worker process could not start: {header.get('text', header)}")
    process.read_log()  # what XLA says at its start belongs to no request
    return process


def _receive(control: socket.socket) -> dict[str, Any]:
    data = control.recv(1 << 16)
    if not data:
        raise EOFError("it ended")
    reply: dict[str, Any] = json.loads(data)
    return reply


def _command(*arguments: str) -> list[str]:
    # The kernel's own path, so that both import the same JAX and the same inspector.
    return [sys.executable, "-c", _BOOT, json.dumps(sys.path), *arguments]


def _environ() -> dict[str, str]:
    """The kernel's environment, without what would give a worker other devices or JAX's cache."""
    environ = dict(os.environ)
    environ["JAX_PLATFORMS"] = "cpu"  # never to take an accelerator away from the kernel
    for name in ("JAX_NUM_CPU_DEVICES", "JAX_COMPILATION_CACHE_DIR", "JAX_PLATFORM_NAME"):
        environ.pop(name, None)
    words = environ.get("XLA_FLAGS", "").split()
    environ["XLA_FLAGS"] = " ".join(w for w in words if not w.startswith("--xla_force_host_platform_device_count"))
    return environ
