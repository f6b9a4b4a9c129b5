"""Comparison of a measured time with the estimate of the same work."""

from __future__ import annotations

from inspector.errors import AtLeast, Partial, Unavailable
from inspector.support.units import format_seconds

_TOLERANCE = 0.02  # of the clock and of the published figures


def contradiction(estimate_s: float | Unavailable, measured_s: float | Unavailable) -> str:
    """Returns a sentence if a measured time is shorter than the estimate of the same work; "" otherwise.

    An estimate is the time at the roof, so a shorter time shows that a figure is wrong: a count of operations or bytes, or a
    rate of the chip. For a CPU, rates are measured, and may be too low because the machine was busy.

    Args:
      estimate_s: the estimated time in seconds, for example a kernel's `least_s`; Unavailable if unknown.
      measured_s: the measured time in seconds; Unavailable if unknown.
    """
    if isinstance(estimate_s, Unavailable) or isinstance(measured_s, Unavailable):
        return ""
    if measured_s >= float(estimate_s) * (1 - _TOLERANCE):
        return ""
    times = f"measured {format_seconds(float(measured_s))}, estimated {_text(estimate_s)}"
    if isinstance(estimate_s, AtLeast):
        return f"{times}: a run cannot be faster than a lower bound, so a count or a rate is wrong"
    return f"{times}: faster than the estimate, so its operations or bytes are counted too high, or a roof is too low"


def _text(estimate_s: float) -> str:
    word = estimate_s.word if isinstance(estimate_s, Partial) else "about"
    return f"{word} {format_seconds(float(estimate_s))}"
