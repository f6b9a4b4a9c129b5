"""Drawings of an exchange as a strip of frames: the blocks of each member after each step, and their sources.

`strip` is pure and returns a matplotlib `Figure`. It does not use pyplot, so it can run on any thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from inspector.errors import ModuleError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from inspector.analysis.collectives.exchanges.textbook import MemberBlocks, Schedule, Step

# Okabe and Ito's palette: distinguishable with any color vision. Numbers in the blocks show the same.
_COLORS = ("#56B4E9", "#E69F00", "#009E73", "#F0E442", "#CC79A7", "#D55E00", "#7FA8D9", "#BBBBBB")
_MOST_MEMBERS = 16
_MOST_ROWS = 64
_MOST_NAMED = 2  # a block with more members shows their number instead of their ids
_ROW_INCHES, _COLUMN_INCHES = 0.24, 0.42


def strip(
    states: Sequence[tuple[MemberBlocks, ...]],
    steps: Schedule,
    members: Sequence[int],
    names: Sequence[str],
    title: str,
    most: int,
) -> Figure:
    """Draws frames from left to right. Each frame has one column per member and one row per block.

    A block has the colors and the ids of the members whose values are in it, or their number if there are many. A dark
    outline marks blocks that are new in this frame. Arrows are the messages that lead to the next frame.

    Args:
      states: blocks of every member, before the first step and after each.
      steps: steps between the states.
      members: logical ids, by position.
      names: names of the blocks, by number.
      title: text above the figure.
      most: maximum number of frames; the first and the last are always shown.

    Raises:
      ModuleError: more members or blocks than a figure can show.
    """
    from inspector.analysis.figures import Picture

    count, rows = len(members), len(names)
    if count > _MOST_MEMBERS or rows > _MOST_ROWS:
        raise ModuleError(
            f"Cannot draw {count} members with {rows} blocks: a figure shows at most {_MOST_MEMBERS} members and"
            f" {_MOST_ROWS} blocks."
        )
    chosen = _chosen(len(states), max(2, most))
    width = len(chosen) * (count * _COLUMN_INCHES + 0.3)
    figure = Picture(figsize=(max(width, 3.0), rows * _ROW_INCHES + 1.3), layout="constrained")
    panels = figure.subplots(1, len(chosen), squeeze=False)[0]
    for panel, step in zip(panels, chosen, strict=True):
        before = states[step - 1] if step else None
        for column, blocks in enumerate(states[step]):
            for block, sources in blocks.items():
                is_new = before is not None and before[column].get(block) != sources
                written = [str(members[source]) for source in sorted(sources)]
                text = "+".join(written) if len(written) <= _MOST_NAMED else f"Σ {len(written)}"
                _draw_block(panel, (column, block), sorted(sources), text, is_new=is_new)
        _draw_messages(panel, steps[step] if step < len(steps) else (), rows)
        _label(panel, members, names, step)
    figure.suptitle(title, fontsize=10)
    return figure


def _chosen(count: int, most: int) -> list[int]:
    """Returns the indices of the frames to show: the first, the last, and evenly spaced ones between."""
    if count <= most:
        return list(range(count))
    return sorted({round(frame * (count - 1) / (most - 1)) for frame in range(most)})


def _draw_messages(panel: Axes, step: Step, rows: int) -> None:
    for transfer in step:
        if transfer.sender != transfer.receiver:
            bend = 0.35 if transfer.receiver > transfer.sender else -0.35
            panel.annotate(
                "",
                (transfer.receiver + 0.5, rows + 0.15),
                (transfer.sender + 0.5, rows + 0.15),
                arrowprops={"arrowstyle": "-|>", "color": "#777777", "connectionstyle": f"arc3,rad={bend}", "lw": 0.8},
                annotation_clip=False,
            )


def _label(panel: Axes, members: Sequence[int], names: Sequence[str], step: int) -> None:
    panel.set_xlim(0, len(members))
    panel.set_ylim(len(names) + 1.2, 0)
    panel.set_xticks([position + 0.5 for position in range(len(members))], [str(member) for member in members])
    panel.set_yticks([row + 0.5 for row in range(len(names))], names if step == 0 else [""] * len(names))
    panel.tick_params(length=0, labelsize=7)
    panel.xaxis.tick_top()
    panel.set_title("start" if not step else f"after step {step}", fontsize=8)
    for spine in panel.spines.values():
        spine.set_visible(False)


def _draw_block(panel: Axes, place: tuple[int, int], sources: list[int], text: str, *, is_new: bool) -> None:
    from matplotlib.patches import Rectangle

    left, top = place[0] + 0.06, place[1] + 0.08
    width, height = 0.88, 0.84
    for index, source in enumerate(sources):
        share = width / len(sources)
        color = _COLORS[source % len(_COLORS)]
        panel.add_patch(Rectangle((left + index * share, top), share, height, facecolor=color, edgecolor="none"))
    panel.add_patch(
        Rectangle(
            (left, top), width, height, facecolor="none", edgecolor="#1A1A1A" if is_new else "#FFFFFF", linewidth=1.3
        )
    )
    panel.text(place[0] + 0.5, place[1] + 0.5, text, ha="center", va="center", fontsize=6, color="#1A1A1A")
