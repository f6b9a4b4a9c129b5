"""The number and the memory limits of workers, which follow from the memory of the machine."""

from __future__ import annotations

from inspector.support.machine_memory import machine_memory

_SMALL_BYTES = 2 << 30
_LARGE_WORKER_BYTES = 2 << 30
_MOST_WORKERS = 6


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
