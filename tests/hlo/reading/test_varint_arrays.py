"""Integers of protobuf, one by one and many at once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inspector.hlo.reading.varint_arrays import varint_ends, varints_at
from inspector.support.varints import read_varint, write_varint


@given(st.lists(st.integers(0, 2**21 + 100)) | st.lists(st.integers(0, 300) | st.integers(0, 2**64 - 1), max_size=20))
def test_many_at_once_are_those_one_by_one(integers: list[int]) -> None:
    data = b"".join(map(write_varint, integers))
    ends = varint_ends(data)
    assert len(ends) == len(integers)
    assert varints_at(data, ends).astype(np.uint64).tolist() == integers
    position, read = 0, []
    while position < len(data):
        value, position = read_varint(data, position)
        read.append(value)
    assert read == integers


def test_only_the_requested_integers_are_read() -> None:
    data = b"".join(map(write_varint, [1, 300, 70_000, 2**40, 5, 6]))
    ends = varint_ends(data).reshape(2, 3)
    assert varints_at(data, ends[:, :2]).tolist() == [[1, 300], [2**40, 5]]
    assert varints_at(data, ends[:, 2]).tolist() == [70_000, 6]


def test_invalid_integers_are_refused() -> None:
    with pytest.raises(ValueError, match="3 bytes end within an integer"):
        varint_ends(b"\x01\x80\x80")
    long = b"\x80" * 10 + b"\x01"
    with pytest.raises(ValueError, match="more than 10 bytes"):
        varints_at(long, varint_ends(long))
    with pytest.raises(ValueError, match="no integer of at most 10 bytes"):
        read_varint(long)
