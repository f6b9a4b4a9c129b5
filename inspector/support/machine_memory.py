"""The memory that a notebook kernel and its workers may use."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

_GROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


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
