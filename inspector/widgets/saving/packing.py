"""Buffers of messages as small as they get, for files: texts of HLO in a third of what gzip makes of them.

HLO says the same of every layer, under other numbers, and further apart than gzip looks back. So a line is written as
the number of its template, which is the line without its numbers, and what to add to the numbers of the line before
that had this template. `frontend/src/lib/packing.ts` reads it.
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
"""Gzip of what a message says; of `lines`; of int32, each the difference to the one before."""

_LEVEL = 9
_LEAST_BYTES = 256  # below, nothing is spared
_SLOT = "\0"
# Nothing that would be written otherwise: no zeros in front, no more than nine digits.
_NUMBER = re.compile(r"(?<![0-9])(?:0|[1-9][0-9]{0,8})(?![0-9])")


def pack(data: bytes) -> tuple[Packing, bytes]:
    """What a message says in the least bytes, and how it is packed; JSON may come back with line breaks in it."""
    ways: list[tuple[Packing, bytes]] = [("gzip", _gzip(data))]
    if len(data) >= _LEAST_BYTES:
        if (text := _text(data)) is not None and (coded := lines(text)) is not None:
            ways.append(("lines", coded))
        if len(data) % 4 == 0:
            ways.append(("differences", _differences(np.frombuffer(data, "<i4"))))
    return min(ways, key=lambda way: len(way[1]))


def lines(text: str) -> bytes | None:
    """Gzip of a head, the templates, and columns of int32; None for a text that cannot be written so.

    The head has three little-endian uint32: the bytes of the templates (UTF-8, a line each, NUL where a number stands),
    how many lines and how many numbers there are. The columns are the template of each line, and the differences as
    zigzag; each column has the first bytes of all its numbers first, then the second ones, ...
    """
    if _SLOT in text:
        return None
    templates: dict[str, int] = {}
    before: dict[int, list[int]] = {}
    numbers: list[int] = []
    differences: list[int] = []
    for line in text.split("\n"):
        number = templates.setdefault(_NUMBER.sub(_SLOT, line), len(templates))
        found = list(map(int, _NUMBER.findall(line)))
        differences += map(int.__sub__, found, before.get(number, [0] * len(found)))
        before[number] = found
        numbers.append(number)
    said = "\n".join(templates).encode("utf-8", "surrogatepass")
    columns = (np.array(numbers, np.int32), _zigzag(np.array(differences, np.int32)))
    head = struct.pack("<3I", len(said), *map(len, columns))
    return _gzip(b"".join((head, said, *map(_by_bytes, columns))))


def _text(data: bytes) -> str | None:
    """A text to write as lines: JSON with one thing a line; None for what is no text."""
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
    """Small numbers of either sign as small ones without."""
    return (column << 1) ^ (column >> 31)


def _by_bytes(column: npt.NDArray[np.int32]) -> bytes:
    return column.astype("<i4").view(np.uint8).reshape(-1, 4).T.tobytes()


def _gzip(data: bytes) -> bytes:
    return gzip.compress(data, _LEVEL, mtime=0)
