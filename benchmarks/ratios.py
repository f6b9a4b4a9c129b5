"""The file of ratios by commit and JAX version: what was measured of each commit that somebody recorded.

A line is one figure of one run; of several runs of a commit the median counts, as a ratio is disturbed both ways, by
what goes on beside the one and the other. Commits are in the order in which they were first recorded.
"""

from __future__ import annotations

import csv
import dataclasses
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.measuring import Figure

PATH = Path(__file__).with_name("ratios.csv")
Key = tuple[str, str, str, str]
"""Benchmark, workload, figure and what it is held to."""
UNCOMMITTED = "+"
"""Ends the name of a commit with changes that are not committed."""


@dataclasses.dataclass(frozen=True)
class Line:
    """One figure of one run.

    Attributes:
      commit: its short hash, with `UNCOMMITTED` behind it where there were changes.
      jax: the version of JAX.
      day: of the run, as 2026-11-22.
      cores: of the machine.
      load: of the machine when the benchmark began, averaged over a minute.
      benchmark: the module that measured.
      workload, figure, over, value: as of `Figure`.
    """

    commit: str
    jax: str
    day: str
    cores: int
    load: float
    benchmark: str
    workload: str
    figure: str
    over: str
    value: float

    @property
    def key(self) -> Key:
        """What the line is of, at any commit."""
        return self.benchmark, self.workload, self.figure, self.over


FIELDS = tuple(field.name for field in dataclasses.fields(Line))


def read(path: Path) -> list[Line]:
    """All lines; none where there is no file yet.

    Raises:
      ValueError: a line that is none, such as one that a merge left.
    """
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        rows = csv.reader(file)
        if tuple(next(rows, ())) != FIELDS:
            raise ValueError(f"{path}: expected the columns {', '.join(FIELDS)} in its first line")
        return [_line(row, f"{path}, line {rows.line_num}") for row in rows]


def _line(row: Sequence[str], where: str) -> Line:
    if len(row) != len(FIELDS):
        raise ValueError(f"{where}: got {len(row)} cells, expected {len(FIELDS)}: {', '.join(row)}")
    commit, jax, day, cores, load, benchmark, workload, name, over, value = row
    try:
        figure = Figure(workload, name, over, float(value))
        return Line(commit, jax, day, int(cores), float(load), benchmark, workload, name, over, figure.value)
    except ValueError as e:
        raise ValueError(f"{where}: {e}") from e


def add(lines: Iterable[Line], path: Path) -> None:
    """Writes the file with further lines.

    Those of a commit with changes take the place of its earlier ones of the same benchmark and JAX version, which were
    measured with other changes.
    """
    added = list(lines)
    stale = {_run(line) for line in added if line.commit.endswith(UNCOMMITTED)}
    kept = [line for line in read(path) if _run(line) not in stale]
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(FIELDS)
        rows.writerows([*dataclasses.astuple(line)[:-1], f"{line.value:.4g}"] for line in (*kept, *added))


def _run(line: Line) -> tuple[str, str, str]:
    return line.commit, line.jax, line.benchmark


def commits(lines: Iterable[Line]) -> list[str]:
    """In the order in which they were first recorded."""
    return list(dict.fromkeys(line.commit for line in lines))


def medians(lines: Iterable[Line], commit: str, jax: str) -> dict[Key, float]:
    """The values of one commit and JAX version, by what they are of."""
    found: dict[Key, list[float]] = {}
    for line in lines:
        if (line.commit, line.jax) == (commit, jax):
            found.setdefault(line.key, []).append(line.value)
    return {key: statistics.median(values) for key, values in found.items()}
