"""`run.py`: what it asks uv for, and what it says of the tests that it leaves out."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import run
from tests.conftest import ROOT


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], ["pytest", "-m", run.QUICK]),
        (["-x", "tests/hlo"], ["pytest", "-m", run.QUICK, "-x", "tests/hlo"]),
        (["-m", "browser"], ["pytest", "-m", run.QUICK, "-m", "browser"]),  # pytest takes the last one
        (["--all", "-x"], ["pytest", "-x"]),
    ],
)
def test_what_is_tested(given: list[str], expected: list[str]) -> None:
    arguments = run.uv_arguments("test", given)
    assert arguments[arguments.index("pytest") :] == expected
    assert ("libraries" in arguments) == ("--all" in given)


@pytest.mark.parametrize(("marks", "said"), [(["-m", run.QUICK], True), (["-m", "not slow"], False), ([], False)])
def test_what_was_left_out_is_said(marks: list[str], said: bool) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", *marks, "tests/test_import.py"]
    process = subprocess.run(command, cwd=ROOT, env=dict(os.environ), capture_output=True, text=True, timeout=120)
    assert process.returncode == 0, process.stdout + process.stderr
    assert ("All of them: python3 run.py test --all" in process.stdout) == said
