"""A header of JSON and blobs of bytes in one `bytes`: how recorded products cross processes and lie in files."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from typing import Any

from inspector.errors import ModuleError

_LENGTH = struct.Struct("<I")


def pack(header: Any, blobs: Sequence[bytes]) -> bytes:
    """One `bytes` from a JSON value and blobs, which are taken as they are."""
    text = zlib.compress(json.dumps([header, [len(blob) for blob in blobs]]).encode())
    return b"".join((_LENGTH.pack(len(text)), text, *blobs))


def unpack(data: bytes) -> tuple[Any, tuple[bytes, ...]]:
    """The inverse of `pack`.

    Raises:
      ModuleError: not what `pack` made.
    """
    try:
        (length,) = _LENGTH.unpack_from(data)
        position = _LENGTH.size + length
        header, lengths = json.loads(zlib.decompress(data[_LENGTH.size : position]))
        blobs = []
        for each in lengths:
            blobs.append(data[position : position + each])
            position += each
    except (struct.error, zlib.error, ValueError, TypeError) as e:
        raise ModuleError(f"{len(data)} bytes of a recorded product cannot be read ({e}). Compile again.") from e
    if position != len(data):
        raise ModuleError(f"A recorded product has {len(data)} bytes, expected {position}. Compile again.")
    return header, tuple(blobs)
