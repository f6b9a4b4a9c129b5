"""How much memory there is, and how many workers live in it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from inspector.engines.workers import worker_memory
from inspector.engines.workers.worker_memory import most_workers, worker_limits
from inspector.support import machine_memory
from inspector.support.machine_memory import machine_memory as memory

GIB = 1 << 30


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """One of 4 GiB, with a file for what its control group allows."""
    monkeypatch.setattr(os, "sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 1 << 20}.__getitem__, raising=False)
    monkeypatch.setattr(machine_memory, "_GROUPS", (str(tmp_path / "memory.max"),))
    monkeypatch.delenv("MEM_LIMIT", raising=False)
    return tmp_path / "memory.max"


def test_the_least_of_all_limits_counts(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert memory() == (4 * GIB, "the machine's")
    machine.write_text("max\n")
    assert memory() == (4 * GIB, "the machine's")
    machine.write_text(f"{3 * GIB}\n")
    assert memory() == (3 * GIB, "the control group's limit")
    for value in ("nothing", "0", "inf"):
        monkeypatch.setenv("MEM_LIMIT", value)
        assert memory()[0] == 3 * GIB
    monkeypatch.setenv("MEM_LIMIT", str(GIB))
    assert memory() == (GIB, "JupyterHub's MEM_LIMIT")


def test_without_memory_information(monkeypatch: pytest.MonkeyPatch) -> None:
    for error in (ValueError, OSError):
        monkeypatch.setattr(os, "sysconf", lambda _, error=error: (_ for _ in ()).throw(error))
        assert memory() == (0, "")
    monkeypatch.delattr(os, "sysconf")
    assert memory() == (0, "")
    assert worker_limits() == (2 * GIB, 2 * GIB)
    assert most_workers() == 6


@pytest.mark.parametrize(
    ("there", "workers", "limits"),
    [
        (100 * GIB, 6, (25 * GIB, 80 * GIB)),
        (5 * GIB, 6, (2 * GIB, 4 * GIB)),
        (3 * GIB, 6, (3 * GIB // 2, 3 * GIB * 4 // 5)),
        (2 * GIB, 1, (GIB // 2, 2 * GIB * 4 // 5)),
        (GIB, 1, (GIB // 4, GIB * 4 // 5)),
    ],
)
def test_workers_follow_it(there: int, workers: int, limits: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_memory, "machine_memory", lambda: (there, ""))
    assert most_workers() == workers
    assert worker_limits() == limits
