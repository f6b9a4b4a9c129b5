"""The data that a page finds in HTML written by inspector."""

from __future__ import annotations

import base64
import gzip
import json
import re
import struct
from typing import Any

import numpy as np


def tables(page: str) -> list[dict[str, Any]]:
    """The tables of the transcripts, each with its buffers' bytes instead of their lengths."""
    found = re.findall("<script type='application/x-inspector-transcript'>([^<]*)</script>", page)
    return [read(base64.b64decode(text)) for text in found]


def read(data: bytes) -> dict[str, Any]:
    """A transcript's table; buffers come as they are packed."""
    (length,) = struct.unpack_from("<I", data)
    table: dict[str, Any] = json.loads(unpacked("lines", data[4 : 4 + length]))
    at = 4 + length
    for entry in (*table["kept"], *table["replies"]):
        sizes, entry["buffers"] = entry["buffers"], []
        for size in sizes:
            entry["buffers"].append(data[at : at + size])
            at += size
    assert at == len(data)
    return table


def types(entries: list[dict[str, Any]]) -> set[str]:
    """The kinds of messages."""
    return {entry["message"]["type"] for entry in entries}


def decoded(data: bytes) -> str:
    """As `frontend/src/lib/packing.ts` reads it."""
    raw = gzip.decompress(data)
    size, line_count, number_count = struct.unpack_from("<3I", raw)
    templates = [template.split("\0") for template in raw[12 : 12 + size].decode().split("\n")]
    at = 12 + size
    columns = []
    for count in (line_count, number_count):
        columns.append(np.frombuffer(raw, np.uint8, 4 * count, at).reshape(4, count).T.copy().view("<i4")[:, 0])
        at += 4 * count
    assert at == len(raw)
    zigzag = columns[1].astype(np.int64) & 0xFFFFFFFF
    differences = iter(((zigzag >> 1) ^ -(zigzag & 1)).tolist())
    before = [[0] * (len(parts) - 1) for parts in templates]
    text = []
    for number in columns[0].tolist():
        first, *rest = templates[number]
        before[number] = [value + next(differences) for value in before[number]]
        text.append(first + "".join(f"{value}{part}" for value, part in zip(before[number], rest, strict=True)))
    return "\n".join(text)


def unpacked(packing: str, data: bytes) -> bytes:
    """Returns the unpacked data."""
    if packing == "lines":
        return decoded(data).encode()
    raw = gzip.decompress(data)
    if packing == "gzip":
        return raw
    zigzag = np.frombuffer(raw, np.uint8).reshape(4, -1).T.copy().view("<u4")[:, 0].astype(np.int64)
    return np.cumsum((zigzag >> 1) ^ -(zigzag & 1)).astype("<i4").tobytes()
