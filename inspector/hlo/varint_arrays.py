"""Many integers of protobuf at once, where a view of each would cost more than the message: see `varints.py`."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_MOST_BYTES = 10  # of 64 bits
_BYTES_OF_31_BITS = 4


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
