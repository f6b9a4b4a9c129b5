"""The numbers of a variant, for the Stats pane."""

from __future__ import annotations

from inspector.analysis.stats import Stat, program_stats, stats
from inspector.compilation.compiled import CompiledProgram
from inspector.errors import AtLeast, Unavailable
from inspector.widgets import messages


def stats_message(variant: int, compiled: CompiledProgram) -> messages.Stats:
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
            for row in (*stats(compiled), *_total(compiled), *program_stats(compiled))
        ],
    )


def _total(compiled: CompiledProgram) -> tuple[Stat, ...]:
    """What a variant's chip shows, beside the compile's own time; of what came from the cache it was another's."""
    total_s = compiled.timings.get("total_s")
    if total_s is None or compiled.from_cache:
        return ()
    return (Stat("total_s", "total time, with waiting and starting", "seconds", total_s),)
