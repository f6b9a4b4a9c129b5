"""The notebook kernel's side of the fork server, a process that has imported JAX and forks workers (`worker_main.py`).

`Starter` starts workers with it, or in fresh interpreters where it does not work.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Literal

from inspector.engines.workers.process import (
    START_LIMIT_S,
    Log,
    Process,
    ServerLostError,
    StartError,
    StartTimeoutError,
    await_ready,
    command,
    environ,
    spawn,
)
from inspector.engines.workers.wire import Blob, read_message, write_message
from inspector.support import subprocesses

_REAP_LIMIT_S = 5.0
_REPLY_LIMIT_S = 30.0
_LOOK_S = 0.25


class ForkServer:
    """A process that has imported JAX and forks workers. Thread-safe.

    Kills and replaces a server that is stopped or does not answer. All its workers end with it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._popen: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._is_ready = False
        self._log: Log | None = None
        self._started = 0.0
        self._closed = False

    @staticmethod
    def supported() -> bool:
        """Reports whether this system can pass sockets to a process that forks."""
        return sys.platform == "linux"

    def begin(self) -> None:
        """Starts the server in the background unless it has been started. `fork` reports a failure."""
        if not self._lock.acquire(blocking=False):  # another thread is forking
            return
        try:
            if not self._closed and self._control is None:
                self._start()
        except (OSError, StartError):
            self._end()
        finally:
            self._lock.release()

    def fork(self, environment: Mapping[str, Any], limit_s: float = START_LIMIT_S) -> Process:
        """Forks a worker. Starts a new server if the current one has been killed.

        Args:
            environment: the environment of the worker, as JSON values.
            limit_s: time limit of the start in seconds, including the start of the server.

        Raises:
            StartTimeoutError: the start took longer.
            StartError: the server or the worker did not start.
        """
        until = time.monotonic() + limit_s
        try:
            return self._fork(environment, until)
        except ServerLostError:
            return self._fork(environment, until)

    def _fork(self, environment: Mapping[str, Any], until: float) -> Process:
        log = Log()
        ours, theirs = socket.socketpair()
        request = {"do": "fork", "environment": environment}
        try:
            with self._locked(until):
                reply = self._ask(request, until, [theirs.fileno(), log.file.fileno()])
            if "error" in reply:
                raise StartError(f"The fork server could not fork a worker: {reply['error']}")
            if reply["pid"] < 1:  # a signal to such an id would reach a whole process group
                raise StartError(f"The fork server reported a worker with the process id {reply['pid']}.")
        except BaseException:
            ours.close()
            log.close()
            raise
        finally:
            theirs.close()
        return await_ready(_Forked(self, reply["pid"], ours, log, reply["scratch"]), until - time.monotonic())

    def reap(self, pid: int) -> int | None:
        """Waits for a worker to end and returns its exit code, None if it is unknown.

        Raises:
          ProcessLookupError: its server has ended, and the worker with it.
        """
        until = time.monotonic() + _REAP_LIMIT_S
        while time.monotonic() < until:
            try:
                with self._locked(time.monotonic() + START_LIMIT_S):  # the server may be starting another worker
                    request = {"do": "reap", "pid": pid}
                    reply = {"known": False} if self._control is None else self._ask(request, math.inf)
            except StartError as e:
                raise ProcessLookupError(str(e)) from e
            if not reply["known"]:
                raise ProcessLookupError(f"The fork server has no worker {pid}.")
            if reply["status"] is not None:
                return int(reply["status"])
            time.sleep(0.005)
        return None

    def close(self) -> None:
        """Ends the server and all its workers. It cannot be started again."""
        self._closed = True  # first, because threads that hold the lock and wait for the server check it
        with self._lock:
            self._end()

    @contextlib.contextmanager
    def _locked(self, until: float) -> Iterator[None]:
        if not self._lock.acquire(timeout=max(0.0, until - time.monotonic())):
            raise StartTimeoutError("The fork server was busy with the start of another worker.")
        try:
            yield
        finally:
            self._lock.release()

    def _ask(self, request: Mapping[str, Any], until: float, descriptors: Sequence[int] = ()) -> dict[str, Any]:
        """Sends a request and returns the reply. Raises StartTimeoutError when the server itself has not started by then."""
        if self._closed:
            raise StartError("The fork server is closed.")
        lost = ServerLostError if self._is_ready else StartError
        try:
            control = self._control or self._start()
            if not self._is_ready:
                self._receive(control, until)
                self._is_ready, lost = True, ServerLostError
            socket.send_fds(control, [json.dumps(request).encode()], list(descriptors))
            return self._receive(control, time.monotonic() + _REPLY_LIMIT_S)
        except StartTimeoutError:  # the server continues to start for the next request
            raise
        except (OSError, EOFError, ValueError) as e:
            output = self._log.read() if self._log else ""
            self._end()
            lost = ServerLostError if isinstance(e, _StoppedError) else lost
            raise lost(f"The fork server failed: {e!r}. Its output: {output[-2000:] or 'none'}") from e

    def _start(self) -> socket.socket:
        self._log = Log()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control = ours
        self._started = time.monotonic()
        with theirs:
            self._popen = subprocess.Popen(
                command("fork-server", str(theirs.fileno())),
                stdin=subprocess.DEVNULL,
                stdout=self._log.file,
                stderr=self._log.file,
                pass_fds=[theirs.fileno()],
                env=environ(),
                start_new_session=True,  # Ctrl-C in a terminal goes to the notebook kernel only
            )
        return ours

    def _receive(self, control: socket.socket, until: float) -> dict[str, Any]:
        """Returns the next message of the server. Raises OSError or EOFError when no further message can be expected."""
        assert self._popen is not None
        looks = 0
        while not select.select([control], [], [], _LOOK_S)[0]:
            looks = looks + 1 if is_stopped(self._popen.pid) else 0
            if self._closed:
                raise EOFError("it was closed")
            if looks > 1:
                raise _StoppedError("it was stopped (SIGSTOP), so it was replaced")
            if self._is_ready and time.monotonic() > until:
                raise _StoppedError(f"it did not answer within {_REPLY_LIMIT_S:g} s, so it was replaced")
            if not self._is_ready and time.monotonic() > self._started + START_LIMIT_S:
                raise OSError(f"it did not start within {START_LIMIT_S:g} s")
            if not self._is_ready and time.monotonic() > until:
                raise StartTimeoutError("The fork server has not started yet.")
        data = control.recv(1 << 16)
        if not data:
            raise EOFError("it ended")
        reply: dict[str, Any] = json.loads(data)
        return reply

    def _end(self) -> None:
        self._is_ready = False
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._popen is not None:
            self._popen.kill()
            self._popen.wait()
            self._popen = None
        if self._log is not None:
            self._log.close()


class _StoppedError(OSError):
    """The server runs but does not respond."""


def is_stopped(pid: int) -> bool:
    """Reports whether a process is stopped by a signal (Linux)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except (OSError, IndexError):
        return False


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
        return not readable  # an idle worker sends nothing: readable means that it has ended

    def send(self, header: Mapping[str, Any], blobs: Sequence[Blob]) -> None:
        write_message(self._writer, header, blobs)

    def receive(self) -> tuple[dict[str, Any], list[bytes]]:
        return read_message(self._reader)

    def kill(self) -> None:
        with self._lock:  # not after it was reaped: another process may have the pid
            self._killed = True
            if not self._reaped:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.pid, signal.SIGKILL)
                subprocesses.kill_group(self.pid)  # compilers that it has started, such as ptxas

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


class Starter:
    """Starts worker processes, forked or spawned."""

    def __init__(self, way: Literal["auto", "fork", "spawn"]) -> None:
        """Creates the starter without starting a process.

        Args:
          way: "fork" with the fork server, "spawn" in a fresh interpreter, "auto" for "fork" where it works, else "spawn".
        """
        self._fork_server = ForkServer()
        self._fork = way == "fork" or (way == "auto" and ForkServer.supported())
        self._must_fork = way == "fork"

    def start(self, environment: Mapping[str, Any], limit_s: float = START_LIMIT_S) -> Process:
        """Starts a worker for a device environment.

        Raises:
          StartTimeoutError: the start took longer than the limit.
          StartError: the worker did not start.
        """
        until = time.monotonic() + limit_s
        if not self._fork:
            return spawn(environment, limit_s)
        try:
            return self._fork_server.fork(environment, limit_s)
        except StartTimeoutError:
            raise
        except StartError:
            if self._must_fork:
                raise
        process = spawn(environment, until - time.monotonic())  # also fails if the environment is the cause
        self._fork = False  # no second try on this machine
        return process

    def begin(self) -> None:
        """Starts the fork server in the background, which takes long."""
        if self._fork:
            self._fork_server.begin()

    def close(self) -> None:
        """Ends the fork server and all workers that it forked."""
        self._fork_server.close()
