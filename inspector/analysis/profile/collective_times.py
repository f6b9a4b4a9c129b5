"""The measured times of a program's collectives."""

from __future__ import annotations

from collections.abc import Mapping

from inspector.analysis.collectives.collective import Collective
from inspector.analysis.cost.roofline_columns import NOT_MEASURED
from inspector.errors import Unavailable


def collective_time(collective: Collective, times: Mapping[str, float]) -> float | Unavailable:
    """Returns the measured time of a collective in one execution of the program on one device, in seconds.

    The start and the done of an asynchronous collective are joined: the sum is the time in which the device sends, receives or
    waits, without the work in between.

    Args:
      collective: a collective of the profiled module.
      times: `Profile.execution_times` of that module.
    """
    known = [times[name] for name in (collective.name, collective.done) if name in times]
    return sum(known) if known else NOT_MEASURED
