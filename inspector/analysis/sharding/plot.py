"""Drawings of the parts of an array as rectangles, with the devices that hold them.

`plot_parts` is pure and returns a matplotlib `Figure`. It does not use pyplot, so it can run on any thread.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from inspector.errors import ParameterError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette: distinguishable with any color vision. Ids in the parts show the same.
_COLORS = ("#56B4E9", "#E69F00", "#009E73", "#F0E442", "#CC79A7", "#D55E00", "#7FA8D9", "#BBBBBB")
_MOST_PARTS = 4096
_MOST_NAMED = 4  # device ids shown in a part; the rest are counted
_MOST_TICKS = 17
_LONG_INCHES, _SHORT_INCHES = 5.0, 1.6


def plot_parts(
    sizes: Sequence[int],
    names: Sequence[str],
    parts: Mapping[tuple[tuple[int, int], ...], tuple[int, ...]],
    short: Collection[tuple[tuple[int, int], ...]],
    title: str,
) -> Figure:
    """Draws up to two dimensions of an array. The first goes down, the second across.

    Args:
      sizes: sizes of these dimensions.
      names: names of these dimensions.
      parts: device ids by part; a part has one range per dimension.
      short: the parts that are smaller than others; these are hatched.
      title: text above the figure.

    Raises:
      ParameterError: more parts than a figure can show.
    """
    from inspector.analysis.figures import Picture

    if len(parts) > _MOST_PARTS:
        raise ParameterError(f"Cannot draw {len(parts):,} parts: a figure shows at most {_MOST_PARTS:,}.")
    rows, columns = [1] * (2 - len(sizes)) + [max(1, size) for size in sizes]
    longer = max(rows, columns)
    scale = _LONG_INCHES / longer
    figure = Picture(
        figsize=(max(columns * scale, _SHORT_INCHES) + 0.8, max(rows * scale, _SHORT_INCHES) + 0.8),
        layout="constrained",
    )
    panel = figure.subplots()
    for number, (ranges, ids) in enumerate(sorted(parts.items())):
        (top, bottom), (left, right) = [(0, 1)] * (2 - len(ranges)) + list(ranges)
        if bottom > top and right > left:
            _draw(panel, (left, top, right - left, bottom - top), ids, number, is_short=ranges in short)
    panel.set_xlim(0, columns)
    panel.set_ylim(rows, 0)
    panel.xaxis.tick_top()
    panel.xaxis.set_label_position("top")
    for axis, index in ((panel.yaxis, len(sizes) - 2), (panel.xaxis, len(sizes) - 1)):
        if index < 0:
            axis.set_ticks([])
            continue
        edges = sorted({edge for ranges in parts for edge in ranges[index]})
        axis.set_ticks(edges[:: -(-len(edges) // _MOST_TICKS)])
        axis.set_label_text(f"dimension {names[index]}", fontsize=9)
        axis.set_tick_params(labelsize=8, length=0)
    if title:
        figure.suptitle(title, fontsize=10)
    return figure


def _draw(panel: Axes, place: tuple[int, int, int, int], ids: tuple[int, ...], number: int, *, is_short: bool) -> None:
    from matplotlib.patches import Rectangle

    left, top, width, height = place
    panel.add_patch(
        Rectangle(
            (left, top), width, height,
            facecolor=_COLORS[number % len(_COLORS)], edgecolor="white", linewidth=2, hatch="///" if is_short else "",
        )
    )  # fmt: skip
    text = ", ".join(map(str, ids[:_MOST_NAMED])) + (
        f" and {len(ids) - _MOST_NAMED} more" if len(ids) > _MOST_NAMED else ""
    )
    halo = (
        {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.85} if is_short else None
    )
    panel.text(
        left + width / 2,
        top + height / 2,
        text,
        ha="center",
        va="center",
        fontsize=8,
        color="#1A1A1A",
        bbox=halo,
        wrap=True,
    )
