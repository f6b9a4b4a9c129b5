"""Packs a JSON header and blobs of bytes into one `bytes`, for recorded products in messages and files."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from typing import Any, TypeVar

from inspector.compilation.files.archive import inflate
from inspector.errors import ModuleError
from inspector.support import json_values

T = TypeVar("T")

_LENGTH = struct.Struct("<I")


def pack(header: Any, blobs: Sequence[bytes]) -> bytes:
    """Packs a JSON value (or a value that `json_values.encode` accepts) and uncompressed blobs into one `bytes`."""
    text = zlib.compress(json.dumps([json_values.encode(header), [len(blob) for blob in blobs]]).encode())
    return b"".join((_LENGTH.pack(len(text)), text, *blobs))


def unpack(data: bytes, kind: type[T]) -> tuple[T, tuple[bytes, ...]]:
    """Unpacks the result of `pack`.

    Args:
      data: the result of `pack`.
      kind: type of the header, for `json_values.decode`.

    Raises:
      ModuleError: other or damaged data.
    """
    try:
        (length,) = _LENGTH.unpack_from(data)
        position = _LENGTH.size + length
        value = json_values.parse(inflate(data[_LENGTH.size : position]))
        header, lengths = json_values.decode(tuple[kind, tuple[int, ...]], value, "header")  # type: ignore[valid-type]
        if min(lengths, default=0) < 0 or position + sum(lengths) != len(data):
            raise ValueError(f"expected {position + sum(lengths)} bytes")
    except (struct.error, ModuleError, ValueError) as e:
        raise ModuleError(f"{len(data)} bytes of a recorded product cannot be read ({e}). Compile again.") from e
    blobs = []
    for each in lengths:
        blobs.append(data[position : position + each])
        position += each
    return header, tuple(blobs)
