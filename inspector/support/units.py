"""Numbers for people: bytes, seconds and operation counts, as text.

Values inside inspector are plain numbers in base units (bytes, seconds, flops), with the unit in
the name. Only text for a reader is formatted, and only here; so is text of a writer read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal

from inspector.errors import ParameterError, Partial, Unavailable

_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_DECIMAL = ("", "k", "M", "G", "T", "P", "E")


def format_bytes(value: float | Unavailable) -> str:
    """`1536` -> `1.5 KiB`. Powers of 1024; exact below 1 KiB."""
    return _said(value, lambda known: _scaled(known, 1024, _BINARY, separator=" "))


def format_count(value: float | Unavailable, unit: str = "") -> str:
    """`2_500_000, "flop"` -> `2.5 Mflop`. Powers of 1000; exact below 1000."""
    prefixed = tuple(prefix + unit for prefix in _DECIMAL)
    return _said(value, lambda known: _scaled(known, 1000, prefixed, separator=" " if unit else ""))


def format_seconds(value: float | Unavailable) -> str:
    """`0.00125` -> `1.25 ms`. Three significant digits."""
    return _said(value, _seconds)


def parse_bytes(given: float | str) -> float:
    """`"1.5 KiB"` -> `1536.0`; also `"1 MB"` (a million), and a number as it is.

    Raises:
      ParameterError: none, or less than 0.
    """
    decimal = {f"{prefix}b": 1000.0**power for power, prefix in enumerate("kmgtp", 1)}
    binary = {unit.lower(): 1024.0**power for power, unit in enumerate(_BINARY)}
    return _parsed(given, {"": 1.0, "bytes": 1.0, **decimal, **binary}, "a number of bytes, such as 4096 or '1.5 GiB'")


def parse_count(given: float | str, unit: str = "") -> float:
    """`"2.5 Mflop", "flop"` -> `2500000.0`; the unit may be left out, and a number is taken as it is.

    Raises:
      ParameterError: none, or less than 0.
    """
    scales = {prefix.lower() + said: 1000.0**power for power, prefix in enumerate(_DECIMAL) for said in {"", unit}}
    return _parsed(given, scales, f"a number, such as 4000 or '2.5 M{unit}'")


def _parsed(given: float | str, scales: Mapping[str, float], expected: str) -> float:
    number, unit = given, ""
    if isinstance(given, str):
        text = given.strip().replace("_", "")
        number = text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ").strip()
        unit = text[len(number) :].strip().lower()
    try:
        value = math.nan if isinstance(given, bool) else float(number) * scales[unit]
    except (KeyError, TypeError, ValueError):
        value = math.nan
    if not value >= 0:
        raise ParameterError(f"Expected {expected}, got {given!r}.")
    return value


def _said(value: float | Unavailable, form: Callable[[float], str]) -> str:
    """A number as `form` writes it; one known in part as "at least 4.18 kflop; 1 custom call not counted"."""
    if isinstance(value, Unavailable):
        return str(value)
    return f"{value.word} {form(float(value))}; {value.reason}" if isinstance(value, Partial) else form(value)


def _seconds(value: float) -> str:
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if abs(value) >= scale * _ROUNDS_UP:
            return f"{_three_digits(value / scale)} {unit}"
    return f"{_three_digits(value / 1e-9)} ns" if value else "0 s"


def counted(number: int, noun: str, plural: str = "") -> str:
    """`1, "variant"` -> `1 variant`, `2000` -> `2,000 variants`.

    Args:
      number: how many.
      noun: in the singular.
      plural: where it is not the singular with an "s".
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def format_change(new: float, old: float) -> str:
    """A change relative to the old value, in percent or, from ten times on, as a factor: `+5.0%`, `−20.0%`, `x 576`.

    Args:
      new: 0 or more.
      old: above 0.
    """
    ratio = new / old
    if ratio >= _FACTOR:
        return f"x {_three_digits(ratio)}"
    return f"{'−' if ratio < 1 else '+'}{abs(ratio - 1):.1%}"


def format_array(dtype: str, shape: Sequence[int]) -> str:
    """`"float32", (2, 3)` -> `float32[2, 3]`."""
    return f"{dtype}[{', '.join(map(str, shape))}]"


def format_list(items: Sequence[str], most: int = 6) -> str:
    """The first of them, with the number of the others: `a, b, ... 40 more`."""
    rest = len(items) - most
    return ", ".join([*items[:most], *([f"... {rest} more"] if rest > 0 else [])])


def _scaled(value: float, base: int, units: tuple[str, ...], separator: str) -> str:
    power = 0
    scaled = float(value)
    while abs(scaled) >= base * _ROUNDS_UP and power < len(units) - 1:
        if power == 0 and scaled.is_integer() and abs(scaled) < base:
            break  # counted, not rounded
        scaled /= base
        power += 1
    return (_three_digits(scaled) + separator + units[power]).strip()


_FACTOR = 10  # larger changes are hard to read in percent
# Three digits of 999.6 are 1000, which belongs to the next unit.
_ROUNDS_UP = 0.9995


def _three_digits(value: float) -> str:
    """Three significant digits, more where they stand before the point; never with an exponent.

    A half is rounded up, as the browser's `toPrecision` does: 544.5 is 545 in a pane and in a table.
    """
    exact = Decimal(value)
    places = max(0, 2 - exact.adjusted()) if exact else 0
    rounded = exact.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP)
    return f"{rounded:f}".rstrip("0").rstrip(".") if places else f"{rounded:f}"
