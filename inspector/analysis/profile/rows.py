"""`ProfileRow`: the measured time of one instruction on one device; and sums of rows, `ProfileGroup`."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, get_args

from inspector.analysis.cost.attribution import Part
from inspector.errors import ParameterError, Unavailable
from inspector.hlo.source import NOWHERE, Frame, Origin
from inspector.support.notebook import short

GroupedBy = Literal["line", "scope", "opcode", "phase", "kernel"]
"""The property by which measured times are summed."""

OTHER_WORK = "no instruction"
"""The opcode column of work that belongs to no instruction, such as a copy by the runtime."""


@dataclasses.dataclass(frozen=True, slots=True)
class ProfileRow:
    """The measured time of an instruction on a device, or of work that belongs to no instruction.

    Attributes:
      name: name of the instruction, or the profiler's name of the work.
      opcode: opcode of the instruction; "" for work that belongs to no instruction.
      computation: name of its computation; "" if unknown.
      device: the device, such as "GPU:0".
      calls: number of events: an instruction may launch several kernels or run in a loop.
      total_s: sum over all events in seconds, without the instructions that it calls.
      min_s, max_s: shortest and longest event, in seconds.
      runs_s: sum in each execution of the program, in seconds; Unavailable if events cannot be assigned to executions.
      estimated_s: estimated time of one execution of the program (`analysis/cost/roofline.py`).
      parts: shares of its time by origin, largest first; () for work that belongs to no instruction.
    """

    name: str
    opcode: str
    computation: str
    device: str
    calls: int
    total_s: float
    min_s: float
    max_s: float
    runs_s: tuple[float, ...] | Unavailable
    estimated_s: float | Unavailable
    parts: tuple[Part, ...] = ()

    @property
    def mean_s(self) -> float:
        """Mean time of an event, in seconds."""
        return self.total_s / self.calls

    @property
    def run_s(self) -> float | Unavailable:
        """Median time per execution of the program, in seconds."""
        return self.runs_s if isinstance(self.runs_s, Unavailable) else statistics.median(self.runs_s)

    @property
    def spread_s(self) -> float | Unavailable:
        """Interquartile range of the time per execution, in seconds; 0 for a single execution."""
        return self.runs_s if isinstance(self.runs_s, Unavailable) else spread(self.runs_s)

    @property
    def origin(self) -> Origin:
        """Origin of the instructions that cause most of its time."""
        return self.parts[0].origin if self.parts else NOWHERE

    @property
    def line(self) -> Frame | None:
        """Innermost line of the user's own code at that origin."""
        return self.origin.line

    @property
    def scope(self) -> str:
        """JAX's name stack without the primitive; "" if unknown."""
        return self.origin.scope

    @property
    def phase(self) -> str | None:
        """Phase in a differentiated program; None if unknown."""
        return self.parts[0].phase if self.parts else None

    @property
    def shares(self) -> tuple[tuple[Part, float], ...]:
        """Seconds of `total_s` that each part causes; () if its parts are unknown."""
        return tuple((part, self.total_s * part.least_s) for part in self.parts if part.least_s)


@dataclasses.dataclass(frozen=True, slots=True)
class ProfileGroup:
    """Measured times with a common property.

    Attributes:
      name: the common property; None if unknown.
      rows: the rows that have a share in it, those with the most time first.
      total_s: sum over all executions and devices in seconds; of a fusion, its part in this group.
      share: share of the time of the whole profile.
      frames: for a line, call stack of the part with the most time; () otherwise.
    """

    name: str | None
    rows: tuple[ProfileRow, ...]
    total_s: float
    share: float
    frames: tuple[Frame, ...] = ()

    @property
    def kernels(self) -> int:
        """Number of distinct instructions, or kinds of other work."""
        return len({row.name for row in self.rows})

    @property
    def calls(self) -> int:
        """Number of events of these rows."""
        return sum(row.calls for row in self.rows)


def spread(values: Sequence[float]) -> float:
    """Returns the interquartile range; 0 for a single value."""
    if len(values) < 2:
        return 0.0
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return high - low


def grouped(rows: Iterable[ProfileRow], by: GroupedBy) -> tuple[ProfileGroup, ...]:
    """Returns the sums of rows by a property, the largest first.

    Raises:
      ParameterError: an unknown property.
    """
    if by not in get_args(GroupedBy):
        raise ParameterError(f"Cannot sum a profile by {short(by)}; expected one of {', '.join(get_args(GroupedBy))}.")
    found: dict[str | None, list[tuple[float, ProfileRow, Origin]]] = {}
    for row in rows:
        for name, seconds, origin in _shares(row, by):
            found.setdefault(name, []).append((seconds, row, origin))
    spent = {name: sum(seconds for seconds, _, _ in each) for name, each in found.items()}
    whole = sum(spent.values())
    groups = []
    for name, each in found.items():
        largest = sorted(each, key=lambda entry: -entry[0])
        frames = largest[0][2].frames if by == "line" else ()
        members = tuple(dict.fromkeys(row for _, row, _ in largest))
        groups.append(ProfileGroup(name, members, spent[name], spent[name] / whole if whole else 0.0, frames))
    return tuple(sorted(groups, key=lambda group: -group.total_s))


def _shares(row: ProfileRow, by: GroupedBy) -> Iterator[tuple[str | None, float, Origin]]:
    if by == "kernel":
        yield row.name, row.total_s, row.origin
    elif by == "opcode" or not row.parts:
        yield (row.opcode or OTHER_WORK) if by == "opcode" else None, row.total_s, row.origin
    else:
        for part, seconds in row.shares:
            yield _NAMES[by](part), seconds, part.origin


def _line(part: Part) -> str | None:
    line = part.origin.line
    return f"{line.file}:{line.line}" if line else None


_NAMES: Mapping[str, Callable[[Part], str | None]] = {
    "line": _line,
    "scope": lambda part: part.origin.scope or None,
    "phase": lambda part: part.phase,
}
