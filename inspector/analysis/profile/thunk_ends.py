"""Ends of the thunks that XLA's CPU runtime executes.

A thunk may return before its work ends on other threads: of a large convolution, the event lasts 0.05 ms and the work 200 ms.
XLA then writes an event `end: NAME`, whose statistic `_c` is the thunk's `_p`. A pool thread that finishes the work first
executes the thunks that waited for it, and writes this event afterwards, possibly after the rest of the program. So the work
ends at the first of these:

1. the event `end: NAME`
2. the first thunk that the same pool thread starts in the task that finishes the work. A task begins with an event
   `ThreadpoolListener::StartRegion` and ends with `StopRegion`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from inspector.hlo.reading.byte_arrays import Numbers
from inspector.profiles.xspace import XPlane

_END = "end: "
_BEGIN, _LEAVE = "ThreadpoolListener::StartRegion", "ThreadpoolListener::StopRegion"


def elapsed_ps(plane: XPlane, thunks: Numbers) -> Numbers:
    """Returns the time from the start of each thunk until its work has ended, in picoseconds.

    Args:
      plane: the plane of the host's threads.
      thunks: indices of the events that are thunks.
    """
    elapsed = plane.duration_ps[thunks].copy()
    of_thunks, marks = _marks(plane, thunks)
    if not len(marks):
        return elapsed
    rows = thunks[of_thunks]
    until = np.minimum(plane.start_ps[marks], _continued_ps(plane, thunks, rows, marks))
    elapsed[of_thunks] = np.maximum(elapsed[of_thunks], until - plane.start_ps[rows])
    return elapsed


def _marks(plane: XPlane, thunks: Numbers) -> tuple[Numbers, Numbers]:
    """Returns which thunks have an event that marks their end, and the indices of these events."""
    nothing = np.zeros(0, np.int64)
    produced, consumed = plane.event_stats.get("_p"), plane.event_stats.get("_c")
    ends = _named(plane, lambda name: name.startswith(_END))
    if produced is None or consumed is None or not ends.any():
        return nothing, nothing
    marks = np.flatnonzero(ends & consumed.has_number)
    marks = marks[np.argsort(consumed.numbers[marks], kind="stable")]
    keys, ids = consumed.numbers[marks], produced.numbers[thunks]
    at = np.searchsorted(keys, ids)
    is_marked = produced.has_number[thunks] & (at < len(keys))
    is_marked[is_marked] = keys[at[is_marked]] == ids[is_marked]
    return np.flatnonzero(is_marked), marks[at[is_marked]]


def _continued_ps(plane: XPlane, thunks: Numbers, rows: Numbers, marks: Numbers) -> Numbers:
    """Returns the start of the first thunk that the thread of each mark executes in the task that ends the work.

    That of a mark without such a thunk is the mark's own.
    """
    is_begin = _named(plane, _BEGIN.__eq__)
    borders = np.flatnonzero(is_begin | _named(plane, _LEAVE.__eq__))
    lines, at_ps = plane.line[marks], plane.start_ps[marks]
    begun = _neighbor(plane, borders, lines, at_ps, is_before=True)
    is_in_task = (begun >= 0) & is_begin[begun] & (plane.start_ps[begun] >= plane.start_ps[rows])
    after_ps = np.where(is_in_task, plane.start_ps[begun], at_ps)
    following = _neighbor(plane, thunks, lines, after_ps, is_before=False)
    is_before_mark = is_in_task & (following >= 0) & (plane.start_ps[following] < at_ps)
    continued: Numbers = np.where(is_before_mark, plane.start_ps[following], at_ps)
    return continued


def _neighbor(plane: XPlane, events: Numbers, lines: Numbers, times_ps: Numbers, *, is_before: bool) -> Numbers:
    """Returns the last of some events on each line that starts at or before a time, or else the first one after it; -1 for none."""
    if not len(events):
        return np.full(len(lines), -1)
    # One axis on which the lines follow each other.
    span = int(plane.start_ps.max()) - int(plane.start_ps.min()) + 1
    origin = int(plane.start_ps.min())
    places = plane.line[events] * span + plane.start_ps[events] - origin
    order = np.argsort(places, kind="stable")
    index = np.searchsorted(places[order], lines * span + times_ps - origin, side="right") - is_before
    found = np.full(len(lines), -1)
    is_inside = (index >= 0) & (index < len(order))
    found[is_inside] = events[order[index[is_inside]]]
    is_elsewhere = (found >= 0) & (plane.line[found] != lines)
    found[is_elsewhere] = -1
    return found


def _named(plane: XPlane, matches: Callable[[str], bool]) -> npt.NDArray[np.bool_]:
    return np.array([matches(kind.name) for kind in plane.kinds] + [False], bool)[plane.kind]
