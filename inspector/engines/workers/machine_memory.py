"""How much memory there is for a notebook kernel and its workers, and how workers live where there is little."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

_GROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_SMALL_BYTES = 2 << 30
_LARGE_WORKER_BYTES = 2 << 30
_MOST_WORKERS = 6


def machine_memory() -> tuple[int, str]:
    """The least of what the machine has and what is allowed of it, in bytes, and which it is; 0 where nothing tells.

    JupyterHub, and so Binder, says in `MEM_LIMIT` what a user's server may take.
    """
    found: list[tuple[int, str]] = []
    for path in _GROUPS:
        with contextlib.suppress(OSError, ValueError):  # "max"
            found.append((int(Path(path).read_text()), "the control group's limit"))
    with contextlib.suppress(KeyError, ValueError, OverflowError):
        found.append((int(float(os.environ["MEM_LIMIT"])), "MEM_LIMIT, of JupyterHub"))
    with contextlib.suppress(OSError, ValueError, AttributeError):
        found.append((os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), "the machine's"))
    return min((each for each in found if each[0] > 0), default=(0, ""))


def most_workers() -> int:
    """How many workers wait for requests: one where there is little memory, of which an idle one takes some 90 MB."""
    return 1 if 0 < machine_memory()[0] <= _SMALL_BYTES else _MOST_WORKERS


def worker_limits() -> tuple[int, int]:
    """Resident bytes above which a worker is replaced after a request, and is stopped in the middle of one."""
    memory, _ = machine_memory()
    if not memory:
        return _LARGE_WORKER_BYTES, _LARGE_WORKER_BYTES
    least = 0 if memory <= _SMALL_BYTES else min(_LARGE_WORKER_BYTES, memory // 2)
    return max(least, memory // 4), memory * 4 // 5
