"""`python -m tests.libraries [arguments for pytest]`: the tests of this folder, and their table."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

COLUMNS = ("explored", "HLO equal", "run equal")


class Table:
    """A pytest plugin that prints one row a program, and why libraries were skipped."""

    def __init__(self) -> None:
        self.rows: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        found = dict(report.user_properties)
        if report.when == "call" and COLUMNS[0] in found:
            name = report.nodeid.partition("[")[2].removesuffix("]")
            library, _, program = name.partition(": ")
            marks = " | ".join("yes" if not found[column] else "no" for column in COLUMNS)
            self.rows.append(f"| {library} | {program} | {marks} |")
        if report.skipped and isinstance(report.longrepr, tuple):
            self.rows.append(f"| {report.longrepr[2].removeprefix('Skipped: ')} | | | | |")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        import jax

        head = f"Python {sys.version.split()[0]}, JAX {jax.__version__}"
        columns = f"| library | program | {' | '.join(COLUMNS)} |\n|---|---|---|---|---|"
        terminalreporter.write_line("\n".join([head, "", columns, *self.rows]))


if __name__ == "__main__":
    folder = str(Path(__file__).resolve().parent)
    sys.exit(pytest.main(["-m", "libraries", folder, *sys.argv[1:]], plugins=[Table()]))
