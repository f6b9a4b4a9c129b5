"""Bytes that are read at many positions at once, against the same one by one."""

from __future__ import annotations

import random

import numpy as np
import numpy.typing as npt
import pytest

from inspector.errors import ModuleError
from inspector.hlo.reading.byte_arrays import ByteRanges, Octets
from inspector.support.varints import write_varint

EDGES = [0, 1, 127, 128, 300, 1 << 14, (1 << 56) - 1, 1 << 56, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]


def signed(value: int) -> int:
    return value - (value >> 63 << 64)


@pytest.mark.parametrize("values", [EDGES, EDGES[:3] * 5, [1 << 40] * 7])
def test_integers_at_positions(values: list[int]) -> None:
    written = [write_varint(value) for value in values]
    begins = np.cumsum([0, *map(len, written)])
    found, behind = Octets(written).varints(begins[:-1])
    assert found.tolist() == [*map(signed, values)]
    assert behind.tolist() == begins[1:].tolist()


def test_an_integer_of_more_than_64_bits_is_damage() -> None:
    with pytest.raises(ModuleError, match="more than 64 bits"):
        Octets([b"\x80" * 10 + b"\x01"]).varints(np.array([0]))


def test_lists_of_integers() -> None:
    lists = [[1, 1 << 40, 3], [5], [1 << 63, 2]]
    written = [b"".join(map(write_varint, each)) for each in lists]
    octets = Octets([b"before", *written])
    offsets, values = octets.lists(spans([6, *map(len, written)])[1:])
    assert offsets.tolist() == [0, 3, 4, 6]
    assert values.tolist() == [signed(value) for each in lists for value in each]
    with pytest.raises(ModuleError, match="more than 64 bits"):
        Octets([b"\xff" * 10 + b"\x01"]).lists(spans([11]))
    with pytest.raises(ModuleError, match="does not end"):
        octets.lists(ByteRanges(np.array([6]), np.array([len(written[0]) - 4])))
    assert [each.tolist() for each in octets.lists(spans([]))] == [[0], []]


@pytest.mark.parametrize("seed", range(5))
def test_lists_of_all_lengths(seed: int) -> None:
    source = random.Random(seed)
    lists = [[source.choice(EDGES) for _ in range(source.choice([1, 2, 3, 4, 5, 6, 90]))] for _ in range(300)]
    written = [b"".join(map(write_varint, each)) for each in lists]
    offsets, values = Octets(written).lists(spans([*map(len, written)]))
    assert np.diff(offsets).tolist() == [*map(len, lists)]
    assert values.tolist() == [signed(value) for each in lists for value in each]
    cut = spans([*map(len, written)])
    longest = max(range(300), key=lambda number: len(lists[number]))
    cut.lengths[longest] = len(b"".join(map(write_varint, lists[longest][:-1]))) + 1
    lists[longest][-1] = 1 << 40  # so that its first byte is not its last
    written[longest] = b"".join(map(write_varint, lists[longest]))
    cut.begins[:] = np.cumsum([0, *map(len, written)])[:-1]
    with pytest.raises(ModuleError, match="does not end"):
        Octets(written).lists(cut)


def spans(lengths: list[int]) -> ByteRanges:
    ends = np.cumsum(np.array(lengths, np.int64))
    return ByteRanges(ends - lengths, np.array(lengths, np.int64))


def pieces(seed: int) -> tuple[list[bytes], list[bytes]]:
    """Pairs of ranges of all lengths, many of them equal and many different in one byte only."""
    source = random.Random(seed)
    known = [
        source.randbytes(source.choice([0, 1, 7, 8, 9, 63, 64, 72, 73, 200, 263, 264, 265, 900])) for _ in range(40)
    ]
    for one in [*known]:
        if one:
            changed = bytearray(one)
            changed[source.randrange(len(one))] ^= 1 << source.randrange(8)
            known.append(bytes(changed))
    return tuple([source.choice(known) for _ in range(3000)] for _ in range(2))  # type: ignore[return-value]


@pytest.mark.parametrize("seed", range(3))
def test_equal_bytes_have_equal_numbers(seed: int) -> None:
    ones, others = pieces(seed)
    octets = Octets([each for pair in zip(ones, others, strict=True) for each in pair])
    both = spans([len(each) for pair in zip(ones, others, strict=True) for each in pair])
    codes, first = octets.distinct([both[::2], both[1::2]])
    known: dict[tuple[bytes, bytes], int] = {}
    assert codes.tolist() == [known.setdefault(pair, len(known)) for pair in zip(ones, others, strict=True)]
    assert codes[first].tolist() == list(range(len(known)))
    assert octets.slices(both[::2]) == ones


def test_values_with_equal_sums_are_compared_as_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    written = [b"one", b"two", b"one", b"three"]

    def bad(self: Octets, sums: npt.NDArray[np.uint64], others: npt.NDArray[np.uint64], left: ByteRanges) -> None:
        others += left.begins.astype(np.uint64)

    monkeypatch.setattr(Octets, "_add", bad)
    codes, first = Octets(written).distinct([spans([*map(len, written)])])
    assert (codes.tolist(), first.tolist()) == ([0, 1, 0, 2], [0, 1, 3])
