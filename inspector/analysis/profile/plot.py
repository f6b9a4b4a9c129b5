"""A profile as a figure: the instructions with the most measured time, with their estimates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from inspector.analysis.profile.rows import ProfileGroup, ProfileRow
from inspector.errors import Unavailable
from inspector.support.units import format_seconds

if TYPE_CHECKING:
    from inspector.analysis.figures import Picture

_MOST = 20


def profile_plot(heading: str, kernels: Sequence[ProfileGroup], executions: int | Unavailable, devices: int) -> Picture:
    """Plots the measured time of the slowest kernels as bars, and their estimates as marks.

    Args:
      heading: the first line of the title.
      kernels: sums by kernel, the largest first.
      executions: number of executions; Unavailable to show sums over all.
      devices: number of devices.
    """
    from inspector.analysis.figures import Picture

    shown = kernels[:_MOST]
    per = 1 if isinstance(executions, Unavailable) else executions * devices
    figure = Picture(figsize=(7, 1.2 + 0.24 * max(1, len(shown))), layout="constrained")
    axes = figure.subplots()
    places = range(len(shown))
    axes.barh(places, [1e3 * group.total_s / per for group in shown], height=0.7, label="measured")
    estimates = [(place, _estimate(group.rows)) for place, group in zip(places, shown, strict=True)]
    known = [(1e3 * seconds, place) for place, seconds in estimates if seconds is not None]  # of one execution
    if known and not isinstance(executions, Unavailable):
        times, positions = zip(*known, strict=True)
        axes.scatter(times, positions, marker="|", s=90, color="0.2", label="estimated (roofline)", zorder=3)
    axes.set_yticks(places, [_label(group) for group in shown], fontsize=8)
    axes.invert_yaxis()
    unit = "sum of all executions" if isinstance(executions, Unavailable) else "per execution and device"
    axes.set_xlabel(f"time in ms, {unit}")
    rest = sum(group.total_s for group in kernels[_MOST:])
    left_out = (
        f"\n{len(kernels) - _MOST} more kernels take {format_seconds(rest)} in all" if len(kernels) > _MOST else ""
    )
    axes.set_title(f"{heading}{left_out}", fontsize=8, loc="left", wrap=True)
    if known and not isinstance(executions, Unavailable):
        axes.legend(fontsize=8, loc="lower right")
    return figure


def _label(group: ProfileGroup) -> str:
    name = group.name or "unknown"
    return name if len(name) <= 40 else f"{name[:39]}…"


def _estimate(rows: Sequence[ProfileRow]) -> float | None:
    estimates = [float(row.estimated_s) for row in rows if not isinstance(row.estimated_s, Unavailable)]
    return sum(estimates) / len(estimates) if estimates else None
