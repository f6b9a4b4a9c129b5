"""The numbers of variants: memory, cost, times."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypedDict

from inspector.analysis.cost.stats import Stat, program_stats, stats
from inspector.compilation.compiled import CompiledProgram, is_from_cache
from inspector.compilation.preview import Preview
from inspector.errors import Partial, Unavailable
from inspector.widgets.panes.framework.pane import Entry, Pane
from inspector.widgets.variants import Variant


class StatsRow(TypedDict):
    """One number of a variant. With a `reason` it is not known: None, or known in part.

    Attributes:
      word: precedes a `value` that is known in part: "at least" or "about"; else "".
    """

    key: str
    label: str
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
    """See the module."""

    def preview(self, variant: Variant, preview: Preview) -> Iterable[Entry]:
        """Those that are known."""
        return [_message(variant, stats(preview))]

    def compiled(self, variant: Variant, compiled: CompiledProgram) -> Iterable[Entry]:
        """All of them."""
        return [_message(variant, (*stats(compiled), *_total(compiled), *program_stats(compiled)))]


def _message(variant: Variant, rows: Iterable[Stat]) -> Stats:
    """Rows of the Stats pane; what is unknown, or known in part, carries its reason."""
    return Stats(
        type="stats",
        variant=variant.number,
        rows=[
            StatsRow(
                key=row.key,
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
    """What a variant's chip shows, beside the compile's own time; of what came from the cache it was another's."""
    total_s = compiled.timings.get("total_s")
    if total_s is None or is_from_cache(compiled):
        return ()
    return (Stat("total_s", "total time, with waiting and starting", "seconds", total_s),)
