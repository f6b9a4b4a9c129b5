"""`Profile`: the measured time of a program's instructions."""

from __future__ import annotations

import collections
import dataclasses
import statistics
from collections.abc import Mapping
from typing import TYPE_CHECKING

from inspector.analysis.profile.columns import PROFILE_COLUMNS, PROFILE_GROUP_COLUMNS, SharedRow
from inspector.analysis.profile.plot import profile_plot
from inspector.analysis.profile.rows import GroupedBy, ProfileGroup, ProfileRow, grouped, spread
from inspector.errors import Unavailable
from inspector.support.notebook import described, with_hint
from inspector.support.units import counted, format_seconds

if TYPE_CHECKING:
    import pandas as pd

    from inspector.analysis.figures import Picture

NOT_RUN = Unavailable(
    "the profile was recorded elsewhere, without wall-clock times", "Compiled.profile(*inputs) measures them"
)


@dataclasses.dataclass(frozen=True, slots=True)
class WallTimes:
    """Wall-clock durations of executions, from the call until the outputs are ready.

    Attributes:
      profiled_s: duration of each execution under the profiler, in seconds.
      plain_s: duration of each execution without it, in seconds, measured before and after the profiled ones.
    """

    profiled_s: tuple[float, ...]
    plain_s: tuple[float, ...]

    @property
    def median_s(self) -> float:
        """Median duration under the profiler, in seconds."""
        return statistics.median(self.profiled_s)

    @property
    def spread_s(self) -> float:
        """Interquartile range of the durations under the profiler, in seconds."""
        return spread(self.profiled_s)

    @property
    def overhead(self) -> float:
        """Median duration with the profiler divided by the median without it."""
        return self.median_s / statistics.median(self.plain_s)


@dataclasses.dataclass(frozen=True, slots=True)
class Profile:
    """The measured time of a program's instructions.

    Attributes:
      program: name of the program.
      devices: devices that ran it, such as ("GPU:0", "GPU:1").
      rows: instructions on each device, and other work, those with the most time first.
      executions: number of measured executions; Unavailable if the profile does not show it.
      wall: wall-clock durations with and without the profiler; Unavailable for a profile from elsewhere.
      busy_s: for each device, the time in which at least one event ran, in seconds.
      notes: explanations for the reader, such as about parallel threads.
    """

    program: str
    devices: tuple[str, ...]
    rows: tuple[ProfileRow, ...]
    executions: int | Unavailable
    wall: WallTimes | Unavailable
    busy_s: tuple[float, ...]
    notes: tuple[str, ...] = ()

    @property
    def total_s(self) -> float:
        """Sum of the measured times of all rows in seconds: all executions on all devices."""
        return sum(row.total_s for row in self.rows)

    @property
    def other_s(self) -> float:
        """The part of `total_s` that belongs to no instruction, in seconds."""
        return sum(row.total_s for row in self.rows if not row.opcode)

    @property
    def wall_s(self) -> float | Unavailable:
        """Median wall-clock duration of an execution under the profiler, in seconds."""
        return self.wall if isinstance(self.wall, Unavailable) else self.wall.median_s

    @property
    def execution_times(self) -> Mapping[str, float]:
        """Mean time of each instruction in one execution on one device, in seconds, by name.

        Empty if the number of executions is unknown.
        """
        times: dict[str, float] = collections.defaultdict(float)
        for (name, _), seconds in self.execution_parts.items():
            if name:
                times[name] += seconds
        return dict(times)

    @property
    def execution_parts(self) -> Mapping[tuple[str, str], float]:
        """Parts of the times in `execution_times`, in seconds, by the instruction and by the fused instruction that causes them.

        The fused instruction is "" if it is unknown. Work that belongs to no instruction is at ("", ""). Empty if the number
        of executions is unknown.
        """
        times: dict[tuple[str, str], float] = collections.defaultdict(float)
        if isinstance(self.executions, Unavailable) or not self.executions or not self.devices:
            return times
        for row in self.rows:
            name = row.name if row.opcode else ""
            for inside, seconds in [(part.instruction, s) for part, s in row.shares] or [("", row.total_s)]:
                times[name, inside] += seconds / (self.executions * len(self.devices))
        return times

    def table(self) -> pd.DataFrame:
        """Returns a table with one row per instruction and device, those with the most time first.

        Columns:
          name, opcode, computation: of the instruction. Work that belongs to no instruction has the profiler's name and the
            opcode "no instruction".
          calls: number of measured events.
          total_s: sum over all executions in seconds. A loop, call or conditional has the time in which none of its
            instructions ran, so the column adds up to `Profile.total_s`.
          mean_s, min_s, max_s: of one event.
          share: share of the sum of all rows.
          device: the device.
          source_file, source_line, scope, phase: for a fusion, of the instructions in it that cause most of its time.
          estimated_s: estimated time of one execution of the program, by the roofline model.
          run_s, spread_s: median and interquartile range over executions, of the time in one execution.
          library_line: the library line that the user's line led to.
          unknown: reasons why numbers are missing or incomplete.
        """
        whole = self.total_s
        return PROFILE_COLUMNS.data_frame(SharedRow(row, row.total_s / whole if whole else 0.0) for row in self.rows)

    def groups(self, by: GroupedBy) -> tuple[ProfileGroup, ...]:
        """Returns the times summed by a common property, the largest first.

        Args:
          by: "line", "scope", "opcode", "phase" or "kernel". The time of a fusion is split over the lines, scopes and phases
            of the instructions fused into it, as its estimated cost is. This split is a model, not a measurement.

        Raises:
          ParameterError: `by` is something else.
        """
        return grouped(self.rows, by)

    def by(self, by: GroupedBy) -> pd.DataFrame:
        """Returns `groups` as a table with one row per group.

        Columns:
          name: the common property; missing if unknown.
          kernels: number of instructions.
          calls, total_s: as in `table`, summed.
          share: share of the measured time.

        Args:
          by: "line", "scope", "opcode", "phase" or "kernel".
        """
        return PROFILE_GROUP_COLUMNS.data_frame(self.groups(by))

    def plot(self) -> Picture:
        """Plots the kernels with the most time, with their estimated times."""
        return profile_plot(self.heading, self.groups("kernel"), self.executions, len(self.devices))

    @property
    def heading(self) -> str:
        """Program, devices, executions, time in kernels and wall time, as one line of text."""
        where = self.devices[0] if len(self.devices) == 1 else counted(len(self.devices), "device")
        if isinstance(self.executions, Unavailable):
            text = f"{format_seconds(self.total_s)} in kernels"
        else:
            each = self.total_s / max(1, self.executions * len(self.devices))
            on = " and device" if len(self.devices) > 1 else ""
            text = f"{counted(self.executions, 'execution')}, {format_seconds(each)} in kernels per execution{on}"
        if not isinstance(self.wall, Unavailable):
            text += f", {format_seconds(self.wall.median_s)} wall time ({self.wall.overhead:.2f} times that without profiler)"
        return f"{self.program} on {where}: {text}"

    def __repr__(self) -> str:
        slowest = self.groups("kernel")[:1]
        text = "".join(f"; most in {group.name} ({100 * group.share:.0f} %)" for group in slowest)
        return with_hint(f"<Profile of {self.heading}{text}>", ".table(), .by('line'), .plot(), .notes")

    def _repr_html_(self) -> str:
        facts = {f"note {n}": note for n, note in enumerate(self.notes, 1)}
        return described(repr(self), facts, self.table())
