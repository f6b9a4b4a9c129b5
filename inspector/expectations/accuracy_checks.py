"""Checks of accuracy: the results agree with a reference in which every floating-point value has 64 bits."""

from __future__ import annotations

from inspector.errors import Unavailable
from inspector.expectations.check_result import CheckResult, TableLine
from inspector.stages.accuracy_result import ACCURACY_COLUMNS, Accuracy
from inspector.stages.departure import Departure


def check(measured: Accuracy, rtol: float | None, atol: float | None) -> CheckResult:
    """Checks that no result of the first variant is wrong.

    Args:
      measured: the measurement.
      rtol: its relative tolerance, for the message; None for the default.
      atol: its absolute tolerance, likewise.
    """
    variant = measured.variants[0]
    verdict = variant.verdict
    known = {"rtol": rtol, "atol": atol}
    given = ", ".join(f"{name} {value:g}" for name, value in known.items() if value is not None)
    frames = variant.departure.frames if isinstance(variant.departure, Departure) else ()
    lines = tuple(
        TableLine(
            ACCURACY_COLUMNS.texts("check", row), frames, is_against=getattr(row.output, "verdict", "") == "wrong"
        )
        for row in measured.rows()
    )
    return CheckResult(
        what="results against 64-bit values",
        expected=f"errors within {given}" if given else "errors within the tolerance of each type",
        got=variant.words,
        is_met=verdict if isinstance(verdict, Unavailable) else verdict != "wrong",
        columns=ACCURACY_COLUMNS.titles("check"),
        lines=lines,
        advice="; ".join(measured.remarks),
    )
