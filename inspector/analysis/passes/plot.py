"""Plots the passes of a compile: the duration of each, and the counts of the module after it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from inspector.compilation.records.pass_counts import Counts
from inspector.compilation.records.passes import Passes
from inspector.errors import Unavailable
from inspector.support.units import format_bytes

if TYPE_CHECKING:
    from inspector.analysis.figures import Picture


def pass_plot(passes: Passes) -> Picture:
    """Plots durations as bars, and one curve for each of the `Counts`, over the passes in order."""
    from inspector.analysis.figures import Picture

    names = [field.name for field in dataclasses.fields(Counts)]
    figure = Picture(figsize=(9, 6.5), layout="constrained")
    rows = figure.subplots(1 + len(names), 1, sharex=True, height_ratios=[2, *(1 for _ in names)])
    timed = [(p.index, p.duration_s, p.changed) for p in passes if not isinstance(p.duration_s, Unavailable)]
    for changed, color, label in ((False, "0.75", "changed nothing"), (True, "C0", "changed the module")):
        of = [(index, seconds) for index, seconds, was in timed if was is changed and seconds > 0]
        rows[0].bar([i for i, _ in of], [1e3 * s for _, s in of], width=1.0, color=color, label=label)
    rows[0].set_ylabel("ms")
    if any(seconds > 0 for _, seconds, _ in timed):
        rows[0].set_yscale("log")
        rows[0].legend(fontsize=7, loc="upper left")
    for axes, name in zip(rows[1:], names, strict=True):
        points = [(p.index, passes.counts_at(p.after_index)) for p in passes]
        known = [(index, getattr(counts, name)) for index, counts in points if isinstance(counts, Counts)]
        axes.plot([i for i, _ in known], [v for _, v in known], drawstyle="steps-post", color="C1", linewidth=1.2)
        axes.set_ylabel(name.removesuffix("_bytes"), fontsize=8, rotation=0, ha="right", va="center")
        axes.set_ylim(bottom=0)
        if name.endswith("_bytes"):
            axes.yaxis.set_major_formatter(lambda value, _: format_bytes(int(value)))
        axes.tick_params(labelsize=7)
    rows[-1].set_xlabel("pass, in order of completion")
    figure.align_ylabels()
    return figure
