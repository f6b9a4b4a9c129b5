"""What a worker is told before it starts."""

from __future__ import annotations

import os
from typing import Any, cast

import pytest

from inspector.engines import worker_lane
from inspector.engines.environment import Environment
from inspector.engines.fork_server import Starter
from inspector.engines.worker_lane import WorkerLane, WorkerSettings

GIB = 1 << 30
HERE = Environment("cpu", 8)


def limits_of(settings: WorkerSettings) -> tuple[int, int]:
    message: Any = WorkerLane(HERE, cast(Starter, None), settings)._message
    return message["memory_limit_bytes"], message["max_memory_bytes"]


@pytest.mark.parametrize(
    ("memory", "limits"),
    [
        (100 * GIB, (25 * GIB, 80 * GIB)),
        (5 * GIB, (2 * GIB, 4 * GIB)),
        (GIB, (2 * GIB, 2 * GIB)),
        (0, (2 * GIB, 2 * GIB)),
    ],
)
def test_limits_of_memory_follow_the_machine(
    memory: int, limits: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_lane, "_memory_bytes", lambda: memory)
    assert limits_of(WorkerSettings()) == limits
    assert limits_of(WorkerSettings(memory_limit_bytes=7)) == (7, limits[1])
    assert limits_of(WorkerSettings(max_memory_bytes=9)) == (limits[0], 9)


def test_the_machines_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 1000}.__getitem__)
    assert worker_lane._memory_bytes() == 4_096_000
    for error in (ValueError, OSError):
        monkeypatch.setattr(os, "sysconf", lambda _, error=error: (_ for _ in ()).throw(error))
        assert worker_lane._memory_bytes() == 0
    monkeypatch.delattr(os, "sysconf")
    assert worker_lane._memory_bytes() == 0
