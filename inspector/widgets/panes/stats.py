"""The Stats pane: memory, costs and times of variants."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypedDict

from inspector.analysis.cost.stats import Stat, StatGroup, program_stats, stats
from inspector.compilation.compiled import CompiledProgram, is_from_cache
from inspector.compilation.preview import Preview
from inspector.errors import Partial, Unavailable
from inspector.widgets.panes.framework.pane import Entry, Pane
from inspector.widgets.variants import Variant


class StatsRow(TypedDict):
    """One number of a variant. If there is a `reason`, the value is unknown (None) or partly known.

    Attributes:
      word: qualifier of a partly known `value`: "at least" or "about"; else "".
    """

    key: str
    label: str
    group: StatGroup
    unit: Literal["bytes", "count", "seconds"]
    value: float | None
    word: str
    reason: str | None
    less_is_better: bool


class Stats(TypedDict):
    """The numbers of a variant."""

    type: Literal["stats"]
    variant: int
    rows: list[StatsRow]


class StatsPane(Pane):
    """Shows the numbers of each variant."""

    def preview(self, variant: Variant, preview: Preview) -> Iterable[Entry]:
        """Returns the numbers that are already known."""
        return [_message(variant, stats(preview))]

    def compiled(self, variant: Variant, compiled: CompiledProgram) -> Iterable[Entry]:
        """Returns all numbers."""
        return [_message(variant, (*stats(compiled), *_total(compiled), *program_stats(compiled)))]


def _message(variant: Variant, rows: Iterable[Stat]) -> Stats:
    """Returns the rows of the Stats pane; unknown and partly known values have a reason."""
    return Stats(
        type="stats",
        variant=variant.number,
        rows=[
            StatsRow(
                key=row.key,
                group=row.group,
                label=row.label,
                unit=row.unit,
                value=None if isinstance(row.value, Unavailable) else float(row.value),
                word=row.value.word if isinstance(row.value, Partial) else "",
                reason=row.value.reason if isinstance(row.value, (Unavailable, Partial)) else None,
                less_is_better=row.less_is_better,
            )
            for row in rows
        ],
    )


def _total(compiled: CompiledProgram) -> tuple[Stat, ...]:
    """Returns the total time as the variant's chip shows it; the compile's own time is a separate row. Cached programs have none."""
    total_s = compiled.timings.get("total_s")
    if total_s is None or is_from_cache(compiled):
        return ()
    return (Stat("total_s", "total time, including queueing and start", "seconds", total_s),)
