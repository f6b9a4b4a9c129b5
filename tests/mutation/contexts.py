"""A plugin of pytest: tells coverage which test runs, and writes down what each took and whether it passed.

What fixtures run belongs to all tests of their file: who reads a shared one need not be who made it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import coverage
import pytest

REPORT = "MUTATION_REPORT"
"""The environment variable that names the file for what the tests took."""

_seconds: dict[str, float] = {}
_failed: set[str] = set()


def pytest_runtest_logstart(nodeid: str) -> None:
    _switch(nodeid.partition("::")[0])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    _switch(function_of(item.nodeid))
    try:
        yield
    finally:
        _switch(item.nodeid.partition("::")[0])


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    for name in (function_of(report.nodeid), report.nodeid.partition("::")[0]):
        _seconds[name] = _seconds.get(name, 0.0) + report.duration
        if report.failed:
            _failed.add(name)


def pytest_sessionfinish() -> None:
    passed = {name: round(took, 3) for name, took in _seconds.items() if name not in _failed}
    Path(os.environ[REPORT]).write_text(json.dumps(passed))


def function_of(nodeid: str) -> str:
    """A test with all its parameters."""
    return nodeid.partition("[")[0]


def _switch(context: str) -> None:
    measuring = coverage.Coverage.current()
    if measuring is not None:
        measuring.switch_context(context)
