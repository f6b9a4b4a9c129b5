"""A few corrupted files and hostile modules; `python -m tests.fuzz.files` has a thousand."""

from __future__ import annotations

import sys

import pytest

from tests.fuzz import files


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="pipes, devices and alarms")
def test_corrupted_files_and_hostile_modules_are_refused() -> None:
    found, grown = files.fuzz(seed=1, files=60, modules=4, minutes=3)
    assert [outcome for outcome in found if outcome.bad] == [], files.summary(found, grown)
    assert grown < files.MAX_EXTRA_BYTES
    assert {"ok", "ModuleError"} <= {outcome.said for outcome in found}


def test_the_fuzz_detects_errors() -> None:
    def ends() -> None:
        raise KeyError("raw")

    assert files.outcome("k", 0, ends).bad == "raw KeyError: 'raw'"
    assert files.outcome("k", 0, lambda: None).bad == ""
