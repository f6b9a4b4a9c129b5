"""What a process that ended, or still works, wrote for users to read: its fatal line, XLA's warnings."""

from __future__ import annotations

import contextlib
import dataclasses
import signal


@dataclasses.dataclass(frozen=True, slots=True)
class Death:
    """How a process ended: its signal or exit code in words, its last words, and whether it was none of its doing."""

    how: str
    fatal: str
    is_from_outside: bool = False

    @classmethod
    def of(cls, status: int | None, log: str) -> Death:
        """From an exit code (negative for a signal) and what the process wrote."""
        # No process sends itself such a signal, but for a worker over its limit, which says so.
        is_from_outside = status is not None and -status in _FROM_OUTSIDE and MEMORY_LIMIT not in log
        return cls(_describe(status), _fatal_line(log), is_from_outside)


def warnings_in(log: str) -> tuple[str, ...]:
    """The lines of a log that a user should see: XLA's warnings and errors, without time stamps."""
    said = dict.fromkeys(line for line in map(_message, log.splitlines()) if line and not _is_boring(line))
    lost = [line for line in said if line.startswith(NOT_WRITTEN)]
    others = tuple(line for line in said if line not in lost)
    if not lost:
        return others
    more = f" and {len(lost) - 1} more files" if len(lost) > 1 else ""
    return (*others, f"{lost[0]}{more}. Free space there, or set TMPDIR to a folder that has space.")


NOT_WRITTEN = "Could not write XLA debug data"
"""XLA's message for each file of a dump that it could not write whole."""


MEMORY_LIMIT = "bytes of memory, the limit is"
"""What a worker writes that ends itself because it has grown too large."""

# Not every system has all of them.
_FROM_OUTSIDE = frozenset(
    int(getattr(signal, name))
    for name in ("SIGKILL", "SIGTERM", "SIGHUP", "SIGINT", "SIGQUIT", "SIGXCPU", "SIGUSR1", "SIGUSR2")
    if hasattr(signal, name)
)


# What every start of XLA writes.
_BORING = (
    "All log messages before absl::InitializeLog() is called",
    "cpu_feature_guard",
    "rebuild TensorFlow with the appropriate compiler flags",
    "Unable to register cuDNN factory",
    "Unable to register cuBLAS factory",
    "Unable to register cuFFT factory",
    # What libtpu notes of its own workings, for whoever works on it.
    "The log function has NOT been set for the LloModule",
    "0-iteration loop inserted",
    "Collective matmul V1 is enabled",
    "even when HloShardingV3 is enabled",
    "Invalid backend config found for instruction",
    "=== Source Location Trace",
    "Compiler may not do what you expect",
    "Unable to dump host DMA stats",
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
