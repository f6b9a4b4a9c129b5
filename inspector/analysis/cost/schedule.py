"""`Schedule`: the estimated start and end of every kernel in one execution of a computation, as a table and a figure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

from inspector.analysis.cost.schedule_simulation import Interval, Lane
from inspector.errors import About, Missing
from inspector.platforms import Peak
from inspector.support.notebook import described, with_hint
from inspector.support.tables import Kind, Tabular, make_table
from inspector.support.units import format_seconds

if TYPE_CHECKING:
    import pandas as pd

    from inspector.analysis.figures import Picture

_LANES: tuple[Lane, ...] = ("device", "links", "copies")
_COLORS = {"compute": "C0", "memory": "C2", "communication": "C1", "waiting": "0.85"}
_CHARACTER = 0.0085
"""Width of a character in a bar's label, as a fraction of the total time."""


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Schedule(Tabular):
    """One execution of a computation in the order of its schedule, with each kernel as fast as its roof allows.

    Nothing is measured. A real run takes longer, and may overlap less.

    Attributes:
      computation: name of the computation.
      peak: the chip's figures.
      items: intervals in order of their start.
      missing: parts of unknown time.
    """

    computation: str
    peak: Peak
    items: tuple[Interval, ...]
    missing: tuple[Missing, ...] = ()

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Interval]:
        return iter(self.items)

    @property
    def seconds(self) -> float:
        """Time at which everything has ended."""
        return max((each.end_s for each in self.items), default=0.0)

    @property
    def exposed_s(self) -> float:
        """Time during which the device waits for the links."""
        return sum(_length(each) for each in self.items if each.is_wait and each.bound_by == "communication")

    @property
    def hidden_s(self) -> float:
        """Time during which the links are busy and the device does not wait for them, loops included."""
        busy = sum(_length(each) for each in self.items if each.lane == "links")
        return max(0.0, busy - self.exposed_s) + sum(each.hidden_s for each in self.items)

    @property
    def _title(self) -> str:
        """The schedule in one line."""
        name, unknown = f"Schedule of {self.computation} on {self.peak.chip}", About(0.0, self.missing).reason
        if self.missing and not self.seconds:
            return f"{name}: time unknown: {unknown}"
        return (
            f"{name}: about {format_seconds(self.seconds)} at the roof, {format_seconds(self.exposed_s)} of it waiting"
            f" for links; {format_seconds(self.hidden_s)} of communication hidden"
            f"{f'; {unknown}' if unknown else ''}; an estimate"
        )

    def __repr__(self) -> str:
        text = f"<{self._title}>"
        return text if self.missing and not self.seconds else with_hint(text, ".table(), .plot()")

    def _repr_html_(self) -> str:
        return described(repr(self), table=self.table())

    def table(self) -> pd.DataFrame:
        """Returns a table with one row per interval. `bound_by` of a wait is the resource that the device waits for."""
        rows = ((each.name, each.lane, each.bound_by, each.start_s, each.end_s, each.is_wait) for each in self.items)
        return make_table(_KINDS, rows)

    def plot(self) -> Picture:
        """Draws one bar per interval and one row per lane. Colors show the resource that bounds a kernel."""
        from matplotlib.patches import Patch

        from inspector.analysis.figures import Picture

        figure = Picture(figsize=(9, 2.4), layout="constrained")
        axes = figure.subplots()
        lanes = [lane for lane in _LANES if any(each.lane == lane for each in self.items)] or ["device"]
        for each in self.items:
            row, length = lanes.index(each.lane), each.end_s - each.start_s
            hatch = "///" if each.is_wait else ""
            axes.barh(
                row, length * 1e6, 0.7, left=each.start_s * 1e6, color=_COLORS[_kind(each)], edgecolor="white", hatch=hatch,
                linewidth=0.3,
            )  # fmt: skip
            if length >= _CHARACTER * len(each.name) * self.seconds:
                middle = (each.start_s + each.end_s) / 2 * 1e6
                axes.text(middle, row, each.name, ha="center", va="center", fontsize=6, clip_on=True)
        axes.set_yticks(range(len(lanes)), lanes)
        axes.invert_yaxis()
        axes.set_xlabel("time in µs, each kernel at its roof")
        axes.set_title(self._title, fontsize=8, loc="left", wrap=True)
        kinds = [kind for kind in _COLORS if any(_kind(each) == kind for each in self.items)]
        patches = [Patch(facecolor=_COLORS[kind], label=kind) for kind in kinds]
        if patches:
            axes.legend(handles=patches, fontsize=7, loc="lower right", ncols=len(patches))
        return figure


_KINDS: dict[str, Kind] = {
    "name": "text",
    "lane": "text",
    "bound_by": "text",
    "start_s": "float",
    "end_s": "float",
    "is_wait": "bool",
}


def _kind(each: Interval) -> str:
    return "waiting" if each.is_wait else each.bound_by


def _length(each: Interval) -> float:
    return each.end_s - each.start_s
