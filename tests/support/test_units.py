"""Numbers for people."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inspector.errors import ParameterError, Unavailable
from inspector.support.units import (
    counted,
    format_bytes,
    format_change,
    format_count,
    format_seconds,
    parse_bytes,
    parse_count,
)

PREFIX = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
BINARY = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50}
SECONDS = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 B"), (1, "1 B"), (1023, "1023 B"), (1024, "1 KiB"), (1536, "1.5 KiB"), (1000 * 1024, "1000 KiB"),
        (1024**2 - 1, "1 MiB"), (3.5 * 2**30, "3.5 GiB"), (2**60, "1024 PiB"), (-2048, "-2 KiB"),
    ],
)  # fmt: skip
def test_bytes(value: float, text: str) -> None:
    assert format_bytes(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 flop"),
        (999, "999 flop"),
        (999.9, "1 kflop"),
        (1000, "1 kflop"),
        (999_999, "1 Mflop"),
        (2_500_000, "2.5 Mflop"),
    ],
)
def test_counts(value: float, text: str) -> None:
    assert format_count(value, "flop") == text
    assert format_count(1234) == "1.23k"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 s"), (0.00125, "1.25 ms"), (0.0009999, "1 ms"), (0.9999, "1 s"), (1e-6, "1 µs"), (2.5e-9, "2.5 ns"), (61, "61 s"), (12345.6, "12346 s")],
)  # fmt: skip
def test_seconds(value: float, text: str) -> None:
    assert format_seconds(value) == text


def test_a_half_is_rounded_as_in_the_browser() -> None:  # the same pairs are in frontend/test/format.test.ts
    assert [format_bytes(value) for value in (557_568, 558_592, 1_048_064)] == ["545 KiB", "546 KiB", "1 MiB"]
    assert [format_count(value) for value in (2_625, 999.9)] == ["2.63k", "1k"]
    assert format_seconds(0.0009999) == "1 ms"


@given(st.floats(1e-9, 1e20))
def test_text_reads_back_to_three_digits_and_has_no_exponent(value: float) -> None:
    for text, units in ((format_bytes(value), BINARY), (format_count(value), PREFIX), (format_seconds(value), SECONDS)):
        match = re.fullmatch(r"([0-9.]+(?:e-\d+)?) ?(\D*)", text)
        assert match, text
        assert "e+" not in text
        assert float(match.group(1)) * units[match.group(2)] == pytest.approx(value, rel=0.006)


def test_unknown_quantities_show_their_reason() -> None:
    for form in (format_bytes, format_count, format_seconds):
        assert form(Unavailable("no such counter")) == "unavailable: no such counter"


@pytest.mark.parametrize(
    ("given", "number"),
    [
        (4096, 4096), ("4096", 4096), ("512 B", 512), ("1.5 KiB", 1536), ("1gib", 2**30), ("1 MB", 1e6), ("1_000 bytes", 1000),
        (0.5, 0.5), ("0", 0),
    ],
)  # fmt: skip
def test_bytes_are_read(given: Any, number: float) -> None:
    assert parse_bytes(given) == number


@given(st.integers(0, 2**60))
def test_written_bytes_are_read_to_three_digits(value: int) -> None:
    assert parse_bytes(format_bytes(value)) == pytest.approx(value, rel=6e-3)
    assert parse_count(format_count(value, "flop"), "flop") == pytest.approx(value, rel=6e-3)


@pytest.mark.parametrize(("text", "number"), [("2.5 Mflop", 2.5e6), ("2.5M", 2.5e6), ("1e3", 1000), ("3 k", 3000)])
def test_counts_are_read(text: str, number: float) -> None:
    assert parse_count(text, "flop") == number


@pytest.mark.parametrize("given", ["", "much", "1 GiBB", "-1", -1, None, True, "nan", "1 flop flop", [1], "1 KiB 2"])
def test_invalid_amounts_are_refused(given: Any) -> None:
    for read in (parse_bytes, parse_count):
        with pytest.raises(ParameterError, match=r"Expected .*, got "):
            read(given)


@pytest.mark.parametrize(
    ("number", "words", "text"),
    [(1, ("variant",), "1 variant"), (0, ("file",), "0 files"), (2000, ("file",), "2,000 files"), (2, ("entry", "entries"), "2 entries")],
)  # fmt: skip
def test_counted_things(number: int, words: tuple[str, ...], text: str) -> None:
    assert counted(number, *words) == text


@pytest.mark.parametrize(
    ("new", "old", "text"),
    [(105, 100, "+5.0%"), (80, 100, "−20.0%"), (999, 100, "+899.0%"), (576, 1, "x 576"), (1000, 100, "x 10"), (0, 4, "−100.0%")],
)  # fmt: skip
def test_changes(new: float, old: float, text: str) -> None:
    assert format_change(new, old) == text
