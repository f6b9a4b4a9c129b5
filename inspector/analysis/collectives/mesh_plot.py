"""Drawings of groups on a mesh, one color per group.

`plot_groups` is a pure function from a mesh and groups to a matplotlib `Figure`. It does not use pyplot, so it can run on
any thread. The leading axes of a mesh with three or more axes larger than 1 become pages side by side.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from inspector.errors import ModuleError
from inspector.hlo.devices.mesh import Mesh

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette without black: distinguishable with any color vision. Further groups repeat the
# colors with hatching, so that color is never the only difference.
_COLORS = ("#56B4E9", "#E69F00", "#009E73", "#F0E442", "#CC79A7", "#D55E00", "#0072B2", "#999999")
_DARK = frozenset({"#0072B2"})  # white text is easier to read on these
_HATCHES = ("", "///", "...", "xxx", "\\\\\\", "ooo", "+++", "***")

_CELL_INCHES = 0.62
_MARGIN_INCHES = 0.55
_LEGEND_INCHES = 1.5
_MOST_ARROWS = 256
_MOST_DRAWN = 1 << 16
_LONGEST_LEGEND = 16


@dataclasses.dataclass(frozen=True, slots=True)
class _Slice:
    """A two-dimensional page of the mesh.

    Attributes:
      title: indices along the leading axes; "" if the mesh is one page.
      ids: logical ids `[rows, columns]`.
    """

    title: str
    ids: npt.NDArray[np.int64]


def plot_groups(
    mesh: Mesh,
    groups: Sequence[Sequence[int]],
    *,
    pairs: bool = False,
    title: str = "",
    coordinates: bool = False,
) -> Figure:
    """Draws groups, or the pairs of a collective-permute, on a mesh.

    Args:
      mesh: the mesh. Each cell shows a logical id, and below it the device id if that differs.
      groups: ids of each group, as in `Collective.groups`; ids in no group are gray.
      pairs: whether `groups` are (source, target) pairs, which are drawn as arrows.
      title: text above the figure.
      coordinates: whether to show the mesh indices below each id.

    Returns:
      A separate figure, which notebooks display. Save it with `figure.savefig`.

    Raises:
      ModuleError: the mesh does not have an id of the groups, or has more devices than a figure can show.
    """
    from inspector.analysis.figures import Picture

    if mesh.size > _MOST_DRAWN:
        raise ModuleError(f"Cannot draw {mesh.size:,} devices: a figure shows at most {_MOST_DRAWN:,}.")

    unknown = sorted({member for group in groups for member in group} - set(_ids(mesh).reshape(-1).tolist()))
    if unknown:
        raise ModuleError(f"Cannot draw groups on the {mesh}: it has no id {unknown[0]}, only 0 to {mesh.size - 1}.")
    pages = _slices(mesh)
    rows, columns = pages[0].ids.shape
    across = min(len(pages), max(1, math.ceil(math.sqrt(len(pages) * rows / columns))))
    down = math.ceil(len(pages) / across)
    legend = not pairs and 1 < len(groups) <= _LONGEST_LEGEND and any(len(group) > 1 for group in groups)
    width = across * (columns * _CELL_INCHES + _MARGIN_INCHES) + _MARGIN_INCHES + legend * _LEGEND_INCHES
    height = down * (rows * _CELL_INCHES + _MARGIN_INCHES) + _MARGIN_INCHES
    figure = Picture(figsize=(max(width, 2.5), max(height, 1.5)), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False).reshape(-1)
    for panel in panels[len(pages) :]:
        panel.set_visible(False)
    for panel, page in zip(panels, pages, strict=False):
        _draw_page(panel, page, mesh, groups, pairs, coordinates)
    if pairs:
        _draw_arrows(figure, list(panels), pages, groups)
    if legend:
        _draw_legend(figure, groups)
    if title:
        figure.suptitle(title, fontsize=10)
    return figure


def _ids(mesh: Mesh) -> npt.NDArray[np.int64]:
    """Returns the logical ids by mesh index."""
    return mesh.id_of_position.reshape(mesh.axis_sizes)


def _large_axes(mesh: Mesh) -> list[int]:
    """Returns the indices of the axes larger than 1; the others are not drawn."""
    return [axis for axis, size in enumerate(mesh.axis_sizes) if size > 1]


def _slices(mesh: Mesh) -> list[_Slice]:
    """Returns pages over the last two axes larger than 1. A single such axis gives one row."""
    large = _large_axes(mesh)
    ids = _ids(mesh).reshape([mesh.axis_sizes[axis] for axis in large])
    if len(large) < 2:
        return [_Slice("", ids.reshape(1, -1))]
    leading = large[:-2]
    pages = []
    for index in np.ndindex(*[mesh.axis_sizes[axis] for axis in leading]):
        title = ", ".join(f"{mesh.axis_names[axis]} = {i}" for axis, i in zip(leading, index, strict=True))
        pages.append(_Slice(title, ids[index]))
    return pages


def _draw_page(
    panel: Axes, page: _Slice, mesh: Mesh, groups: Sequence[Sequence[int]], pairs: bool, coordinates: bool
) -> None:
    from matplotlib.patches import Rectangle

    rows, columns = page.ids.shape
    group_of = {} if pairs else {member: number for number, group in enumerate(groups) for member in group}
    positions = _position_by_id(mesh)
    for row, column in np.ndindex(rows, columns):
        member = int(page.ids[row, column])
        color, hatch = _style(group_of[member]) if member in group_of else ("#EEEEEE", "")
        panel.add_patch(
            Rectangle((column, row), 1, 1, facecolor=color, edgecolor="white", linewidth=2, hatch=hatch, alpha=0.95)
        )
        ink = "white" if color in _DARK else "#1A1A1A"
        halo = {"boxstyle": "round,pad=0.12", "facecolor": color, "edgecolor": "none"} if hatch else None
        below = "" if mesh.physical_ids is None else f"\ndevice {mesh.physical_ids[member]}"
        below += "\n(" + ",".join(map(str, positions[member])) + ")" if coordinates else ""
        panel.text(
            *(column + 0.5, row + 0.5, f"{member}{below}"),
            ha="center", va="center", fontsize=7 if below else 10, color=ink, bbox=halo,
        )  # fmt: skip
    _label(panel, page, mesh)


def _label(panel: Axes, page: _Slice, mesh: Mesh) -> None:
    rows, columns = page.ids.shape
    names = [mesh.axis_names[axis] for axis in _large_axes(mesh)][-2:]
    panel.set_xlim(0, columns)
    panel.set_ylim(rows, 0)
    panel.set_aspect("equal")
    panel.set_xticks(np.arange(columns) + 0.5, [str(index) for index in range(columns)])
    panel.set_yticks(np.arange(rows) + 0.5, [str(index) if len(names) > 1 else "" for index in range(rows)])
    panel.tick_params(length=0, labelsize=8)
    panel.xaxis.tick_top()
    panel.xaxis.set_label_position("top")
    if names:
        panel.set_xlabel(names[-1], fontsize=9)
    if len(names) > 1:
        short = len(names[0]) <= 3
        panel.set_ylabel(names[0], fontsize=9, rotation=0 if short else 90, labelpad=8, va="center")
    if page.title:
        panel.set_title(page.title, fontsize=9, fontweight="bold", pad=8)
    for spine in panel.spines.values():
        spine.set_visible(False)


def _draw_arrows(figure: Figure, panels: list[Axes], pages: list[_Slice], pairs: Sequence[Sequence[int]]) -> None:
    """Draws arrows from sources to targets, also between pages, up to a limit beyond which they hide each other."""
    from matplotlib.patches import ConnectionPatch

    places = {
        int(page.ids[row, column]): (panel, (column + 0.5, row + 0.5))
        for panel, page in zip(panels, pages, strict=False)
        for row, column in np.ndindex(*page.ids.shape)
    }
    for source, target in list(pairs)[:_MOST_ARROWS]:
        (from_panel, start), (to_panel, end) = places[source], places[target]
        figure.add_artist(
            ConnectionPatch(
                xyA=start,
                coordsA=from_panel.transData,
                xyB=end,
                coordsB=to_panel.transData,
                arrowstyle="-|>",
                mutation_scale=11,
                linewidth=1.4,
                color=_COLORS[6],
                alpha=0.85,
                connectionstyle="arc3,rad=-0.28",
                shrinkA=9,
                shrinkB=9,
            )
        )


def _draw_legend(figure: Figure, groups: Sequence[Sequence[int]]) -> None:
    from matplotlib.patches import Patch

    handles = []
    for number, group in enumerate(groups):
        color, hatch = _style(number)
        members = ", ".join(map(str, group[:6])) + (", …" if len(group) > 6 else "")
        handles.append(Patch(facecolor=color, hatch=hatch, edgecolor="white", label=f"{{{members}}}"))
    figure.legend(
        handles=handles, loc="outside right center", fontsize=8, frameon=False, title="groups", title_fontsize=8
    )


def _style(number: int) -> tuple[str, str]:
    """Returns color and hatch of a group."""
    return _COLORS[number % len(_COLORS)], _HATCHES[number // len(_COLORS) % len(_HATCHES)]


def _position_by_id(mesh: Mesh) -> dict[int, tuple[int, ...]]:
    ids = _ids(mesh)
    return {int(ids[index]): index for index in np.ndindex(*mesh.axis_sizes)}
