"""`Course`: what is under way when in one execution of a computation: an estimate from its schedule, as table and picture."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

from inspector.analysis.schedule import Interval, Lane
from inspector.platforms import Peak
from inspector.tables import Kind, Tabular, make_table
from inspector.units import format_seconds

if TYPE_CHECKING:
    import pandas as pd

    from inspector.analysis.picture import Picture

_LANES: tuple[Lane, ...] = ("device", "links", "copies")
_COLOURS = {"compute": "C0", "memory": "C2", "communication": "C1", "nothing": "0.85"}
_CHARACTER = 0.0085
"""Of the whole time: what a character of a name takes up."""


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Course(Tabular):
    """One execution of a computation in the order of its schedule, each kernel as fast as its roof lets it be.

    Nothing is measured: a run takes longer, and may overlap less.

    Attributes:
      computation: its name.
      peak: the chip's figures.
      items: in order of the beginning.
    """

    computation: str
    peak: Peak
    items: tuple[Interval, ...]

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Interval]:
        return iter(self.items)

    @property
    def seconds(self) -> float:
        """Until all of it has ended."""
        return max((each.end_s for each in self.items), default=0.0)

    @property
    def exposed_s(self) -> float:
        """For which the device waits for the links or a copy."""
        return sum(each.end_s - each.start_s for each in self.items if each.bound_by == "nothing")

    @property
    def hidden_s(self) -> float:
        """For which the links carry something while the device does not wait."""
        return max(0.0, sum(each.end_s - each.start_s for each in self.items if each.lane == "links") - self.exposed_s)

    def __repr__(self) -> str:
        return (
            f"<Course of {self.computation} on {self.peak.chip}: at least {format_seconds(self.seconds)}, of it waiting"
            f" {format_seconds(self.exposed_s)}; hidden exchanges {format_seconds(self.hidden_s)}; an estimate>"
        )

    def table(self) -> pd.DataFrame:
        """One row an interval; `bound_by` "nothing" is a wait."""
        rows = ((each.name, each.lane, each.bound_by, each.start_s, each.end_s) for each in self.items)
        return make_table(_KINDS, rows)

    def plot(self) -> Picture:
        """A bar an interval, one row a lane, kernels by what bounds them."""
        from matplotlib.patches import Patch

        from inspector.analysis.picture import Picture

        figure = Picture(figsize=(9, 2.4), layout="constrained")
        axes = figure.subplots()
        lanes = [lane for lane in _LANES if any(each.lane == lane for each in self.items)] or ["device"]
        for each in self.items:
            row, length = lanes.index(each.lane), each.end_s - each.start_s
            hatch = "///" if each.bound_by == "nothing" else ""
            axes.barh(
                row, length * 1e6, 0.7, left=each.start_s * 1e6, color=_COLOURS[each.bound_by], edgecolor="white", hatch=hatch,
                linewidth=0.3,
            )  # fmt: skip
            if length >= _CHARACTER * len(each.name) * self.seconds:
                middle = (each.start_s + each.end_s) / 2 * 1e6
                axes.text(middle, row, each.name, ha="center", va="center", fontsize=6, clip_on=True)
        axes.set_yticks(range(len(lanes)), lanes)
        axes.invert_yaxis()
        axes.set_xlabel("µs, each kernel at its roof")
        axes.set_title(repr(self)[1:-1], fontsize=8, loc="left", wrap=True)
        kinds = [kind for kind in _COLOURS if any(each.bound_by == kind for each in self.items)]
        names = {"nothing": "waiting"}
        patches = [Patch(facecolor=_COLOURS[kind], label=names.get(kind, kind)) for kind in kinds]
        if patches:
            axes.legend(handles=patches, fontsize=7, loc="lower right", ncols=len(patches))
        return figure


_KINDS: dict[str, Kind] = {"name": "text", "lane": "text", "bound_by": "text", "start_s": "float", "end_s": "float"}
