"""The fields of single protobuf messages: planes, lines and their metadata. Events are read in columns (`xspace.py`)."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.support.varints import read_varint

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
_SIZES = {FIXED64: 8, FIXED32: 4}


def fields(data: bytes, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yields number, wire type, start and end of each field of a message; for an integer, its value instead of the start.

    Args:
      data: the bytes.
      at: the start of the message.
      end: its end.

    Raises:
      ValueError: the range does not contain a message.
    """
    while at < end:
        tag, at = (data[at], at + 1) if data[at] < 0x80 else read_varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == VARINT:
            value, at = (data[at], at + 1) if data[at] < 0x80 else read_varint(data, at)
            begin = value
        elif kind == LENGTH:
            size, begin = (data[at], at + 1) if data[at] < 0x80 else read_varint(data, at)
            at = begin + size
        else:
            begin, at = at, at + _SIZES.get(kind, len(data) + 1)
        if at > end or not number:
            raise ValueError(
                f"field {number} of wire type {kind} ends at byte {at}, after its message, which ends at {end}"
            )
        yield number, kind, begin, at


def signed(value: int) -> int:
    """Returns an integer of protobuf's type `int64`."""
    return value - (1 << 64) if value > 0 and value >> 63 else value


def text(data: bytes, begin: int, end: int) -> str:
    """Decodes a text; invalid characters are replaced."""
    return data[begin:end].decode(errors="replace")


def events_of(
    data: bytes, at: int, end: int, begins: list[int], ends: list[int]
) -> Iterator[tuple[int, int, int, int]]:
    """Yields the fields of a line except its events, whose ranges are appended to `begins` and `ends`.

    This loop runs for every event of a profile, so it avoids function calls.

    Raises:
      ValueError: the range does not contain a line.
    """
    while at < end:
        if data[at] != _EVENT:
            begin = at
            at = _end_of(data, at, end)
            yield from fields(data, begin, at)
            continue
        size = data[at + 1]
        if size < 0x80:
            at += 2
        elif data[at + 2] < 0x80:
            size += (data[at + 2] << 7) - 0x80
            at += 3
        else:
            size, at = read_varint(data, at + 1)
        begins.append(at)
        at += size
        ends.append(at)
    if at > end:
        raise ValueError("an event ends after its line")


_EVENT = 4 << 3 | LENGTH


def _end_of(data: bytes, at: int, end: int) -> int:
    tag, at = read_varint(data, at)
    kind = tag & 7
    if kind == VARINT:
        return read_varint(data, at)[1]
    if kind == LENGTH:
        size, at = read_varint(data, at)
        return at + size
    return at + _SIZES.get(kind, end + 1)
