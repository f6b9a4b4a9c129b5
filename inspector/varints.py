"""Integers of as many bytes as they need, as protobuf and its like write them and as MLIR's bytecode does."""

from __future__ import annotations

import mmap

import numpy as np
import numpy.typing as npt

_MOST_BYTES = 10  # of 64 bits
_BYTES_OF_31_BITS = 4


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


def varint_ends(data: bytes) -> npt.NDArray[np.int64]:
    """The last byte of each integer of data that hold nothing else.

    Raises:
      ValueError: the data end within one.
    """
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) < 0x80)
    if data and data[-1] >= 0x80:
        raise ValueError(f"{len(data)} bytes end within an integer")
    return ends


def varints_at(data: bytes, ends: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The integers that end with some bytes, of 64 bits with a sign, as protobuf's `int64`; of the shape of `ends`.

    Args:
      data: integers only.
      ends: some of `varint_ends(data)`.

    Raises:
      ValueError: one is longer than 64 bits.
    """
    octets, ends = np.frombuffer(data, np.uint8), np.ascontiguousarray(ends)
    values: npt.NDArray[np.int32] | npt.NDArray[np.int64] = octets[ends].astype(np.int32)
    going_on: npt.NDArray[np.bool_] = np.ones(1, np.bool_)
    for index in range(1, _MOST_BYTES + 1):
        before = octets[ends - index]  # before the first byte comes the last one, with which an integer ends
        going_on = going_on & (before >= 0x80)
        if not going_on.any():
            return values.astype(np.int64)
        if index == _BYTES_OF_31_BITS:
            values = values.astype(np.int64)
        values = np.where(going_on, values << 7 | before & 0x7F, values)
    raise ValueError(f"an integer has more than {_MOST_BYTES} bytes")


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
