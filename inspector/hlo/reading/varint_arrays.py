"""Parses many protobuf integers at once, which is faster than creating an object for each. See `varints.py`."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

_MOST_BYTES = 10  # of a 64-bit integer
_MOST_SHORT = 3  # bytes of most integers in long lists
_GOES_ON, _BITS = 0x80, 0x7F
_AT_ONCE = 1 << 15  # integers, so that intermediate values fit into the processor's cache

Octets: TypeAlias = npt.NDArray[np.uint8]


def varint_ends(data: bytes) -> npt.NDArray[np.int64]:
    """Returns the position of the last byte of each integer in data that consist of integers.

    Raises:
      ValueError: the data end within an integer.
    """
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) < 0x80)
    if data and data[-1] >= 0x80:
        raise ValueError(f"{len(data)} bytes end within an integer")
    return ends


def varints_at(data: bytes, ends: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Returns the signed 64-bit integers, as protobuf's `int64`, that end at the given bytes, in the shape of `ends`.

    Args:
      data: bytes that consist of integers.
      ends: some of the positions from `varint_ends(data)`.

    Raises:
      ValueError: an integer is longer than 64 bits.
    """
    octets = np.frombuffer(data, np.uint8)
    values = np.empty(ends.shape, np.int64)
    step = max(1, _AT_ONCE // max(1, math.prod(ends.shape[1:])))
    for begin in range(0, len(ends), step):
        part = np.ascontiguousarray(ends[begin : begin + step])
        short = _of_three_bytes(octets, part) if len(octets) > _MOST_SHORT else None
        values[begin : begin + step] = _of_any_length(octets, part) if short is None else short
    return values


def _of_three_bytes(octets: Octets, ends: npt.NDArray[np.int64]) -> npt.NDArray[np.int32] | None:
    """Parses integers of up to three bytes; None if any integer is longer."""
    second, third = (
        octets[ends - 1],
        octets[ends - 2],
    )  # index -1 before the first byte wraps to the last byte, which ends an integer
    has_two = second >= _GOES_ON
    has_three = has_two & (third >= _GOES_ON)
    if (has_three & (octets[ends - 3] >= _GOES_ON)).any():
        return None
    values = octets[ends].astype(np.int32)
    values = np.where(has_two, values << 7 | second & _BITS, values)
    return np.where(has_three, values << 7 | third & _BITS, values)


def _of_any_length(octets: Octets, ends: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    values = octets[ends].astype(np.int64)
    going_on: npt.NDArray[np.bool_] = np.ones(1, np.bool_)
    for index in range(1, _MOST_BYTES + 1):
        before = octets[ends - index]
        going_on = going_on & (before >= _GOES_ON)
        if not going_on.any():
            return values
        values = np.where(going_on, values << 7 | before & _BITS, values)
    raise ValueError(f"an integer has more than {_MOST_BYTES} bytes")
