"""Integers of as many bytes as they need, as protobuf and its like write them and as MLIR's bytecode does."""

from __future__ import annotations

import mmap

_MOST_BYTES = 10  # of 64 bits


def read_varint(data: bytes | mmap.mmap, position: int = 0) -> tuple[int, int]:
    """The integer at a position, seven bits a byte and the lowest first, and where it ends.

    Raises:
      ValueError: the data end within it, or it is longer than 64 bits.
    """
    value = 0
    for index, byte in enumerate(data[position : position + _MOST_BYTES]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, position + index + 1
    raise ValueError(f"no integer of at most {_MOST_BYTES} bytes at byte {position} of {len(data)}")


def write_varint(value: int) -> bytes:
    """What `read_varint` reads."""
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])


def read_mlir_varint(data: bytes, position: int = 0) -> tuple[int, int]:
    """MLIR's integer at a position, and where it ends.

    The first byte has as many zero bits at its low end as bytes follow; it is 0 for eight.
    """
    first = data[position]
    more = (first & -first).bit_length() - 1 if first else 8
    end = position + more + 1
    if not first:
        return int.from_bytes(data[position + 1 : end], "little"), end
    return int.from_bytes(data[position:end], "little") >> (more + 1), end
