"""The description of an ended process, and the excerpt of its log."""

from __future__ import annotations

import pytest

from inspector.engines.workers.process_output import Death

CHECK = "F0101 12:00:00.0 1 pass.cc:7] Check failed: no"
WARNING = "W0101 12:00:00.0 1 a.cc:1] some warning"


@pytest.mark.parametrize(
    ("status", "log", "outside"),
    [
        (-9, "", True),
        (-9, WARNING, True),
        (-9, CHECK, True),
        (-15, "", True),
        (-9, "Fatal: 5 bytes of memory, the limit is 4", False),
        (-6, "", False),
        (-11, "", False),
        (1, "", False),
        (9, "", False),
        (None, "", False),
    ],
)
def test_the_cause_of_the_end_of_a_process(status: int | None, log: str, outside: bool) -> None:
    assert Death.of(status, log).is_from_outside is outside


@pytest.mark.parametrize(
    ("status", "how"),
    [(-9, "SIGKILL"), (-11, "SIGSEGV"), (-99, "signal 99"), (3, "exit code 3"), (0, "exit code 0"), (None, "exit code unknown")],
)  # fmt: skip
def test_how_it_ended(status: int | None, how: str) -> None:
    assert Death.of(status, "").how == how


@pytest.mark.parametrize(
    ("log", "fatal"),
    [
        (f"LLVM ERROR: out of registers\n{WARNING}\n{CHECK}\n", "Check failed: no (pass.cc:7)"),
        (f"{WARNING}\n\nLLVM ERROR: out of registers\nlater\n", "LLVM ERROR: out of registers"),
        (f"first\n{WARNING}\n", "some warning (a.cc:1)"),
        ("I0101 12:00:00.0 1 a.cc:1] all is well\n", ""),
        ("\n", ""),
    ],
)
@pytest.mark.parametrize("status", [-6, -9])
def test_its_last_words_are_the_fatal_line(status: int, log: str, fatal: str) -> None:
    """The log's own line, before what only sounds like one, before the last warning; whatever signal ended it."""
    assert Death.of(status, log).fatal == fatal
