"""The order in which the passes of one compile ended, and the pass that ran each pipeline.

Passes nest: a pass may be a pipeline itself (`simplification`), or run a pipeline in addition to its own work, as the
partitioner does with its cleanup.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from inspector.compilation.records.dump_names import START
from inspector.compilation.records.phases import TimedPass


@dataclasses.dataclass(frozen=True, slots=True)
class PassBoundary:
    """The end of a pass, or the start of a pipeline.

    Attributes:
      timed: the pass; for the start of a pipeline, an entry named `START`.
      is_in_pass: for the start of a pipeline, True if a pass that also does other work runs it.
    """

    timed: TimedPass
    is_in_pass: bool = False

    @property
    def is_start(self) -> bool:
        """Reports whether this is the start of a pipeline."""
        return self.timed.name == START


def events(timed: Sequence[TimedPass]) -> list[PassBoundary]:
    """Returns the ends of passes and the starts of pipelines, in the order of time.

    Args:
      timed: the passes. Those with the same start time are in the order in which they started, since clocks are coarse.
    """
    boundaries: list[PassBoundary] = []
    running: list[TimedPass] = []
    for each in sorted(timed, key=lambda t: t.start_s):
        while running and not _is_within(each, running[-1]):
            boundaries.append(PassBoundary(running.pop()))
        if each.name == START:
            boundaries.append(PassBoundary(each, _is_in_pass(each.pipeline, running)))
        else:
            running.append(each)
    return boundaries + [PassBoundary(each) for each in reversed(running)]


def _is_within(each: TimedPass, outer: TimedPass) -> bool:
    return each.pipeline != outer.pipeline and each.end_s <= outer.end_s


def _is_in_pass(pipeline: str, running: Sequence[TimedPass]) -> bool:
    """Reports whether any pass around a pipeline is more than a pipeline itself."""
    for outer in reversed(running):
        if outer.name != pipeline:
            return True
        pipeline = outer.pipeline
    return False
