"""Groups drawn on the mesh: which devices talk to which, one color a group.

A pure function from a mesh and groups to a matplotlib `Figure`, without pyplot, so that it can run on
any thread. The first axis of a mesh with three or more large axes becomes slices side by side.
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

# Okabe and Ito's palette, told apart with any color vision, without black. Further groups repeat the
# colors with hatching, so that color alone never says it.
_COLORS = ("#56B4E9", "#E69F00", "#009E73", "#F0E442", "#CC79A7", "#D55E00", "#0072B2", "#999999")
_DARK = frozenset({"#0072B2"})  # where white is read better than black
_HATCHES = ("", "///", "...", "xxx", "\\\\\\", "ooo", "+++", "***")

_CELL_INCHES = 0.62
_MARGIN_INCHES = 0.55
_LEGEND_INCHES = 1.5
_MOST_ARROWS = 256
_MOST_DRAWN = 1 << 16
_LONGEST_LEGEND = 16


@dataclasses.dataclass(frozen=True, slots=True)
class _Slice:
    """A page of the mesh: ids by row and column.

    Attributes:
      title: index of the leading axes, "" when the mesh is one page.
      ids: `[rows, columns]`.
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
      mesh: its logical ids are the numbers in the cells; below each is the device, where that has another id.
      groups: ids of each group, as `Collective.groups`; ids that are in none stay grey.
      pairs: `groups` are (source, target) pairs, drawn as arrows.
      title: above the picture.
      coordinates: write the mesh indices below each id.

    Returns:
      A figure of its own, which notebooks draw; save it with `figure.savefig`.

    Raises:
      ModuleError: an id that the mesh does not have, or more of them than a picture can show.
    """
    from inspector.analysis.figures import Picture

    if mesh.size > _MOST_DRAWN:
        raise ModuleError(f"Cannot draw {mesh.size:,} devices: a picture shows at most {_MOST_DRAWN:,}.")

    unknown = sorted({member for group in groups for member in group} - set(_ids(mesh).reshape(-1).tolist()))
    if unknown:
        raise ModuleError(
            f"Cannot draw groups on the {mesh}: it has no id {unknown[0]} (its ids: 0 to {mesh.size - 1})."
        )
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
    """Ids by mesh index."""
    return mesh.id_of_position.reshape(mesh.axis_sizes)


def _large_axes(mesh: Mesh) -> list[int]:
    """Axes worth drawing; those of size 1 are named in no picture."""
    return [axis for axis, size in enumerate(mesh.axis_sizes) if size > 1]


def _slices(mesh: Mesh) -> list[_Slice]:
    """Pages of the last two large axes; a single axis is one row."""
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
    """Arrows from sources to targets, across pages too; beyond a limit they would hide each other."""
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
    """Color and hatch of a group."""
    return _COLORS[number % len(_COLORS)], _HATCHES[number // len(_COLORS) % len(_HATCHES)]


def _position_by_id(mesh: Mesh) -> dict[int, tuple[int, ...]]:
    ids = _ids(mesh)
    return {int(ids[index]): index for index in np.ndindex(*mesh.axis_sizes)}
