"""The numbers of a variant, for the Stats pane."""

from __future__ import annotations

from inspector.analysis.stats import program_stats, stats
from inspector.compilation.compiled import Compiled
from inspector.errors import AtLeast, Unavailable
from inspector.widgets import messages


def stats_message(variant: int, compiled: Compiled) -> messages.Stats:
    """Rows of the Stats pane; what is unknown, or known in part, carries its reason.

    Args:
      variant: its number.
      compiled: its program.
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
                reason=row.value.reason if isinstance(row.value, (Unavailable, AtLeast)) else None,
                less_is_better=row.less_is_better,
            )
            for row in (*stats(compiled), *program_stats(compiled))
        ],
    )
