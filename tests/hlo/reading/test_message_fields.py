"""Fields of many messages, read beside each other, against protobuf's own reading of one."""

from __future__ import annotations

import random

import numpy as np
import pytest

from inspector.errors import ModuleError
from inspector.hlo.reading.message_fields import MOST_FIELDS, TAIL, Fields
from inspector.support.varints import write_varint

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
Message = list[tuple[int, int, int | bytes]]  # number, kind, content


def written(message: Message) -> bytes:
    parts = []
    for number, kind, content in message:
        parts.append(write_varint(number << 3 | kind))
        if isinstance(content, int):
            parts.append(write_varint(content))
        else:
            parts.append((write_varint(len(content)) if kind == BYTES else b"") + content)
    return b"".join(parts)


def some(generator: random.Random) -> Message:
    contents = {
        VARINT: lambda: generator.choice([0, 1, 127, 128, 300, 2**32, 2**63 - 1]),
        BYTES: lambda: generator.randbytes(generator.choice([0, 1, 5, 127, 128, 300])),
        FIXED64: lambda: generator.randbytes(8),
        FIXED32: lambda: generator.randbytes(4),
    }
    kinds = [generator.choice(list(contents)) for _ in range(generator.choice([0, 1, 3, 12]))]
    numbers = [generator.choice([1, 2, 15, 16, 36, 100, 2047, 5000, 1 << 20]) for _ in kinds]
    return [(number, kind, contents[kind]()) for number, kind in zip(numbers, kinds, strict=True)]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("count", [1, 7, 17000])  # 17000: more than are read at once
def test_every_field_of_every_message_is_read(seed: int, count: int) -> None:
    if count > 1000 and seed > 1:
        pytest.skip("two of these are enough")
    generator = random.Random(seed)
    messages = [some(generator) for _ in range(count)]
    fields = Fields([written(message) for message in messages])
    assert len(fields) == count
    assert list(fields.numbers) == sorted({number for message in messages for number, _, _ in message})
    for number in fields.numbers:
        asked = [(row, kind, c) for row, message in enumerate(messages) for n, kind, c in message if n == number]
        field = fields.field(number)
        assert field.rows.tolist() == [row for row, _, _ in asked]
        for value, length, (_, kind, content) in zip(field.values.tolist(), field.lengths.tolist(), asked, strict=True):
            assert (length < 0) == (kind == VARINT)
            assert (value if kind == VARINT else fields.octets.data[value : value + length]) == content


@pytest.mark.parametrize("seed", range(10))
def test_messages_without_some_fields_are_those_without_them(seed: int) -> None:
    generator = random.Random(seed)
    messages = [some(generator) for _ in range(40)]
    left_out = set(generator.sample([1, 2, 15, 16, 36, 100, 2047], 3))
    kept = [written([field for field in message if field[0] not in left_out]) for message in messages]
    fields = Fields([written(message) for message in messages])
    assert fields.without(left_out) == kept
    assert fields.without([*left_out, *left_out]) == kept


def test_values_by_message() -> None:
    fields = Fields([
        written([(1, BYTES, b"a"), (5, VARINT, 7)]), written([]), written([(1, BYTES, b"b")]),
        written([(1, BYTES, b"a"), (5, VARINT, 2**63 - 1)]),
    ])  # fmt: skip
    assert fields.integers(5).tolist() == [7, 0, 0, 2**63 - 1]
    codes, values = fields.coded(1)
    assert codes.tolist() == [0, -1, 1, 0]
    assert values == [b"a", b"b"]
    assert fields.coded(99)[0].tolist() == [-1] * 4


def test_fields_beyond_the_limit_are_one_piece() -> None:
    long, short = [(1, VARINT, n) for n in range(MOST_FIELDS + 5)], [(2, VARINT, 1)]
    fields = Fields([written(short), written(long)])
    assert fields.field(TAIL).rows.tolist() == [1]
    assert fields.contents(TAIL) == [written(long[MOST_FIELDS:])]
    assert fields.irregular([1]).tolist() == [1]


def test_repeated_fields_are_irregular() -> None:
    twice = [(3, BYTES, b"a"), (3, BYTES, b"b")]
    regular = [(3, BYTES, b"a"), (50, BYTES, b""), (50, BYTES, b"")]
    fields = Fields([*map(written, (regular, twice, regular))])
    assert fields.irregular([3]).tolist() == [1]


@pytest.mark.parametrize(
    "data",
    [
        b"\x0a", b"\x0a\x05abc", b"\x08", b"\x08\x80", b"\x0d\x00\x00", b"\x09\x00", b"\x0b", b"\x0f\x00", b"\x02\x00",
        b"\x08" + b"\xff" * 11, b"\x0a" + b"\xff" * 9 + b"\x01", b"\x0a" + write_varint(2**63 - 1),
    ],
    ids=bytes.hex,
)  # fmt: skip
@pytest.mark.parametrize("beside", [0, 3])
def test_damaged_messages_are_refused(data: bytes, beside: int) -> None:
    with pytest.raises(ModuleError, match="damaged"):
        Fields([written([(1, VARINT, 1)])] * beside + [data])


def test_a_field_of_another_kind_than_expected_is_refused() -> None:
    fields = Fields([written([(1, VARINT, 0), (35, BYTES, b"abc")])] * 3)
    for read in (fields.contents, fields.coded):
        with pytest.raises(ModuleError, match="field 1 of an instruction is an integer"):
            read(1)
    with pytest.raises(ModuleError, match="field 35 of an instruction is not an integer"):
        fields.integers(35)


def test_nothing() -> None:
    assert len(Fields([])) == 0
    assert Fields([]).integers(1).tolist() == []
    assert Fields([b""]).without([1]) == [b""]
    assert np.array_equal(Fields([b""]).irregular([1]), [])
