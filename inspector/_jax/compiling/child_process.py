"""What a process does that may be lost: it ends with its parent, before its parent, and without a trace."""

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
    """The system kills this process when its parent ends, even in the middle of native code (Linux)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def go_first() -> None:
    """When the machine runs out of memory, the system ends this process and not the notebook kernel (Linux)."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def leave_no_core_file() -> None:
    """A core file of XLA is nobody's."""
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def need_less(memory_bytes: int, cpu_s: int) -> None:
    """What this process survives must fit its parent too: half the stack.

    Args:
      memory_bytes: of addresses, the most that it may take; no more than the machine has in any case.
      cpu_s: of processor time, after which SIGXCPU ends it.
    """
    if sys.platform != "win32":
        import resource

        stack, most = resource.getrlimit(resource.RLIMIT_STACK)
        resource.setrlimit(
            resource.RLIMIT_STACK, (_MAIN_STACK if stack == resource.RLIM_INFINITY else stack // 2, most)
        )
        _limit(resource.RLIMIT_CPU, cpu_s)
        with contextlib.suppress(ValueError, OSError):  # not known on this system
            machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
            memory_bytes = min(memory_bytes, max(machine, _LEAST_MEMORY))
        _limit(resource.RLIMIT_AS, memory_bytes)


def _limit(kind: int, most: int) -> None:
    import resource

    _, allowed = resource.getrlimit(kind)
    with contextlib.suppress(ValueError, OSError):  # not to be limited, on this system
        resource.setrlimit(kind, (most if allowed == resource.RLIM_INFINITY else min(most, allowed), allowed))
