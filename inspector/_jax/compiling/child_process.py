"""Settings for an expendable process: it ends with its parent, is ended before its parent, and leaves no core file."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_MAIN_STACK = 4 << 20
_LEAST_MEMORY = 4 << 30


def die_with(parent: int) -> None:
    """Makes the system kill this process when its parent ends, even in the middle of native code (Linux)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def go_first() -> None:
    """Makes the system kill this process instead of the notebook kernel if the machine runs out of memory (Linux)."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def leave_no_core_file() -> None:
    """Disables core files: a core file of XLA is of no use to the user."""
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def need_less(memory_bytes: int, cpu_s: int) -> None:
    """Limits the stack, memory and processor time, so that work that succeeds in this process also fits its parent.

    Halves the stack.

    Args:
      memory_bytes: maximum address space in bytes, capped at the memory of the machine.
      cpu_s: maximum processor time in seconds, after which SIGXCPU ends the process.
    """
    if sys.platform != "win32":
        import resource

        stack, most = resource.getrlimit(resource.RLIMIT_STACK)
        resource.setrlimit(
            resource.RLIMIT_STACK, (_MAIN_STACK if stack == resource.RLIM_INFINITY else stack // 2, most)
        )
        _limit(resource.RLIMIT_CPU, cpu_s)
        with contextlib.suppress(ValueError, OSError):  # unknown on this system
            machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
            memory_bytes = min(memory_bytes, max(machine, _LEAST_MEMORY))
        _limit(resource.RLIMIT_AS, memory_bytes)


def _limit(kind: int, most: int) -> None:
    import resource

    _, allowed = resource.getrlimit(kind)
    with contextlib.suppress(ValueError, OSError):  # this system has no such limit
        resource.setrlimit(kind, (most if allowed == resource.RLIM_INFINITY else min(most, allowed), allowed))
