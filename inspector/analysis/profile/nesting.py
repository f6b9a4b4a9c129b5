"""Time of events without the events that they contain, so that no time is counted twice.

A `while`, `call` or `conditional` lasts as long as the instructions of the computations that it calls. Its own time is the
part in which none of these ran, and no kernel after it: its event may end late, as that of a thunk (`thunk_ends.py`).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from inspector.hlo.reading.byte_arrays import Numbers


def own_times(
    start: Numbers, elapsed: Numbers, depth: Numbers, contains: npt.NDArray[np.bool_], group: Numbers
) -> Numbers:
    """Returns the time of each event; for one that contains others, without their time and that of all kernels meanwhile.

    Args:
      start: start of each event.
      elapsed: length of each event.
      depth: the number of calls that lead to its instruction.
      contains: whether its instruction calls computations whose instructions have events. Others keep their time.
      group: the execution of each event. Only events of the same execution contain each other.
    """
    own = elapsed.copy()
    if not contains.any():
        return own
    at = _in_sequence(start, elapsed, group)
    for level in np.unique(depth[contains]).tolist():
        outer, inner = contains & (depth == level), (depth > level) | ~contains
        begins, ends, covered = _union(at[inner], at[inner] + elapsed[inner])
        until = _covered(begins, ends, covered, at[outer] + elapsed[outer])
        own[outer] -= until - _covered(begins, ends, covered, at[outer])
    return own


def own_times_by_line(start: Numbers, elapsed: Numbers, line: Numbers) -> Numbers:
    """Returns the time of each event without the events of its line that it contains, for events without a known program."""
    own = elapsed.copy()
    order = np.lexsort((-elapsed, start, line)).tolist()
    starts, ends, lines = start.tolist(), (start + elapsed).tolist(), line.tolist()
    open_events: list[int] = []
    for event in order:
        while open_events and (lines[open_events[-1]] != lines[event] or ends[open_events[-1]] <= starts[event]):
            open_events.pop()
        if open_events and ends[event] <= ends[open_events[-1]]:
            own[open_events[-1]] -= elapsed[event]
            open_events.append(event)
        elif not open_events:
            open_events.append(event)
    return own


def busy(start: Numbers, elapsed: Numbers) -> int:
    """Returns the time in which at least one event ran."""
    begins, ends, _ = _union(start, start + elapsed)
    return int((ends - begins).sum())


def _in_sequence(start: Numbers, elapsed: Numbers, group: Numbers) -> Numbers:
    """Returns starts on an axis on which groups follow one another without overlapping."""
    _, codes = np.unique(group, return_inverse=True)
    count = int(codes.max()) + 1
    first, last = np.full(count, np.iinfo(np.int64).max), np.full(count, np.iinfo(np.int64).min)
    np.minimum.at(first, codes, start)
    np.maximum.at(last, codes, start + elapsed)
    offsets = np.append(0, np.cumsum(last - first))[:-1]
    moved: Numbers = start - first[codes] + offsets[codes]
    return moved


def _union(begins: Numbers, ends: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Returns the starts and ends of the union of intervals, and the covered time before each."""
    if not len(begins):
        empty = np.zeros(0, np.int64)
        return empty, empty, empty
    order = np.argsort(begins, kind="stable")
    begins, ends = begins[order], np.maximum.accumulate(ends[order])
    is_first = np.append(True, begins[1:] > ends[:-1])
    firsts = np.flatnonzero(is_first)
    starts, until = begins[firsts], ends[np.append(firsts[1:], len(ends)) - 1]
    return starts, until, np.append(0, np.cumsum(until - starts))[:-1]


def _covered(begins: Numbers, ends: Numbers, covered: Numbers, at: Numbers) -> Numbers:
    """Returns the time before each position that the union covers."""
    if not len(begins):
        return np.zeros(len(at), np.int64)
    index = np.searchsorted(begins, at, side="right") - 1
    inside = index >= 0
    index = np.maximum(index, 0)
    return np.where(inside, covered[index] + np.minimum(at, ends[index]) - begins[index], 0)
