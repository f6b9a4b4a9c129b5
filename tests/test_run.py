"""`run.py`: what it asks uv for, and what it says of the tests that it leaves out."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import run
from tests.conftest import pytest_terminal_summary


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], ["pytest", "-m", run.QUICK, *run.IN_TWO]),
        (["-x", "tests/hlo"], ["pytest", "-m", run.QUICK, *run.IN_TWO, "-x", "tests/hlo"]),
        (["-m", "browser"], ["pytest", "-m", "browser"]),  # one browser is enough
        (["--all", "-x"], ["pytest", "-x"]),
    ],
)
def test_arguments_of_the_test_command(given: list[str], expected: list[str]) -> None:
    arguments = run.uv_arguments("test", given)
    assert arguments[arguments.index("pytest") :] == expected
    assert ("libraries" in arguments) == ("--all" in given)


@pytest.mark.parametrize(("marks", "said"), [(run.QUICK, True), ("not slow", False), ("", False)])
def test_omitted_tests_are_reported(marks: str, said: bool) -> None:
    lines: list[str] = []
    reporter = SimpleNamespace(write_line=lines.append)
    pytest_terminal_summary(reporter, SimpleNamespace(getoption={"markexpr": marks}.get))  # type: ignore[arg-type]
    assert any("All of them: python3 run.py test --all" in line for line in lines) == said
