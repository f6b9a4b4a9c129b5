"""Own times of events that contain others, against counting every picosecond."""

from __future__ import annotations

import numpy as np
import pytest

from inspector.analysis.profile.nesting import busy, own_times, own_times_by_line

Event = tuple[int, int, int, bool, int]  # start, elapsed, depth, contains, group


def arrays(events: list[Event]) -> tuple[np.ndarray, ...]:
    start, elapsed, depth, contains, group = zip(*events, strict=True)
    return (
        *(np.array(each, np.int64) for each in (start, elapsed, depth)),
        np.array(contains),
        np.array(group, np.int64),
    )


def test_a_loop_has_the_time_in_which_nothing_in_it_ran() -> None:
    events = [
        (0, 100, 0, True, 0),
        (10, 20, 1, False, 0),
        (20, 30, 1, False, 0),
        (60, 5, 1, False, 0),
        (100, 9, 0, False, 0),
    ]
    assert own_times(*arrays(events)).tolist() == [100 - 40 - 5, 20, 30, 5, 9]


def test_loops_in_loops_and_other_executions() -> None:
    events = [
        (0, 100, 0, True, 0), (10, 50, 1, True, 0), (20, 10, 2, False, 0),  # 100 ps hold 50 ps, which hold 10 ps
        (0, 100, 0, True, 1),  # another execution at the same time holds nothing
    ]  # fmt: skip
    assert own_times(*arrays(events)).tolist() == [50, 40, 10, 100]


@pytest.mark.parametrize("seed", range(20))
def test_random_events_against_every_picosecond(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 40))
    start, elapsed = rng.integers(0, 100, count), rng.integers(0, 60, count)
    depth, group = rng.integers(0, 4, count), rng.integers(0, 3, count)
    contains = rng.random(count) < 0.4
    expected = []
    for s, e, d, c, g in zip(start, elapsed, depth, contains, group, strict=True):
        covered = np.zeros(200, bool)
        for s2, e2, d2, c2, g2 in zip(start, elapsed, depth, contains, group, strict=True):
            if c and (d2 > d or not c2) and g2 == g:
                covered[s2 : s2 + e2] = True
        expected.append(int((~covered[s : s + e]).sum()))
    assert own_times(start, elapsed, depth, contains, group).tolist() == expected
    union = np.zeros(200, bool)
    for s, e in zip(start, elapsed, strict=True):
        union[s : s + e] = True
    assert busy(start, elapsed) == int(union.sum())


def test_without_a_program_lines_show_what_contains_what() -> None:
    start = np.array([0, 10, 12, 50, 0, 90])
    elapsed = np.array([100, 20, 5, 10, 30, 20])  # the last one ends after the first, so it is not inside
    line = np.array([0, 0, 0, 0, 1, 0])
    assert own_times_by_line(start, elapsed, line).tolist() == [100 - 20 - 10, 15, 5, 10, 30, 20]
