"""Formats and parses bytes, seconds and operation counts.

Values inside inspector are plain numbers in base units (bytes, seconds, FLOPs), with the unit in the name. Numbers are
formatted for display, and parsed from user input, only in this module.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Literal

from inspector.errors import ParameterError, Partial, Unavailable
from inspector.support.notebook import short

_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_DECIMAL = ("", "k", "M", "G", "T", "P", "E")


Unit = Literal["bytes", "count", "seconds"]
"""Units of numbers."""


def format_number(value: float | Unavailable, unit: Unit) -> str:
    """Formats a number in its unit."""
    return {"bytes": format_bytes, "count": format_count, "seconds": format_seconds}[unit](value)


def format_bytes(value: float | Unavailable) -> str:
    """Formats bytes: `1536` -> `1.5 KiB`. Powers of 1024; exact below 1 KiB."""
    return _formatted(value, lambda known: _scaled(known, 1024, _BINARY, separator=" "))


def format_count(value: float | Unavailable, unit: str = "") -> str:
    """Formats a count: `2_500_000, "flop"` -> `2.5 Mflop`. Powers of 1000; exact below 1000."""
    prefixed = tuple(prefix + unit for prefix in _DECIMAL)
    return _formatted(value, lambda known: _scaled(known, 1000, prefixed, separator=" " if unit else ""))


def format_seconds(value: float | Unavailable) -> str:
    """Formats seconds: `0.00125` -> `1.25 ms`. Three significant digits."""
    return _formatted(value, _seconds)


def parse_bytes(amount: float | str) -> float:
    """Parses bytes: `"1.5 KiB"` -> `1536.0`. Also accepts `"1 MB"` (a million) and plain numbers.

    Raises:
      ParameterError: not a number, or less than 0.
    """
    decimal = {f"{prefix}b": 1000.0**power for power, prefix in enumerate("kmgtp", 1)}
    binary = {unit.lower(): 1024.0**power for power, unit in enumerate(_BINARY)}
    return _parsed(amount, {"": 1.0, "bytes": 1.0, **decimal, **binary}, "a number of bytes, such as 4096 or '1.5 GiB'")


def parse_seconds(amount: float | str) -> float:
    """Parses a duration: `"1.5 ms"` -> `0.0015`. Plain numbers are seconds.

    Raises:
      ParameterError: not a number, or less than 0.
    """
    text = amount.replace("µ", "u").replace("μ", "u") if isinstance(amount, str) else amount
    scales = {"": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "min": 60.0}
    return _parsed(text, scales, "a duration, such as 0.002 (seconds) or '2 ms'")


def parse_count(amount: float | str, unit: str = "") -> float:
    """Parses a count: `"2.5 Mflop", "flop"` -> `2500000.0`. The unit is optional, and plain numbers are accepted.

    Raises:
      ParameterError: not a number, or less than 0.
    """
    scales = {prefix.lower() + suffix: 1000.0**power for power, prefix in enumerate(_DECIMAL) for suffix in {"", unit}}
    return _parsed(amount, scales, f"a number, such as 4000 or '2.5 M{unit}'")


def _parsed(amount: float | str, scales: Mapping[str, float], expected: str) -> float:
    number, unit = amount, ""
    if isinstance(amount, str):
        text = amount.strip().replace("_", "")
        number = text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ").strip()
        unit = text[len(number) :].strip().lower()
    try:
        value = math.nan if isinstance(amount, bool) else float(number) * scales[unit]
    except (KeyError, TypeError, ValueError):
        value = math.nan
    if not value >= 0:
        raise ParameterError(f"Expected {expected}, got {short(amount)}.")
    return value


def _formatted(value: float | Unavailable, form: Callable[[float], str]) -> str:
    """Formats a number with `form`; a partly known one as "at least 4.18 kflop; 1 custom call not counted"."""
    if isinstance(value, Unavailable):
        return str(value)
    return f"{value.word} {form(float(value))}; {value.reason}" if isinstance(value, Partial) else form(value)


def _seconds(value: float) -> str:
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if abs(value) >= scale * _ROUNDS_UP:
            return f"{_three_digits(value / scale)} {unit}"
    return f"{_three_digits(value / 1e-9)} ns" if value else "0 s"


def counted(number: int, noun: str, plural: str = "") -> str:
    """Formats a number with a noun: `1, "variant"` -> `1 variant`, `2000` -> `2,000 variants`.

    Args:
      number: the count.
      noun: the singular noun.
      plural: the plural, if it is not the singular with an "s".
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def format_change(new: float, old: float) -> str:
    """Formats a change relative to the old value, in percent or, from a factor of ten on, as a factor.

    Examples: `+5.0%`, `−20.0%`, `x 576`.

    Args:
      new: the new value, 0 or more.
      old: the old value, above 0.
    """
    ratio = new / old
    if ratio >= _FACTOR:
        return f"x {_three_digits(ratio)}"
    return f"{'−' if ratio < 1 else '+'}{abs(ratio - 1):.1%}"


def format_array(dtype: str, shape: Sequence[int]) -> str:
    """Formats an array type: `"float32", (2, 3)` -> `float32[2, 3]`."""
    return f"{dtype}[{', '.join(map(str, shape))}]"


def format_list(items: Sequence[str], most: int = 6) -> str:
    """Formats the first items and the number of the others: `a, b, ... 40 more`."""
    rest = len(items) - most
    return ", ".join([*items[:most], *([f"... {rest} more"] if rest > 0 else [])])


def _scaled(value: float, base: int, units: tuple[str, ...], separator: str) -> str:
    power = 0
    scaled = float(value)
    while abs(scaled) >= base * _ROUNDS_UP and power < len(units) - 1:
        if power == 0 and scaled.is_integer() and abs(scaled) < base:
            break  # exact, not rounded
        scaled /= base
        power += 1
    return (_three_digits(scaled) + separator + units[power]).strip()


_FACTOR = 10  # larger changes are hard to read in percent
# 999.6 rounds to 1000 in three digits, which belongs to the next unit.
_ROUNDS_UP = 0.9995


def _three_digits(value: float) -> str:
    """Formats with three significant digits, or all digits of a larger integer part; never with an exponent.

    Halves round up, as in the browser's `toPrecision`, so 544.5 is 545 both in a pane and in a table.
    """
    exact = Decimal(value)
    places = max(0, 2 - exact.adjusted()) if exact else 0
    rounded = exact.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP)
    return f"{rounded:f}".rstrip("0").rstrip(".") if places else f"{rounded:f}"
