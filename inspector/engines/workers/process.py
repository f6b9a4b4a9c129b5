"""Worker processes from the notebook kernel's side: the `Process` contract, and processes in a fresh interpreter.

Handles processes, streams and logs, and must know nothing of requests. Used on the lanes' threads (`worker_lane.py`);
`Process.kill` may be called from any thread.
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
    """A process could not be started. The message contains the reason and the output of the process."""


class ServerLostError(StartError):
    """The fork server ended meanwhile. Another one can be started."""


class StartTimeoutError(StartError):
    """A process did not start within the time limit of its request."""


class Process(Protocol):
    """A worker process, from its start to its end."""

    pid: int

    def alive(self) -> bool:
        """Reports whether the process can take a message. False after `kill`."""
        ...

    def send(self, header: Mapping[str, Any], blobs: Sequence[Blob]) -> None:
        """Sends a message. Raises OSError when the process has ended."""
        ...

    def receive(self) -> tuple[dict[str, Any], list[bytes]]:
        """Waits for a message. Raises EOFError or OSError when the process has ended, WireError for malformed data."""
        ...

    def kill(self) -> None:
        """Ends the process at once. May be called from any thread and repeatedly."""
        ...

    def close(self) -> int | None:
        """Ends the process and frees its resources. Returns its exit code: negative for a signal, None if unknown."""
        ...

    def went_with_server(self) -> bool:
        """Reports, after `close`, whether the process ended because its fork server did."""
        ...

    def read_log(self) -> str:
        """Returns the output to stdout and stderr since the last call."""
        ...


class Log:
    """A file without a name that receives a process's output. The notebook kernel can read it after the process ended."""

    def __init__(self) -> None:
        """Creates the file.

        Raises:
          StartError: no temporary file can be created.
        """
        try:
            self.file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  lives as long as the process
        except OSError as e:
            raise StartError(
                f"Could not create a temporary file for a worker's output: {e}. Set TMPDIR to a folder with enough space."
            ) from e
        self._offset = 0
        self._rest = ""

    def close(self) -> None:
        """Closes the file. The unread rest can still be read."""
        if not self.file.closed:
            self._rest = self.read()
            self.file.close()

    def read(self) -> str:
        """Returns the new output; of a very long one, the last part."""
        if self.file.closed:
            rest, self._rest = self._rest, ""
            return rest
        if not hasattr(os, "pread"):  # without it, reading would move the position at which the process writes
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
        if self._popen.poll() is None:
            self._popen.kill()
            subprocesses.kill_group(self.pid)  # compilers that it has started, such as ptxas

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
    """Starts a worker in a fresh interpreter.

    Args:
        environment: the environment of the worker, as JSON values.
        limit_s: time limit of the start, in seconds.

    Raises:
        StartTimeoutError: the start took longer.
        StartError: the worker did not start.
    """
    try:
        process = _Spawned(environment)
    except OSError as e:
        raise StartError(str(of_resources(e, "starting a worker") or f"Could not start a worker process: {e}.")) from e
    return await_ready(process, limit_s)


def await_ready(process: Process, limit_s: float) -> Process:
    """Waits until a process is ready for requests, and returns it.

    Args:
        process: a started process.
        limit_s: time limit in seconds, after which the process is killed.

    Raises:
        StartTimeoutError: it took longer.
        ServerLostError: its fork server ended, and with it the process.
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
            raise StartTimeoutError(f"A worker process did not start within {limit_s:.3g} s.") from e
        death = Death.of(status, process.read_log())
        raise (ServerLostError if process.went_with_server() else StartError)(
            f"A worker process ended during its start ({death.how}): {death.fatal.rstrip('.') or 'it had no output'}."
        ) from e
    finally:
        timer.cancel()
    if header.get("reply") != "ready":
        process.close()
        raise StartError(f"A worker process could not start: {header.get('text', header)}")
    process.read_log()  # XLA's output at its start does not belong to a request
    return process


def command(*arguments: str) -> list[str]:
    """Returns the command that starts `worker_main.main`, with the kernel's `sys.path` for the same JAX and inspector."""
    return subprocesses.python(_MAIN, *arguments)


def environ() -> dict[str, str]:
    """Returns the notebook kernel's environment without variables that would give a worker other devices or JAX's cache."""
    environ = subprocesses.environ()
    environ["TF_CPP_MIN_LOG_LEVEL"] = "1"  # XLA's warnings are part of the result, whatever the notebook kernel has set
    environ["JAX_PLATFORMS"] = "cpu"  # a worker must not take an accelerator away from the notebook kernel
    for name in ("JAX_NUM_CPU_DEVICES", "JAX_COMPILATION_CACHE_DIR", "JAX_PLATFORM_NAME"):
        environ.pop(name, None)
    words = environ.get("XLA_FLAGS", "").split()
    environ["XLA_FLAGS"] = " ".join(w for w in words if not w.startswith("--xla_force_host_platform_device_count"))
    return environ
