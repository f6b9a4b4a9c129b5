"""Reads the output of a worker process: the fatal line of a process that ended, and the warnings of XLA."""

from __future__ import annotations

import contextlib
import dataclasses
import signal


@dataclasses.dataclass(frozen=True, slots=True)
class Death:
    """The end of a process: its signal or exit code in words, its fatal line, and whether another process ended it."""

    how: str
    fatal: str
    is_from_outside: bool = False

    @classmethod
    def of(cls, status: int | None, log: str) -> Death:
        """Reads an exit code (negative for a signal) and the output of the process."""
        # A process does not send itself such a signal. The exception is a worker above its memory limit, which logs that.
        is_from_outside = status is not None and -status in _FROM_OUTSIDE and MEMORY_LIMIT not in log
        return cls(_describe(status), _fatal_line(log), is_from_outside)


def warnings_in(log: str) -> tuple[str, ...]:
    """The lines of a log that a user should see: XLA's warnings and errors, without time stamps."""
    lines = dict.fromkeys(line for line in map(_message, log.splitlines()) if line and not _is_boring(line))
    lost = [line for line in lines if line.startswith(NOT_WRITTEN)]
    others = tuple(line for line in lines if line not in lost)
    if not lost:
        return others
    more = f" and {len(lost) - 1} more files" if len(lost) > 1 else ""
    return (*others, f"{lost[0]}{more}. Free disk space there, or set TMPDIR to a folder with enough space.")


NOT_WRITTEN = "Could not write XLA debug data"
"""XLA's message for each dump file that it could not write completely."""


MEMORY_LIMIT = "bytes of memory, the limit is"
"""Part of the line that a worker writes before it ends itself because it uses too much memory."""

# Not every system has all of these signals.
_FROM_OUTSIDE = frozenset(
    int(getattr(signal, name))
    for name in ("SIGKILL", "SIGTERM", "SIGHUP", "SIGINT", "SIGQUIT", "SIGXCPU", "SIGUSR1", "SIGUSR2")
    if hasattr(signal, name)
)


# Lines that XLA writes at every start.
_BORING = (
    "All log messages before absl::InitializeLog() is called",
    "cpu_feature_guard",
    "rebuild TensorFlow with the appropriate compiler flags",
    "Unable to register cuDNN factory",
    "Unable to register cuBLAS factory",
    "Unable to register cuFFT factory",
    # Notes of libtpu about its own workings, for its developers.
    "The log function has NOT been set for the LloModule",
    "0-iteration loop inserted",
    "Collective matmul V1 is enabled",
    "even when HloShardingV3 is enabled",
    "Invalid backend config found for instruction",
    "=== Source Location Trace",
    "Compiler may not do what you expect",
    "Unable to dump host DMA stats",
    # It tries algorithms for the devices of a group, and the Collectives pane shows the chosen one.
    "Failed to construct rectangular 2d slice",
    "Failed to build strided 2D slice from devices",
)


def _is_boring(line: str) -> bool:
    is_place = " " not in line and (".cc:" in line or ".h:" in line)  # of a location trace
    return is_place or any(words in line for words in _BORING)


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
    """Returns a line without the prefix of Google's log (`W0101 12:00:00.0 123 file.cc:1] text`); "" for information."""
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
    shown = warnings_in(log)
    return shown[-1] if shown else ""


def _describe(status: int | None) -> str:
    if status is None:
        return "exit code unknown"
    if status < 0:
        with contextlib.suppress(ValueError):
            return f"{signal.Signals(-status).name}"
        return f"signal {-status}"
    return f"exit code {status}"
