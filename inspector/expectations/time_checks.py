"""Checks of measured time, from a profile."""

from __future__ import annotations

import difflib

from inspector.analysis.profile.columns import PROFILE_COLUMNS, SharedRow
from inspector.analysis.profile.profile import Profile
from inspector.errors import ParameterError, Unavailable
from inspector.expectations.check_result import CheckResult, TableLine
from inspector.expectations.limits import Limit
from inspector.support.notebook import short
from inspector.support.units import counted, format_seconds

_MOST_LINES = 8


def check(profile: Profile, bound: Limit, kernel: str | None) -> CheckResult:
    """Checks the median time of an execution, or of a kernel on its slowest device.

    Raises:
      ParameterError: the program ran no such kernel.
    """
    value = profile.wall_s if kernel is None else _of_kernel(profile, kernel)
    what = "time of an execution" if kernel is None else f"time of {kernel.removeprefix('%')} in an execution"
    is_met = bound.judge(value)
    got = format_seconds(value)
    if not isinstance(value, Unavailable) and not isinstance(profile.executions, Unavailable):
        got += f" (median of {counted(profile.executions, 'execution')})"
    if is_met:
        return CheckResult(what, bound.words(format_seconds), got, is_met)
    nearest = ""
    if not isinstance(value, Unavailable) and bound.most:
        nearest = f"{format_seconds(abs(value - bound.most))} {'more' if value > bound.most else 'less'} than the limit"
    whole = profile.total_s
    lines = tuple(
        TableLine(
            PROFILE_COLUMNS.texts("check", SharedRow(row, row.total_s / whole if whole else 0.0)), row.origin.frames
        )
        for row in profile.rows[:_MOST_LINES]
    )
    advice = "Times depend on the machine and its load. Repeat the measurement on an idle machine."
    return CheckResult(
        what, bound.words(format_seconds), got, is_met, PROFILE_COLUMNS.titles("check"), lines, nearest, advice
    )


def _of_kernel(profile: Profile, kernel: str) -> float | Unavailable:
    rows = [row for row in profile.rows if row.opcode and row.name == kernel.removeprefix("%")]
    if not rows:
        names = sorted({row.name for row in profile.rows if row.opcode})
        near = difflib.get_close_matches(kernel.removeprefix("%"), names, 1)
        raise ParameterError(
            f"{profile.program} ran no kernel {short(kernel)}.{f' Did you mean {near[0]}?' if near else ''} The"
            f" slowest ones: {', '.join(dict.fromkeys(row.name for row in profile.rows[:_MOST_LINES]))}."
        )
    times = [row.run_s for row in rows]
    unknown = [each for each in times if isinstance(each, Unavailable)]
    return unknown[0] if unknown else max(each for each in times if not isinstance(each, Unavailable))
