"""Integers as protobuf and its like write them: seven bits a byte, the lowest first."""

from __future__ import annotations

import mmap

_MOST_BYTES = 10  # of 64 bits


def read_varint(data: bytes | mmap.mmap, position: int = 0) -> tuple[int, int]:
    """The integer at a position, and where it ends.

    Raises:
      ValueError: the data end within it, or it is longer than 64 bits.
    """
    value = 0
    for index, byte in enumerate(data[position : position + _MOST_BYTES]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, position + index + 1
    raise ValueError(f"no integer of at most {_MOST_BYTES} bytes at byte {position} of {len(data)}")
