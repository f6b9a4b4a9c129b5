"""Texts whose lines differ in their numbers only, in a third of what gzip makes of them.

HLO says the same of every layer, under other numbers, and further apart than gzip looks back. A line is written as the
number of its template, which is the line without its numbers, and what to add to the numbers of the line before that
had this template. `frontend/src/lib/linecoding.ts` reads it.
"""

from __future__ import annotations

import gzip
import re
import struct

import numpy as np

_LEVEL = 9
_SLOT = "\0"
# Nothing that would be written otherwise: no zeros in front, no more than nine digits.
_NUMBER = re.compile(r"(?<![0-9])(?:0|[1-9][0-9]{0,8})(?![0-9])")


def coded(text: str) -> bytes | None:
    """Gzip of a head, the templates, and columns of int32; None for a text that cannot be written so.

    The head has three little-endian uint32: the bytes of the templates (UTF-8, a line each, NUL where a number stands),
    how many lines and how many numbers there are. The columns are the template of each line, and the differences as
    zigzag; each column has the first bytes of all its numbers first, then the second ones, ...
    """
    if _SLOT in text:
        return None
    templates: dict[str, int] = {}
    before: dict[int, list[int]] = {}
    lines: list[int] = []
    differences: list[int] = []
    for line in text.split("\n"):
        number = templates.setdefault(_NUMBER.sub(_SLOT, line), len(templates))
        found = list(map(int, _NUMBER.findall(line)))
        differences += map(int.__sub__, found, before.get(number, [0] * len(found)))
        before[number] = found
        lines.append(number)
    said = "\n".join(templates).encode("utf-8", "replace")
    signed = np.array(differences, np.int32)
    columns = (np.array(lines, np.int32), (signed << 1) ^ (signed >> 31))
    head = struct.pack("<3I", len(said), *map(len, columns))
    return gzip.compress(b"".join((head, said, *map(_by_bytes, columns))), _LEVEL, mtime=0)


def _by_bytes(column: np.ndarray[tuple[int], np.dtype[np.int32]]) -> bytes:
    return column.astype("<i4").view(np.uint8).reshape(-1, 4).T.tobytes()
