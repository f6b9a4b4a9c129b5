"""Riegeli files and Snappy blocks, put together by hand from their descriptions."""

from __future__ import annotations

import struct

import pytest

from inspector.compilation.records.riegeli import SIGNATURE, everything_in, records, snappy
from inspector.errors import ModuleError


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def literal(data: bytes) -> bytes:
    """A Snappy element with a size in two bytes."""
    return bytes([61 << 2]) + struct.pack("<H", len(data) - 1) + data


def chunk(values: list[bytes], packed: bool) -> bytes:
    sizes, joined = b"".join(varint(len(v)) for v in values), b"".join(values)
    if packed:
        sizes, joined = ((varint(len(d)) * 2 + literal(d)) if d else b"\0\0" for d in (sizes, joined))
    data = (b"s" if packed else b"\0") + varint(len(sizes)) + sizes + joined
    header = struct.pack("<8xQ8xQQ", len(data), len(values) << 8 | ord("r"), sum(map(len, values)))
    return header + data + b"\0" * max(0, len(values) - len(data))


def file(*chunks: bytes) -> bytes:
    """Chunks behind a signature, cut into blocks of 64 KiB by headers of 24 bytes."""
    signature = struct.pack("<8xQ8xQQ", 0, ord("s"), 0)
    whole = signature + b"".join(chunks)
    first, step = (1 << 16) - 24, (1 << 16) - 24
    blocks = [SIGNATURE + b"\0" * 16 + whole[:first]]
    blocks += [b"H" * 24 + whole[at : at + step] for at in range(first, len(whole), step)]
    return b"".join(blocks)


@pytest.mark.parametrize("packed", [False, True])
def test_records_come_back(packed: bool) -> None:
    values = [b"one", b"", b"x" * 300]
    assert records(file(chunk(values, packed), chunk([b"last"], packed=False)) + b"") == [*values, b"last"]


def test_headers_of_blocks_are_not_part_of_records() -> None:
    long = bytes(range(256)) * 700
    assert len(file(chunk([long], packed=False))) > 2 << 16
    assert records(file(chunk([b"a", long], packed=False), chunk([b"b"], packed=True))) == [b"a", long, b"b"]


def test_a_file_in_a_record_is_looked_into() -> None:
    inner = file(chunk([b"core"], packed=True))
    outer = b"before" + file(chunk([b"shell", inner], packed=False))
    assert list(everything_in(outer)) == [outer, b"shell", inner, b"core"]
    assert list(everything_in(b"none")) == [b"none"]


def test_truncated_records_are_omitted() -> None:
    whole = file(chunk([b"first"], packed=False), chunk([b"second"], packed=False))
    assert records(whole[:-3]) == [b"first"]


def test_other_files_are_refused() -> None:
    with pytest.raises(ModuleError, match="Not a Riegeli file"):
        records(b"PK\x03\x04 and more")
    brotli = chunk([b"x"], packed=False).replace(b"\0\x01\x01x", b"b\x01\x01x")
    with pytest.raises(ModuleError, match="compression 'b' of a Riegeli file, expected Snappy"):
        records(file(brotli))


# By hand from Snappy's format description: literal "abcd", then copies of each kind.
@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (b"\x04\x0cabcd", b"abcd"),
        (b"\x08\x0cabcd\x01\x04", b"abcdabcd"),  # 4 from 4 back, one-byte offset
        (b"\x0a\x0cabcd\x16\x02\x00", b"abcdcdcdcd"),  # 6 from 2 back: into what it makes
        (b"\x07\x0cabcd\x0b\x04\x00\x00\x00", b"abcdabc"),  # 3 from 4 back, four-byte offset
        (b"\x05\xf0\x04hello", b"hello"),  # a literal whose size has a byte of its own
    ],
)
def test_snappy(block: bytes, expected: bytes) -> None:
    assert snappy(block) == expected


@pytest.mark.parametrize("block", [b"\x05\x0cabcd", b"\x08\x0cabcd\x01\x09", b"\x08\x01\x04"])
def test_a_damaged_block_is_refused(block: bytes) -> None:
    with pytest.raises(ModuleError, match="Damaged Snappy block"):
        snappy(block)
