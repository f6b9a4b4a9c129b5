"""Plots the arrays of a Pallas kernel and the block of each array in one grid step, as a matplotlib figure.

A pure function of a `PallasKernel`, without pyplot. Arrays of more than two dimensions are drawn by their last two, at the
block's position in the others; a vector is drawn as one row. The animated drawing is in the Explorer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from inspector.analysis.pallas.grid_walk import Visits, visits
from inspector.errors import ParameterError, Unavailable
from inspector.hlo.pallas import Operand, PallasKernel

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Colors by Okabe and Ito, distinguishable with any color vision.
_INPUT, _OUTPUT, _WARNING = "#0072B2", "#D55E00", "#CC79A7"
_PANEL_INCHES = 2.4
_MOST_DRAWN = 2048
_THINNEST = 0.12  # minimum ratio to the longer side; thinner arrays would not be visible


def plot_blocks(kernel: PallasKernel, step: int = 0) -> Figure:
    """Plots every operand as a rectangle with the blocks that the grid visits.

    The block of `step` is filled, blocks visited before are tinted; hatched blocks are revisited after other blocks, blocks
    with a dashed outline overlap others.

    Args:
      kernel: an item of `Lowered.kernels`.
      step: number of the grid step in execution order, from 0.

    Returns:
      A figure independent of pyplot, which notebooks display; save it with `figure.savefig`.

    Raises:
      ParameterError: the step does not exist, or is beyond the examined steps.
    """
    from inspector.analysis.figures import Picture

    ids = kernel.program_ids
    last = 0 if isinstance(ids, Unavailable) else len(ids) - 1
    if not 0 <= step <= last:
        raise ParameterError(f"Cannot draw step {step} of {kernel.name}: its steps are 0 to {last}.")
    count = max(1, len(kernel.operands))
    figure = Picture(figsize=(count * _PANEL_INCHES, _PANEL_INCHES + 0.9), layout="constrained")
    panels = figure.subplots(1, count, squeeze=False).reshape(-1)
    for panel, operand, walk in zip(panels, kernel.operands, visits(kernel), strict=False):
        _draw(panel, operand, walk, step)
    figure.suptitle(_title(kernel, step), fontsize=9)
    return figure


def _title(kernel: PallasKernel, step: int) -> str:
    ids = kernel.program_ids
    grid = " x ".join("?" if size is None else str(size) for size in kernel.grid) or "no grid"
    if isinstance(ids, Unavailable):
        return f"{kernel.name}: grid {grid}"
    where = ", ".join(map(str, ids[step]))
    return f"{kernel.name}: step {step} of {kernel.step_count}, program id ({where}) of grid {grid}"


def _draw(panel: Axes, operand: Operand, walk: Visits | Unavailable, step: int) -> None:
    rows, columns = ((1, 1, *operand.shape)[-2], (1, 1, *operand.shape)[-1])
    # Drawn to scale, except for arrays so long that they would not be visible.
    height = min(1.0, max(_THINNEST, rows / columns)) if rows <= columns else 1.0
    width = min(1.0, max(_THINNEST, columns / rows)) if columns <= rows else 1.0
    panel.set_xlim(-0.02, 1.02)
    panel.set_ylim(1.02, -0.02)
    panel.set_aspect("equal")
    panel.axis("off")
    color = _OUTPUT if operand.role == "output" else _INPUT
    _rectangle(panel, (0, 0, width, height), facecolor="none", edgecolor="#888888")
    panel.set_title(f"{operand.name}  {operand.dtype}{list(operand.shape)}\nblock {_block(operand)}", fontsize=7)
    if isinstance(walk, Unavailable):
        panel.text(
            width / 2, height / 2, "known only\nat run time", ha="center", va="center", fontsize=7, color="#888888"
        )
        return
    scale = (width / max(1, columns), height / max(1, rows))
    current = int(walk.block_of_step[step])
    seen = set(walk.block_of_step[: step + 1].tolist())
    for block in _drawn(walk, current):
        _draw_block(panel, walk, block, scale, color, is_current=block == current, is_seen=block in seen)
    note = _note(walk, current)
    panel.text(width / 2, height + 0.03, note, ha="center", va="top", fontsize=6.5, color="#888888")


def _block(operand: Operand) -> str:
    return "(" + ", ".join(map(str, operand.dimensions)) + ")"


def _drawn(walk: Visits, current: int) -> list[int]:
    """Returns the blocks in the slice of the current block, the current block last, so that it is drawn on top."""
    leading = walk.starts.shape[1] - 2
    same = np.ones(walk.block_count, np.bool_)
    if leading > 0:
        same = (walk.starts[:, :leading] == walk.starts[current, :leading]).all(axis=1)
    others = [int(b) for b in np.flatnonzero(same)[:_MOST_DRAWN] if b != current]
    return [*others, current]


def _draw_block(
    panel: Axes,
    walk: Visits,
    block: int,
    scale: tuple[float, float],
    color: str,
    *,
    is_current: bool,
    is_seen: bool,
) -> None:
    start = (0, 0, *walk.starts[block])[-2:]
    extent = (1, 1, *walk.operand.block_shape)[-2:]
    box = (start[1] * scale[0], start[0] * scale[1], extent[1] * scale[0], extent[0] * scale[1])
    overlaps = not isinstance(walk.overlapping, Unavailable) and bool(walk.overlapping[block])
    _rectangle(
        panel,
        box,
        facecolor=color if is_seen or is_current else "none",
        alpha=0.85 if is_current else 0.22 if is_seen else 0.5,
        edgecolor=_WARNING if overlaps else color,
        linestyle="--" if overlaps else "-",
        hatch="////" if walk.revisited[block] and not is_current else "",
        linewidth=1.2 if is_current else 0.4,
    )


def _rectangle(panel: Axes, box: tuple[float, float, float, float], **style: object) -> None:
    from matplotlib.patches import Rectangle

    panel.add_patch(Rectangle(box[:2], box[2], box[3], **style))  # type: ignore[arg-type]


def _note(walk: Visits, current: int) -> str:
    where = ", ".join(map(str, walk.starts[current]))
    leading = " (last two dimensions)" if walk.starts.shape[1] > 2 else ""
    copies = f"{walk.copy_count:,} copies of {walk.block_count:,} blocks" if walk.operand.is_windowed else "not copied"
    return f"at ({where}){leading}\n{copies}"
