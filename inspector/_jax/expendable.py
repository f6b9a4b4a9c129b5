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
    """When the machine runs out of memory, the system ends this process and not the kernel (Linux)."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def leave_no_core_file() -> None:
    """A core file of XLA is nobody's."""
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def need_less() -> None:
    """What this process survives must fit its parent too: half the stack, and no more memory than there is."""
    if sys.platform != "win32":
        import resource

        stack, most = resource.getrlimit(resource.RLIMIT_STACK)
        resource.setrlimit(
            resource.RLIMIT_STACK, (_MAIN_STACK if stack == resource.RLIM_INFINITY else stack // 2, most)
        )
        with contextlib.suppress(ValueError, OSError):  # not known, or not to be limited, on this system
            memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
            resource.setrlimit(resource.RLIMIT_AS, (max(memory, _LEAST_MEMORY), resource.RLIM_INFINITY))
