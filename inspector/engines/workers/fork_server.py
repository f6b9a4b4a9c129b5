"""The notebook kernel's end of the fork server, a process that has imported JAX and forks workers (`worker_main.py`).

`Starter` makes workers by it, or without where it does not work.
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

_REAP_LIMIT_S = 5.0
_REPLY_LIMIT_S = 30.0
_LOOK_S = 0.25


class ForkServer:
    """A process that has imported JAX and forks workers. Thread-safe.

    One that is stopped, or does not answer, is killed and replaced: what it forked goes with it.
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
        """Whether this system can pass sockets to a process that forks."""
        return sys.platform == "linux"

    def begin(self) -> None:
        """Begins to start it, unless it has been, and returns at once. Where that fails, `fork` tells why."""
        if not self._lock.acquire(blocking=False):  # held: somebody forks
            return
        try:
            if not self._closed and self._control is None:
                self._start()
        except (OSError, StartError):
            self._end()
        finally:
            self._lock.release()

    def fork(self, environment: Mapping[str, Any], limit_s: float = START_LIMIT_S) -> Process:
        """A new worker, of a new server when the one there was has been killed.

        Args:
          environment: what it must be.
          limit_s: how long it may take to start, its server's start included.

        Raises:
          StartTimeoutError: it took longer.
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
            with self._held(until):
                reply = self._ask(request, until, [theirs.fileno(), log.file.fileno()])
            if "error" in reply:
                raise StartError(f"The fork server could not make a worker: {reply['error']}")
            if reply["pid"] < 1:  # whoever killed it would kill a whole process group
                raise StartError(f"The fork server reported a worker with the process id {reply['pid']}.")
        except BaseException:
            ours.close()
            log.close()
            raise
        finally:
            theirs.close()
        return await_ready(_Forked(self, reply["pid"], ours, log, reply["scratch"]), until - time.monotonic())

    def reap(self, pid: int) -> int | None:
        """The exit code of a worker that ends, None when that is not known.

        Raises:
          ProcessLookupError: its server is gone, and with it the worker.
        """
        until = time.monotonic() + _REAP_LIMIT_S
        while time.monotonic() < until:
            try:
                with self._held(time.monotonic() + START_LIMIT_S):  # another worker is being started, perhaps
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
        """Ends the server and with it every worker; there will be no other."""
        self._closed = True  # first: whoever waits for the server under the lock looks at it
        with self._lock:
            self._end()

    @contextlib.contextmanager
    def _held(self, until: float) -> Iterator[None]:
        if not self._lock.acquire(timeout=max(0.0, until - time.monotonic())):
            raise StartTimeoutError("The fork server was busy with the start of another worker.")
        try:
            yield
        finally:
            self._lock.release()

    def _ask(self, request: Mapping[str, Any], until: float, descriptors: Sequence[int] = ()) -> dict[str, Any]:
        """The reply to a request. Raises StartTimeoutError when the server itself takes until then to start."""
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
        except StartTimeoutError:  # it still starts, for the next request
            raise
        except (OSError, EOFError, ValueError) as e:
            said = self._log.read() if self._log else ""
            self._end()
            lost = ServerLostError if isinstance(e, _StoppedError) else lost
            raise lost(f"The fork server failed: {e!r}. It wrote: {said[-2000:] or 'nothing'}") from e

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
                start_new_session=True,  # Ctrl-C in a terminal goes to the notebook kernel alone
            )
        return ours

    def _receive(self, control: socket.socket, until: float) -> dict[str, Any]:
        """The next message of the server. Raises OSError or EOFError when none is to be expected any more."""
        assert self._popen is not None
        looks = 0
        while not select.select([control], [], [], _LOOK_S)[0]:
            looks = looks + 1 if is_stopped(self._popen.pid) else 0
            if self._closed:
                raise EOFError("it was closed")
            if looks > 1:
                raise _StoppedError("it was stopped (SIGSTOP), so it was replaced")
            if self._is_ready and time.monotonic() > until:
                raise _StoppedError(f"it did not answer in {_REPLY_LIMIT_S:g} s, so it was replaced")
            if not self._is_ready and time.monotonic() > self._started + START_LIMIT_S:
                raise OSError(f"it did not start in {START_LIMIT_S:g} s")
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
    """The server is there and does nothing."""


def is_stopped(pid: int) -> bool:
    """Whether a process is stopped by a signal (Linux)."""
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


class Starter:
    """Makes worker processes, forked or spawned."""

    def __init__(self, way: Literal["auto", "fork", "spawn"]) -> None:
        """Starts nothing yet.

        Args:
          way: "fork" through the fork server, "spawn" in a fresh interpreter, "auto" for the first where it works.
        """
        self._fork_server = ForkServer()
        self._fork = way == "fork" or (way == "auto" and ForkServer.supported())
        self._must_fork = way == "fork"

    def start(self, environment: Mapping[str, Any], limit_s: float = START_LIMIT_S) -> Process:
        """A new worker for a device environment.

        Raises:
          StartTimeoutError: it took longer than the limit.
          StartError: it did not start.
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
        process = spawn(environment, until - time.monotonic())  # fails too where the environment is at fault
        self._fork = False  # no second try on this machine
        return process

    def begin(self) -> None:
        """Begins what takes long, the fork server's start, and returns at once."""
        if self._fork:
            self._fork_server.begin()

    def close(self) -> None:
        """Ends the fork server, and what it forked."""
        self._fork_server.close()
