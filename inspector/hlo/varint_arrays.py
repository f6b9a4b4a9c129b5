"""Many integers of protobuf at once, where a view of each would cost more than the message: see `varints.py`."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_MOST_BYTES = 10  # of 64 bits
_BYTES_OF_31_BITS = 4
_WORD = np.dtype("<u4")


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
    ends = np.ascontiguousarray(ends)
    short = _of_three_bytes(data, ends)
    return _of_any_length(data, ends) if short is None else short.astype(np.int64)


def _of_three_bytes(data: bytes, ends: npt.NDArray[np.int64]) -> npt.NDArray[np.uint32] | None:
    """The same, where none has more bytes: four bytes of each are looked up at once. Else None."""
    padded = bytes(_WORD.itemsize - 1) + data  # zeros, with which an integer ends
    words = np.ndarray(len(data), _WORD, padded, strides=(1,))[ends]
    second, third = words >> 23 & 1, words >> 15 & 1
    third &= second
    if (third & words >> 7).any():
        return None
    values: npt.NDArray[np.uint32] = np.right_shift(words, 24, dtype=np.uint32)
    for is_there, byte in ((second, words >> 16 & 0x7F), (third, words >> 8 & 0x7F)):
        np.left_shift(values, 7 * is_there, out=values)
        np.bitwise_or(values, byte * is_there, out=values)
    return values


def _of_any_length(data: bytes, ends: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    octets = np.frombuffer(data, np.uint8)
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
