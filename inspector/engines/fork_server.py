"""The kernel's end of the fork server, a process that has imported JAX and forks workers (`worker_main.py`).

`Starter` makes workers by it, or without where it does not work.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO, Literal

from inspector.engines.process import (
    START_LIMIT_S,
    Log,
    Process,
    ServerLostError,
    StartError,
    await_ready,
    command,
    environ,
    spawn,
)
from inspector.engines.wire import Blob, read_message, write_message

_REAP_LIMIT_S = 5.0


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
        return await_ready(_Forked(self, reply["pid"], ours, log, reply["scratch"]))

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
                command("fork-server", str(theirs.fileno())),
                stdin=subprocess.DEVNULL,
                stdout=self._log.file,
                stderr=self._log.file,
                pass_fds=[theirs.fileno()],
                env=environ(),
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

    def start(self, environment: Mapping[str, Any]) -> Process:
        """A new worker for a device environment. Raises StartError."""
        if not self._fork:
            return spawn(environment)
        try:
            return self._fork_server.fork(environment)
        except StartError:
            if self._must_fork:
                raise
        process = spawn(environment)  # fails too where the environment is at fault
        self._fork = False  # no second try on this machine
        return process

    def close(self) -> None:
        """Ends the fork server, and what it forked."""
        self._fork_server.close()


def _receive(control: socket.socket) -> dict[str, Any]:
    data = control.recv(1 << 16)
    if not data:
        raise EOFError("it ended")
    reply: dict[str, Any] = json.loads(data)
    return reply
