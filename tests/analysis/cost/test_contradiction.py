"""A run that is faster than its estimate."""

from __future__ import annotations

import pytest

from inspector.analysis.cost.contradiction import contradiction
from inspector.errors import About, AtLeast, Missing, Unavailable

PART = [Missing("call", "custom call")]
NONE = Unavailable("not measured")


@pytest.mark.parametrize(
    ("estimate_s", "measured_s"),
    [(1e-3, 1e-3), (1e-3, 2e-3), (1e-3, 0.99e-3), (AtLeast(1e-3, PART), 1e-3), (NONE, 1e-3), (1e-3, NONE), (0.0, 0.0)],
)
def test_a_run_at_the_roof_or_slower_agrees(estimate_s: float | Unavailable, measured_s: float | Unavailable) -> None:
    assert contradiction(estimate_s, measured_s) == ""


@pytest.mark.parametrize(
    ("estimate_s", "words", "reason"),
    [
        (2e-3, "estimated about 2 ms", "faster than the estimate"),
        (About(2e-3, PART), "estimated about 2 ms", "faster than the estimate"),
        (AtLeast(2e-3, PART), "estimated at least 2 ms", "cannot be faster than a lower bound"),
    ],
)
def test_a_faster_run_contradicts(estimate_s: float, words: str, reason: str) -> None:
    text = contradiction(estimate_s, 1e-3)
    assert text.startswith("measured 1 ms, ")
    assert words in text
    assert reason in text
