"""The numbers of a variant, for the Stats pane."""

from __future__ import annotations

from inspector.analysis.stats import program_stats, stats
from inspector.compilation.compiled import Compiled, Cost
from inspector.errors import Unavailable
from inspector.widgets import messages


def stats_message(variant: int, compiled: Compiled, counted: Cost | None = None) -> messages.Stats:
    """Rows of the Stats pane; what is unknown carries its reason.

    Args:
      variant: its number.
      compiled: its program.
      counted: what stands in for a cost that the back end does not report.
    """
    return messages.Stats(
        type="stats",
        variant=variant,
        rows=[
            messages.StatsRow(
                key=row.key,
                label=row.label,
                unit=row.unit,
                value=None if isinstance(row.value, Unavailable) else float(row.value),
                reason=row.value.reason if isinstance(row.value, Unavailable) else None,
                less_is_better=row.less_is_better,
            )
            for row in (*stats(compiled, counted), *program_stats(compiled))
        ],
    )
