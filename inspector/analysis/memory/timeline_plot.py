"""The picture of a `Timeline`."""

from __future__ import annotations

from collections.abc import Mapping

from inspector.analysis.figures import Picture
from inspector.analysis.memory.live_ranges import Curve, Space
from inspector.errors import Unavailable
from inspector.support.units import format_bytes

_LEAST_SHOWN = 1000  # a memory space with less than this part of the largest one's bytes gets no panel


def timeline_plot(spaces: Mapping[str, Space], curves: Mapping[str, Curve], positions: int) -> Picture:
    """Live temporaries over the schedule, one panel a memory space that has any.

    Args:
      spaces: by name.
      curves: of each, where it has temporaries.
      positions: how many the schedule has.
    """
    most = max((space.live_bytes for space in spaces.values()), default=0)
    shown = [name for name, space in spaces.items() if space.live_bytes and space.live_bytes * _LEAST_SHOWN >= most]
    shown = shown or list(spaces)[:1]
    figure = Picture(figsize=(8, 2.2 * len(shown)), layout="constrained")
    for axes, name in zip(figure.subplots(len(shown), 1, sharex=True, squeeze=False)[:, 0], shown, strict=True):
        space, steps = spaces[name], curves.get(name, ())
        axes.fill_between([p for p, _ in steps], [b for _, b in steps], step="post", alpha=0.6)
        axes.set_ylim(0, max(1, space.live_bytes) * 1.1)
        axes.set_title(
            f"{name}{_of_capacity(space)}: at most {format_bytes(space.live_bytes)} of temporaries live,"
            f" {format_bytes(space.temp_bytes)} allocated for them; fullest at {space.peak_instruction or 'no time'}",
            fontsize=9,
            loc="left",
        )
        axes.yaxis.set_major_formatter(lambda value, _: format_bytes(value))
        axes.set_xlim(0, max(1, positions - 1))
    axes.set_xlabel("position in the schedule")
    return figure


def _of_capacity(space: Space) -> str:
    return "" if isinstance(space.capacity_bytes, Unavailable) else f" of {format_bytes(space.capacity_bytes)}"
