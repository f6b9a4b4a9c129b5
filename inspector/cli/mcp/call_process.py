"""Runs a tool call in a separate process with limits of time, memory and output.

A call imports and traces the user's code, which may crash, print, never end or use all memory. The server only waits.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import ByteReceiveStream, Process

from inspector.support import subprocesses
from inspector.support.units import format_bytes

_MAIN = "from inspector.cli.mcp.called_command import main; main()"

_REPLY_BYTES = 4 << 20  # more than any answer, whose characters are limited
_STDERR_BYTES = 64 << 10
_POLL_S = 0.05
_MEMORY_POLL_S = 0.5
_PROGRESS_S = 1.0
_GRACE_S = 2.0  # after the reply, for compiled programs to be cached

Progress = Callable[[float, str], Awaitable[None]]
"""Reports the elapsed seconds and the last line of stderr."""


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a call.

    Attributes:
      time_s: seconds until the call is stopped.
      memory_bytes: resident memory of its processes, in bytes, above which it is stopped (Linux).
    """

    time_s: float
    memory_bytes: int


@dataclasses.dataclass(frozen=True, slots=True)
class Reply:
    """The end of a call.

    Attributes:
      result: `answer` and `left_out` of `page_of`, or `error`.
      stderr: the last output to stderr: notes, warnings and prints of the user's code.
    """

    result: dict[str, Any]
    stderr: str


async def call(request: Mapping[str, Any], folder: Path, limits: Limits, progress: Progress) -> Reply:
    """Runs `called_command` until it has replied, ended or exceeded a limit. If the caller is canceled, its processes are killed.

    Args:
      request: the request, as JSON values.
      folder: the current folder of the process.
      limits: the limits.
      progress: called about once a second.
    """
    process = await anyio.open_process(
        subprocesses.python(_MAIN), cwd=folder, env=subprocesses.environ(), start_new_session=os.name == "posix"
    )
    family = Family(process.pid)
    output, errors = _Output(_REPLY_BYTES), _Output(_STDERR_BYTES, keeps_end=True)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(output.read, process.stdout)
            tasks.start_soon(errors.read, process.stderr)
            # stdin stays open: its end tells the process that the server has ended.
            with contextlib.suppress(anyio.BrokenResourceError, OSError):
                assert process.stdin is not None
                await process.stdin.send(json.dumps(request).encode() + b"\n")
            stopped = await _watched(process, family, limits, output, errors, progress)
            if not stopped:
                await _ended(process, _GRACE_S)
            family.kill()
            await _ended(process, _GRACE_S)
            tasks.cancel_scope.cancel()
        return Reply(_result(bytes(output.data), stopped, process.returncode), errors.text())
    finally:
        family.kill()
        with anyio.CancelScope(shield=True), anyio.move_on_after(_GRACE_S):
            await process.aclose()


class _Output:
    """The output of a process: its beginning or its end, up to a size. The rest is read and dropped."""

    def __init__(self, most_bytes: int, *, keeps_end: bool = False) -> None:
        self.data = bytearray()
        self._most, self._keeps_end = most_bytes, keeps_end

    async def read(self, stream: ByteReceiveStream | None) -> None:
        assert stream is not None
        with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            async for chunk in stream:
                self.data += chunk
                if self._keeps_end:
                    del self.data[: -self._most]
                else:
                    del self.data[self._most :]

    @property
    def is_complete(self) -> bool:
        return self.data.endswith(b"\n")

    def text(self) -> str:
        return self.data.decode(errors="replace").strip()


async def _watched(
    process: Process, family: Family, limits: Limits, output: _Output, errors: _Output, progress: Progress
) -> str:
    """Waits for the reply or the end of the process; returns the limit that it exceeded, "" for none."""
    started = time.monotonic()
    looked = told = started
    while process.returncode is None and not output.is_complete:
        await anyio.sleep(_POLL_S)
        now = time.monotonic()
        if now - started > limits.time_s:
            return (
                f"It was stopped after {limits.time_s:g} s. Give a smaller program or fewer kinds, or start the server with a"
                " longer --time-limit."
            )
        if now - looked > _MEMORY_POLL_S:
            looked = now
            if limits.memory_bytes and (used := family.resident_bytes()) > limits.memory_bytes:
                return (
                    f"It was stopped because its processes used {format_bytes(used)} of memory, and the limit is"
                    f" {format_bytes(limits.memory_bytes)}. Give smaller arguments (shapes such as f32[32,64] need no memory),"
                    " or start the server with a higher --memory-limit."
                )
        if now - told > _PROGRESS_S:
            told = now
            await progress(now - started, errors.text().rpartition("\n")[2][-200:])
    return ""


async def _ended(process: Process, limit_s: float) -> None:
    """Waits until a process has ended, for some seconds at most."""
    until = time.monotonic() + limit_s
    # `Process.wait` also waits until its pipes are closed, which other processes may hold.
    while process.returncode is None and time.monotonic() < until:
        await anyio.sleep(_POLL_S)


def _result(output: bytes, stopped: str, status: int | None) -> dict[str, Any]:
    if stopped:
        return {"error": stopped}
    try:
        result = json.loads(output)
    except ValueError:
        return {"error": f"The process that ran it {_how(status)} without an answer. Its last output is below."}
    return (
        result
        if isinstance(result, dict)
        else {"error": "The process that ran it gave an answer that is not an object."}
    )


def _how(status: int | None) -> str:
    if status is None:
        return "was stopped"
    if status >= 0:
        return f"ended with exit status {status}"
    names = {int(number): number.name for number in signal.Signals}
    return f"was killed by {names.get(-status, f'signal {-status}')}"


class Family:
    """A process with all processes that it started, also in other sessions (Linux; elsewhere those of its group)."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._members: dict[int, str] = {}  # start times, because numbers are used again

    def resident_bytes(self) -> int:
        """Returns the resident memory of its processes, in bytes; 0 if unknown."""
        self._look()
        page = os.sysconf("SC_PAGE_SIZE") if self._members else 0
        pages = 0
        for pid in self._members:
            with contextlib.suppress(OSError, ValueError, IndexError):
                pages += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        return pages * page

    def kill(self) -> None:
        """Kills the processes."""
        self._look()
        for pid in self._members:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL)
        if sys.platform != "win32":
            with contextlib.suppress(OSError):
                os.killpg(self._pid, signal.SIGKILL)

    def _look(self) -> None:
        """Adds new members, and drops those that have ended."""
        parents: dict[int, tuple[int, str]] = {}
        for path in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError, ValueError, IndexError):
                fields = path.read_text(errors="replace").rpartition(")")[2].split()
                parents[int(path.parent.name)] = int(fields[1]), fields[19]
        known = {pid: start for pid, start in self._members.items() if parents.get(pid, (0, ""))[1] == start}
        if self._pid in parents:
            known.setdefault(self._pid, parents[self._pid][1])
        grown = True
        while grown:
            added = {pid: start for pid, (parent, start) in parents.items() if parent in known and pid not in known}
            known |= added
            grown = bool(added)
        self._members = known
