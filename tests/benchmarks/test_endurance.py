"""A kernel in which Explorers come and go does not grow."""

from __future__ import annotations

import pytest

from benchmarks import endurance


@pytest.mark.slow
def test_explores_leave_nothing() -> None:
    course = endurance._course("explores", "mlp", 100)
    assert course.toggles[-1] == 100
    assert endurance.growth_since_tenth(course) < endurance.AIM_EXPLORES_BYTES
    assert course.maps[-1] - course.maps[0] < endurance.AIM_MAPS_PER_1000
