"""What a page finds in HTML that inspector wrote."""

from __future__ import annotations

import base64
import gzip
import json
import re
import struct
from typing import Any


def tables(page: str) -> list[dict[str, Any]]:
    """The tables of the transcripts, each with its buffers' bytes in place of their lengths."""
    found = re.findall("<script type='application/x-inspector-transcript'>([^<]*)</script>", page)
    return [read(base64.b64decode(text)) for text in found]


def read(data: bytes) -> dict[str, Any]:
    """A transcript's table; buffers of coded lines come as they are."""
    (length,) = struct.unpack_from("<I", data)
    table: dict[str, Any] = json.loads(gzip.decompress(data[4 : 4 + length]))
    at = 4 + length
    for entry in (*table["kept"], *table["replies"]):
        sizes, entry["buffers"] = entry["buffers"], []
        for size in map(abs, sizes):
            entry["buffers"].append(data[at : at + size])
            at += size
    assert at == len(data)
    return table


def types(entries: list[dict[str, Any]]) -> set[str]:
    """The kinds of messages."""
    return {entry["message"]["type"] for entry in entries}
