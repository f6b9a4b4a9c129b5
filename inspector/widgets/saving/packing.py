"""Compresses the buffers of messages for files: HLO texts to a third of their gzip size.

HLO repeats similar text for every layer with different numbers, at distances beyond the window of gzip. A line is therefore
written as the number of its template, which is the line without its numbers, and the differences between its numbers and
those of the previous line with this template. `frontend/src/lib/packing.ts` decodes it.
"""

from __future__ import annotations

import gzip
import json
import re
import struct
from typing import Literal

import numpy as np
import numpy.typing as npt

Packing = Literal["gzip", "lines", "differences"]
"""Gzip of the data itself; of `lines`; of int32 differences between consecutive values."""

_LEVEL = 9
_LEAST_BYTES = 256  # smaller buffers gain nothing
_SLOT = "\0"
# Only numbers that are written back unchanged: no leading zeros, at most nine digits.
_NUMBER = re.compile(r"(?<![0-9])(?:0|[1-9][0-9]{0,8})(?![0-9])")


def pack(data: bytes) -> tuple[Packing, bytes]:
    """Returns the smallest packing of a buffer and the packed data; unpacked JSON may have additional line breaks."""
    ways: list[tuple[Packing, bytes]] = [("gzip", _gzip(data))]
    if len(data) >= _LEAST_BYTES:
        if (text := _text(data)) is not None and (coded := lines(text)) is not None:
            ways.append(("lines", coded))
        if len(data) % 4 == 0:
            ways.append(("differences", _differences(np.frombuffer(data, "<i4"))))
    return min(ways, key=lambda way: len(way[1]))


def lines(text: str) -> bytes | None:
    """Returns the gzip of a head, the templates, and columns of int32; None if the text cannot be encoded this way.

    The head has three little-endian uint32: the bytes of the templates (UTF-8, one per line, with NUL for each number),
    the number of lines and the number of numbers. The columns are the template of each line, and the zigzag-encoded
    differences; each column has the first bytes of all its numbers first, then the second bytes, ...
    """
    if _SLOT in text:
        return None
    templates: dict[str, int] = {}
    before: dict[int, list[int]] = {}
    numbers: list[int] = []
    differences: list[int] = []
    for line in text.split("\n"):
        number = templates.setdefault(_NUMBER.sub(_SLOT, line), len(templates))
        line_numbers = list(map(int, _NUMBER.findall(line)))
        differences += map(int.__sub__, line_numbers, before.get(number, [0] * len(line_numbers)))
        before[number] = line_numbers
        numbers.append(number)
    template_bytes = "\n".join(templates).encode("utf-8", "surrogatepass")
    columns = (np.array(numbers, np.int32), _zigzag(np.array(differences, np.int32)))
    head = struct.pack("<3I", len(template_bytes), *map(len, columns))
    return _gzip(b"".join((head, template_bytes, *map(_by_bytes, columns))))


def _text(data: bytes) -> str | None:
    """Returns a text to encode as lines: JSON with one item per line; None if the data is not text."""
    try:
        text = data.decode()
        if data[:1] in (b"{", b"["):
            text = json.dumps(json.loads(text), separators=(",\n", ":"), ensure_ascii=False)
    except ValueError:
        return None
    return text


def _differences(column: npt.NDArray[np.int32]) -> bytes:
    return _gzip(_by_bytes(_zigzag(np.diff(column, prepend=np.int32(0)))))


def _zigzag(column: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Encodes small signed numbers as small unsigned numbers."""
    return (column << 1) ^ (column >> 31)


def _by_bytes(column: npt.NDArray[np.int32]) -> bytes:
    return column.astype("<i4").view(np.uint8).reshape(-1, 4).T.tobytes()


def _gzip(data: bytes) -> bytes:
    return gzip.compress(data, _LEVEL, mtime=0)
