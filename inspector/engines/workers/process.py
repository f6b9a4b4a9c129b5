"""A worker process as the notebook kernel sees it, from its start to its end, and those in a fresh interpreter.

Knows processes, streams and logs; nothing of requests. Used on the lanes' threads (`worker_lane.py`);
`Process.kill` may come from any thread.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from typing import IO, Any, Protocol

from inspector.engines.workers.process_output import Death
from inspector.engines.workers.scratch import Scratch
from inspector.engines.workers.wire import Blob, WireError, read_message, write_message
from inspector.errors import of_resources
from inspector.support import subprocesses

START_LIMIT_S = 120.0
_REAP_LIMIT_S = 5.0
_LOG_BYTES = 1 << 20
_MAIN = "from inspector.engines.workers.worker_main import main; main(sys.argv[1:])"


class StartError(Exception):
    """A process could not be started. The text says why, with what it wrote."""


class ServerLostError(StartError):
    """The fork server ended meanwhile; another one can be started."""


class StartTimeoutError(StartError):
    """It did not start in the time that its request has."""


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
    """A file without a name that a process writes to and the notebook kernel reads, also after its death."""

    def __init__(self) -> None:
        """Makes the file.

        Raises:
          StartError: there is no place for it.
        """
        try:
            self.file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  lives as long as the process
        except OSError as e:
            raise StartError(
                f"No temporary file could be made for what a worker writes: {e}. Set TMPDIR to a folder that has room."
            ) from e
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


class _Spawned:
    def __init__(self, environment: Mapping[str, Any]) -> None:
        self._log = Log()
        self._scratch = Scratch(os.getpid())
        try:
            self._popen = subprocess.Popen(
                command("worker", json.dumps({**environment, "scratch": self._scratch.path})),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log.file,
                env=environ(),
                start_new_session=True,
            )
        except BaseException:
            self._log.close()
            self._scratch.delete()
            raise
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


def spawn(environment: Mapping[str, Any], limit_s: float = START_LIMIT_S) -> Process:
    """A new worker in a fresh interpreter.

    Args:
      environment: what it must be.
      limit_s: how long it may take to start.

    Raises:
      StartTimeoutError: it took longer.
      StartError: it did not start.
    """
    try:
        process = _Spawned(environment)
    except OSError as e:
        raise StartError(
            str(of_resources(e, "starting a worker") or f"No worker process could be started: {e}.")
        ) from e
    return await_ready(process, limit_s)


def await_ready(process: Process, limit_s: float) -> Process:
    """The process, once it says that it takes requests.

    Args:
      process: that has been started.
      limit_s: how long this may take; then it is killed.

    Raises:
      StartTimeoutError: it took longer.
      ServerLostError: its fork server ended, and it with it.
      StartError: it ended, or could not start.
    """
    late = threading.Event()

    def end() -> None:
        late.set()
        process.kill()

    timer = threading.Timer(max(0.0, limit_s), end)
    timer.daemon = True
    timer.start()
    try:
        header, _ = process.receive()
    except (EOFError, OSError, WireError) as e:
        status = process.close()
        if late.is_set():
            raise StartTimeoutError(f"A worker process did not start in {limit_s:.3g} s.") from e
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


def command(*arguments: str) -> list[str]:
    """What starts `worker_main.main`. On the notebook kernel's own path, so that both import the same JAX and inspector."""
    return subprocesses.python(_MAIN, *arguments)


def environ() -> dict[str, str]:
    """The notebook kernel's environment, without what would give a worker other devices or JAX's cache."""
    environ = subprocesses.environ()
    environ["TF_CPP_MIN_LOG_LEVEL"] = (
        "1"  # what XLA warns of belongs to the result, however quiet the notebook kernel is
    )
    environ["JAX_PLATFORMS"] = "cpu"  # never to take an accelerator away from the notebook kernel
    for name in ("JAX_NUM_CPU_DEVICES", "JAX_COMPILATION_CACHE_DIR", "JAX_PLATFORM_NAME"):
        environ.pop(name, None)
    words = environ.get("XLA_FLAGS", "").split()
    environ["XLA_FLAGS"] = " ".join(w for w in words if not w.startswith("--xla_force_host_platform_device_count"))
    return environ
