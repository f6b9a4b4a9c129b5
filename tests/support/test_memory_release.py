"""Memory that a process no longer needs goes back to the system."""

from __future__ import annotations

import sys
import textwrap
import threading

import pytest

from inspector.support import memory_release
from tests.conftest import RunPython


@pytest.mark.skipif(sys.platform != "linux", reason="glibc keeps what is free")
def test_free_memory_is_released(one_device_python: RunPython) -> None:
    done = one_device_python(
        textwrap.dedent("""
        from pathlib import Path
        from inspector.support.memory_release import give_back

        def resident():
            return int(Path("/proc/self/statm").read_text().split()[1])

        blocks = [bytearray(4000) for _ in range(50_000)]  # too small for pages of their own
        last = blocks[-1]
        full = resident()
        del blocks
        kept = resident()
        give_back()
        print(full, kept, resident())
        """)
    )
    full, kept, given = map(int, done.stdout.split())
    assert kept - given > (full - 1000) // 4
    assert given < full // 2


def test_memory_that_others_free_later_is_released_then(monkeypatch: pytest.MonkeyPatch) -> None:
    given = threading.Event()
    monkeypatch.setattr(memory_release, "_SOON_S", 0.05)
    monkeypatch.setattr(memory_release, "give_back", given.set)
    memory_release.give_back_soon()
    assert not given.is_set()
    assert given.wait(10)


def test_memory_that_is_needed_again_is_not_released(monkeypatch: pytest.MonkeyPatch) -> None:
    given = threading.Event()
    monkeypatch.setattr(memory_release, "give_back", given.set)
    memory_release.give_back_in(0.1).cancel()
    assert not given.wait(0.3)
