"""The memory that a notebook kernel and its workers may use, and the limits of workers that follow from it."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

_GROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_SMALL_BYTES = 2 << 30
_LARGE_WORKER_BYTES = 2 << 30
_MOST_WORKERS = 6


def machine_memory() -> tuple[int, str]:
    """Returns the least of the machine's memory and its limits, in bytes, and the name of that limit; 0 if unknown.

    JupyterHub, and so Binder, sets `MEM_LIMIT` to the limit of a user's server.
    """
    limits: list[tuple[int, str]] = []
    for path in _GROUPS:
        with contextlib.suppress(OSError, ValueError):  # "max"
            limits.append((int(Path(path).read_text()), "the control group's limit"))
    with contextlib.suppress(KeyError, ValueError, OverflowError):
        limits.append((int(float(os.environ["MEM_LIMIT"])), "JupyterHub's MEM_LIMIT"))
    with contextlib.suppress(OSError, ValueError, AttributeError):
        limits.append((os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), "the machine's"))
    return min((each for each in limits if each[0] > 0), default=(0, ""))


def most_workers() -> int:
    """Returns the number of idle workers: one where there is little memory, because an idle worker takes some 90 MB."""
    return 1 if 0 < machine_memory()[0] <= _SMALL_BYTES else _MOST_WORKERS


def worker_limits() -> tuple[int, int]:
    """Returns the resident bytes above which a worker is replaced after a request, and is stopped during one."""
    memory, _ = machine_memory()
    if not memory:
        return _LARGE_WORKER_BYTES, _LARGE_WORKER_BYTES
    least = 0 if memory <= _SMALL_BYTES else min(_LARGE_WORKER_BYTES, memory // 2)
    return max(least, memory // 4), memory * 4 // 5
