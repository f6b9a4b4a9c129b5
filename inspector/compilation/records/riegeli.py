"""Reads Riegeli record files, in which XLA serializes a GPU's executable (google/riegeli, doc/riegeli_records_file_format.md).

Blocks of 64 KiB begin with a header that interrupts chunks. A chunk has a header and a sequence of records,
uncompressed or compressed with Snappy (google/snappy, format_description.txt), as XLA
writes them. Other compressions are rejected.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from inspector.errors import ModuleError
from inspector.support.varints import read_varint

SIGNATURE = bytes.fromhex("83af70d10d884a3f")
"""The first bytes of a file."""

_BLOCK, _BLOCK_HEADER = 1 << 16, 24
_CHUNK = struct.Struct("<8xQ8xQQ")  # hash, data size, hash, number of records and type, decoded size
_RECORDS = ord("r")
_PLAIN, _SNAPPY = 0, ord("s")


def records(data: bytes) -> list[bytes]:
    """Returns the records of a file, without any bytes after its last complete chunk.

    Raises:
      ModuleError: not such a file, damaged, or with another compression.
    """
    if not data.startswith(SIGNATURE):
        raise ModuleError(f"Not a Riegeli file: it begins with {data[:8].hex()}.")
    try:
        return [record for chunk in _chunks(data) for record in _records_of(chunk)]
    except (IndexError, OverflowError, struct.error, ValueError) as e:
        raise ModuleError(f"Damaged Riegeli file of {len(data)} bytes: {e}.") from e


def everything_in(data: bytes) -> Iterator[bytes]:
    """Yields the data itself and, at any depth, the records of the files in it.

    Raises:
      ModuleError: the outermost file is damaged or has another compression.
    """
    yield data
    start = data.find(SIGNATURE)
    for record in records(data[start:]) if start >= 0 else ():
        try:
            yield from list(everything_in(record))
        except ModuleError:  # the same eight bytes by chance
            yield record


def _chunks(data: bytes) -> Iterator[bytes]:
    """Yields the data of chunks with records."""
    whole = b"".join(data[at + _BLOCK_HEADER : at + _BLOCK] for at in range(0, len(data), _BLOCK))
    position = 0
    while position + _CHUNK.size <= len(whole):
        size, kind, _ = _CHUNK.unpack_from(whole, position)
        start = position + _CHUNK.size
        if start + size > len(whole):
            return
        if kind & 0xFF == _RECORDS:
            yield whole[start : start + size]
        position = start + max(size, kind >> 8)  # a chunk occupies at least one byte for each record


def _records_of(chunk: bytes) -> Iterator[bytes]:
    compression = chunk[0]
    length, position = read_varint(chunk, 1)
    sizes = _decoded(chunk[position : position + length], compression)
    values = _decoded(chunk[position + length :], compression)
    at = begin = 0
    while at < len(sizes):
        size, at = read_varint(sizes, at)
        yield values[begin : begin + size]
        begin += size


def _decoded(data: bytes, compression: int) -> bytes:
    if compression == _PLAIN:
        return data
    if compression != _SNAPPY:
        raise ModuleError(f"Unsupported compression {chr(compression)!r} of a Riegeli file, expected Snappy.")
    _, position = read_varint(data, 0)  # the length, which Snappy also writes
    return snappy(data[position:])


def snappy(data: bytes) -> bytes:
    """Decompresses one Snappy block.

    Raises:
      ModuleError: the block is damaged.
    """
    length, position = read_varint(data, 0)
    out = bytearray()
    while position < len(data):
        tag = data[position]
        position += 1
        if tag & 3 == 0:
            size, position = _literal_size(data, tag >> 2, position)
            out += data[position : position + size]
            position += size
            continue
        size, offset, position = _copy(data, tag, position)
        if not 0 < offset <= len(out):
            raise ModuleError(
                f"Damaged Snappy block: it copies from {offset} bytes before, but there are only {len(out)}."
            )
        start = len(out) - offset
        # The source of a copy may overlap its result.
        out += (out[start:] * (size // offset + 1))[:size] if offset < size else out[start : start + size]
    if len(out) != length:
        raise ModuleError(f"Damaged Snappy block: {len(out)} bytes, expected {length}.")
    return bytes(out)


def _literal_size(data: bytes, size: int, position: int) -> tuple[int, int]:
    if size < 60:
        return size + 1, position
    extra = size - 59
    return int.from_bytes(data[position : position + extra], "little") + 1, position + extra


def _copy(data: bytes, tag: int, position: int) -> tuple[int, int, int]:
    """Returns the size, the offset and the position of the next element."""
    if tag & 3 == 1:
        return (tag >> 2 & 7) + 4, (tag >> 5) << 8 | data[position], position + 1
    width = 2 if tag & 3 == 2 else 4
    return (tag >> 2) + 1, int.from_bytes(data[position : position + width], "little"), position + width
