"""Drawings of a TPU slice or a host with the load of each link.

The functions are pure and return a matplotlib `Figure`. They do not use pyplot, so they can run on any thread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from inspector.errors import ModuleError
from inspector.support.units import format_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Place: TypeAlias = tuple[int, ...]
Link: TypeAlias = tuple[Place, Place]

_MOST_CHIPS = 1 << 10
_MOST_BARS = 72
_COLORS = "viridis_r"
_IDLE = "#CCCCCC"
_CELL_INCHES = 0.85
_BESIDE = 0.09  # distance between the two directions of a link
_STUB = 0.42  # length of the stubs that stand for a wrap-around link, one at each end


def plot_links(chips: Mapping[Place, Sequence[int]], loads: Mapping[Link, float], title: str) -> Figure:
    """Draws chips as circles with the ids of their devices, and each direction of a link as an arrow.

    Arrows with more bytes are wider and darker. The first axis goes to the right, the second down, and the third from
    page to page. The links between pages are summarized in the title of the page where they start. An arrow that leaves
    the grid is a wrap-around link.

    Args:
      chips: device ids by coordinates; the coordinates all have the same rank and fill a grid.
      loads: bytes by link, for all links of the slice.
      title: text above the figure.

    Raises:
      ModuleError: more chips than a figure can show.
    """
    from matplotlib import colormaps

    from inspector.analysis.figures import Picture

    if len(chips) > _MOST_CHIPS:
        raise ModuleError(
            f"Cannot draw {len(chips):,} chips: a figure shows at most {_MOST_CHIPS:,}. `table()` has all links."
        )
    columns, rows, pages = (1 + max(along) for along in zip(*map(_three, chips), strict=True))
    most = max(loads.values(), default=0.0)
    size = ((columns + 1.4) * _CELL_INCHES * pages, (rows + 1.4) * _CELL_INCHES + 0.5)
    figure = Picture(figsize=(max(size[0], 3.2), size[1]), layout="constrained")
    panels = figure.subplots(1, pages, squeeze=False)[0]
    colors = colormaps[_COLORS]
    for page, panel in enumerate(panels):
        across = 0.0
        for (a, b), count in loads.items():
            if _three(a)[2] == page == _three(b)[2]:
                color = colors(0.15 + 0.85 * count / most) if count else _IDLE
                _draw_link(panel, (a, b), color, 0.8 + 2.4 * count / most if count else 0.8)
            elif _three(a)[2] == page:
                across = max(across, count)
        for place, ids in chips.items():
            if _three(place)[2] == page:
                _draw_chip(panel, place, ",".join(map(str, ids)))
        if pages > 1:
            panel.set_title(f"z = {page}; links to another z: {format_bytes(round(across))} each", fontsize=7)
        panel.set_xlim(-0.9, columns - 0.1)
        panel.set_ylim(rows - 0.1, -0.9)
        panel.set_aspect("equal")
        panel.axis("off")
    figure.suptitle(title, fontsize=8)
    return figure


def plot_switch(sent: Mapping[int, float], received: Mapping[int, float], title: str) -> Figure:
    """Draws two bars for each device: the bytes sent to the switches, and the bytes received from them.

    Args:
      sent: sent bytes by device.
      received: received bytes of the same devices.
      title: text above the figure.

    Raises:
      ModuleError: more devices than a figure can show.
    """
    from inspector.analysis.figures import Picture

    if len(sent) > _MOST_BARS:
        raise ModuleError(
            f"Cannot draw {len(sent):,} devices: a figure shows at most {_MOST_BARS:,}. `table()` has all links."
        )
    figure = Picture(figsize=(4.5, 0.9 + 0.32 * len(sent)), layout="constrained")
    panel = figure.subplots()
    for shift, (name, color, loads) in enumerate((("sent", "#31688E", sent), ("received", "#35B779", received))):
        places = [device + 0.36 * shift - 0.18 for device in loads]
        bars = panel.barh(places, [*loads.values()], 0.34, color=color, label=name)
        panel.bar_label(bars, [format_bytes(round(count)) for count in loads.values()], padding=2, fontsize=6)
    panel.set_yticks([*sent], [f"device {device}" for device in sent], fontsize=7)
    panel.invert_yaxis()
    panel.margins(x=0.2)
    panel.set_xticks([])
    figure.legend(fontsize=7, loc="outside lower center", ncols=2)
    figure.suptitle(title, fontsize=8)
    return figure


def _three(place: Place) -> tuple[int, int, int]:
    x, y, z = (*place, 0, 0)[:3]
    return x, y, z


def _draw_link(panel: Axes, link: Link, color: Any, width: float) -> None:
    (x0, y0, _), (x1, y1, _) = map(_three, link)
    around = abs(x1 - x0) + abs(y1 - y0) > 1
    dx, dy = ((x0 > x1) - (x0 < x1), (y0 > y1) - (y0 < y1)) if around else (x1 - x0, y1 - y0)
    start = (x0 - dy * _BESIDE + dx * 0.25, y0 + dx * _BESIDE + dy * 0.25)
    length = _STUB if around else 0.5
    end = (start[0] + dx * length, start[1] + dy * length)
    style = {"arrowstyle": "-|>", "color": color, "lw": width, "shrinkA": 0, "shrinkB": 0, "mutation_scale": 7}
    panel.annotate("", end, start, arrowprops=style)


def _draw_chip(panel: Axes, place: Place, text: str) -> None:
    from matplotlib.patches import Circle

    x, y, _ = _three(place)
    panel.add_patch(Circle((x, y), 0.24, facecolor="#F2F2F2", edgecolor="#555555", lw=0.8))
    panel.text(x, y, text, ha="center", va="center", fontsize=7, color="#1A1A1A")
