"""The time of one compile by passes, and by phases for the rest.

Passes nest: a pipeline is a pass of the pipeline that runs it. A moment belongs to the innermost pass that is running,
or else to a phase, so that all parts sum to the whole.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from inspector import platforms
from inspector.errors import Unavailable

IMPORT = "StableHLO to HLO, until the first pass"
BETWEEN = "between passes: snapshots, scheduling, buffer assignment"
WHOLE = "the whole compile, whose passes were not timed"


@dataclasses.dataclass(frozen=True, slots=True)
class TimedPass:
    """A pass with its times: XLA's names, and seconds on any one clock."""

    pipeline: str
    name: str
    start_s: float
    end_s: float


@dataclasses.dataclass(frozen=True, slots=True)
class Phase:
    """A part of a compile in which no pass runs.

    Attributes:
      name: XLA's work in this phase.
      duration_s: duration in seconds.
    """

    name: str
    duration_s: float


@dataclasses.dataclass(frozen=True, slots=True)
class Span:
    """A compile on the clock of its passes.

    Attributes:
      start_s, end_s: start and end of the compile, in seconds.
      optimized_s: time at which the optimized HLO was written, None if it is unknown.
      platform: "cpu", "gpu" or "tpu".
    """

    start_s: float
    end_s: float
    optimized_s: float | None
    platform: str


def own_durations(timed: Sequence[TimedPass]) -> list[float]:
    """Returns, for each pass, the seconds in which no pass within it runs."""
    own = [each.end_s - each.start_s for each in timed]
    running: list[int] = []
    for number in _outermost_first(timed):
        each = timed[number]
        while running and timed[running[-1]].end_s <= each.start_s:
            running.pop()
        if running:
            own[running[-1]] -= max(0.0, min(each.end_s, timed[running[-1]].end_s) - each.start_s)
        running.append(number)
    return [max(0.0, seconds) for seconds in own]


def phases(timed: Sequence[TimedPass] | Unavailable, span: Span) -> tuple[Phase, ...]:
    """Returns the phases of a compile, whose durations and those of the passes sum to the whole."""
    whole = span.end_s - span.start_s
    if isinstance(timed, Unavailable) or not timed:
        return (Phase(WHOLE, whole),)
    first, last = min(t.start_s for t in timed), max(t.end_s for t in timed)
    before = min(max(0.0, first - span.start_s), whole)
    optimized = min(last if span.optimized_s is None else max(first, span.optimized_s), span.end_s)
    in_passes = sum(own_durations(timed))
    between = max(0.0, optimized - first - sum(own_durations([_until(optimized, t) for t in timed])))
    rest = max(0.0, whole - before - in_passes - between)
    return (
        Phase(IMPORT, before),
        Phase(BETWEEN, between),
        Phase(platforms.named(span.platform).back_end, rest),
    )


def _until(moment_s: float, timed: TimedPass) -> TimedPass:
    return dataclasses.replace(timed, start_s=min(timed.start_s, moment_s), end_s=min(timed.end_s, moment_s))


def _outermost_first(timed: Sequence[TimedPass]) -> list[int]:
    """Returns the indices in the order of starts; of passes with the same start, the one that ends last comes first."""
    return sorted(range(len(timed)), key=lambda n: (timed[n].start_s, -timed[n].end_s, -n))
