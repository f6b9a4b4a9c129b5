"""Variable-length integers of protobuf and of MLIR bytecode."""

from __future__ import annotations

import mmap

_MOST_BYTES = 10  # of 64 bits


def read_varint(data: bytes | mmap.mmap, position: int = 0) -> tuple[int, int]:
    """Reads the integer at a position: seven bits per byte, lowest bits first.

    Returns:
      The integer, and the position after it.

    Raises:
      ValueError: the data end within the integer, or it is longer than 64 bits.
    """
    value = 0
    for index, byte in enumerate(data[position : position + _MOST_BYTES]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, position + index + 1
    raise ValueError(f"no integer of at most {_MOST_BYTES} bytes at byte {position} of {len(data)}")


def write_varint(value: int) -> bytes:
    """Encodes an integer for `read_varint`."""
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])


def read_mlir_varint(data: bytes, position: int = 0) -> tuple[int, int]:
    """Reads the MLIR integer at a position. Returns it and the position after it.

    The number of trailing zero bits of the first byte is the number of bytes that follow; 0 means eight.
    """
    first = data[position]
    more = (first & -first).bit_length() - 1 if first else 8
    end = position + more + 1
    if not first:
        return int.from_bytes(data[position + 1 : end], "little"), end
    return int.from_bytes(data[position:end], "little") >> (more + 1), end
