"""Limits, and unknown numbers."""

from __future__ import annotations

from typing import Any

import pytest

from inspector.errors import AtLeast, Missing, ParameterError, Unavailable
from inspector.expectations.limits import Limit
from inspector.support.units import format_bytes, format_count, parse_bytes, parse_count

KNOWN_IN_PART = AtLeast(5, [Missing("call", "custom call")])


@pytest.mark.parametrize(
    ("limits", "value", "met"),
    [
        ((2, None, None), 2, True), ((2, None, None), 3, False), ((0, None, None), 0, True), ((0, None, None), 1, False),
        ((None, 2, None), 2, True), ((None, 2, None), 2.5, False), ((None, None, 2), 1, False), ((None, None, 2), 9, True),
        ((None, 4, 2), 3, True), ((None, 4, 2), 1, False), ((None, 4, 2), 5, False),
    ],
)  # fmt: skip
def test_a_number_is_within_or_not(limits: tuple[Any, Any, Any], value: float, met: bool) -> None:
    assert Limit.of(*limits, parse_count).judge(value) is met


def test_unknown_values_are_never_within_a_limit() -> None:
    unknown = Unavailable("nobody counts")
    for bound in (Limit(None, 9), Limit(0, None), Limit(5, 5)):
        assert bound.judge(unknown) is unknown


def test_partially_known_values_are_judged_where_possible() -> None:
    assert Limit(None, 4).judge(KNOWN_IN_PART) is False
    assert Limit(5, None).judge(KNOWN_IN_PART) is True
    for bound in (Limit(None, 6), Limit(6, None), Limit(5, 5), Limit(1, 9)):
        judged = bound.judge(KNOWN_IN_PART)
        assert isinstance(judged, Unavailable)
        assert "1 custom call not counted" in judged.reason


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ((None, None, None), "Give a limit"),
        ((1, 2, None), "Give a limit"),
        ((None, 1, 2), "at_least=2 is greater than at_most=1"),
        ((None, "much", None), "Expected a number of bytes, such as 4096 or '1.5 GiB', got 'much'"),
        ((None, -1, None), "got -1"),
        ((None, True, None), "got True"),
    ],
)
def test_invalid_limits_are_refused(limits: tuple[Any, Any, Any], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        Limit.of(*limits, parse_bytes)


def test_limits_in_words() -> None:
    assert Limit(None, 2**30).words(format_bytes) == "at most 1 GiB"
    assert Limit(1, 3).words(format_count) == "at least 1, at most 3"
    assert Limit(2, 2).words(format_count) == "exactly 2"
    assert Limit(0, 0).words(format_count) == "none"
