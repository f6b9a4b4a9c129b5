"""Plots a `Timeline`."""

from __future__ import annotations

from collections.abc import Mapping

from inspector.analysis.figures import Picture
from inspector.analysis.memory.live_ranges import Curve, Space
from inspector.errors import Unavailable
from inspector.support.units import format_bytes

_LEAST_SHOWN = 1000  # a memory space with less than 1/1000 of the largest one's bytes gets no panel


def timeline_plot(
    spaces: Mapping[str, Space], curves: Mapping[str, Curve], positions: int, *, is_estimated: bool = False
) -> Picture:
    """Plots live temporaries over the schedule, with one panel per memory space that has temporaries.

    Args:
      spaces: memory spaces by name.
      curves: live bytes of each memory space with temporaries.
      positions: number of positions in the schedule.
      is_estimated: as in `Timeline`.
    """
    most = max((space.live_bytes for space in spaces.values()), default=0)
    shown = [name for name, space in spaces.items() if space.live_bytes and space.live_bytes * _LEAST_SHOWN >= most]
    shown = shown or list(spaces)[:1]
    figure = Picture(figsize=(8, 2.2 * len(shown)), layout="constrained")
    for axes, name in zip(figure.subplots(len(shown), 1, sharex=True, squeeze=False)[:, 0], shown, strict=True):
        space, steps = spaces[name], curves.get(name, ())
        where = f" at {space.peak_instruction}" if space.peak_instruction else ""
        axes.fill_between([p for p, _ in steps], [b for _, b in steps], step="post", alpha=0.6)
        axes.set_ylim(0, max(1, space.live_bytes) * 1.1)
        axes.set_title(
            f"{name}{_of_capacity(space)}: peak {format_bytes(space.live_bytes)} of live temporaries{where},"
            f" {'estimated from the schedule' if is_estimated else f'{format_bytes(space.temp_bytes)} allocated'}",
            fontsize=9,
            loc="left",
        )
        axes.yaxis.set_major_formatter(lambda value, _: format_bytes(value))
        axes.set_xlim(0, max(1, positions - 1))
    axes.set_xlabel("position in the schedule")
    return figure


def _of_capacity(space: Space) -> str:
    return "" if isinstance(space.capacity_bytes, Unavailable) else f" of {format_bytes(space.capacity_bytes)}"
