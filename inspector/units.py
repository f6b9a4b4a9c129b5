"""Numbers for people: bytes, seconds and operation counts, as text.

Values inside inspector are plain numbers in base units (bytes, seconds, flops), with the unit in
the name. Only text for a reader is formatted, and only here.
"""

from __future__ import annotations

from inspector.errors import Unavailable

_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_DECIMAL = ("", "k", "M", "G", "T", "P", "E")


def format_bytes(value: float | Unavailable) -> str:
    """`1536` -> `1.5 KiB`. Powers of 1024; exact below 1 KiB."""
    if isinstance(value, Unavailable):
        return str(value)
    return _scaled(value, 1024, _BINARY, separator=" ")


def format_count(value: float | Unavailable, unit: str = "") -> str:
    """`2_500_000, "flop"` -> `2.5 Mflop`. Powers of 1000; exact below 1000."""
    if isinstance(value, Unavailable):
        return str(value)
    return _scaled(value, 1000, tuple(prefix + unit for prefix in _DECIMAL), separator=" " if unit else "")


def format_seconds(value: float | Unavailable) -> str:
    """`0.00125` -> `1.25 ms`. Three significant digits."""
    if isinstance(value, Unavailable):
        return str(value)
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if abs(value) >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns" if value else "0 s"


def _scaled(value: float, base: int, units: tuple[str, ...], separator: str) -> str:
    power = 0
    scaled = float(value)
    while abs(scaled) >= base and power < len(units) - 1:
        scaled /= base
        power += 1
    number = f"{scaled:.0f}" if power == 0 and scaled == int(scaled) else f"{scaled:.3g}" if abs(scaled) < 1000 else f"{scaled:.0f}"
    return (number + separator + units[power]).strip()
