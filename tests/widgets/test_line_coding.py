"""Texts as templates and numbers: the browser reads back what was written, and HLO gets small."""

from __future__ import annotations

import gzip
import re
import struct
from pathlib import Path

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from inspector.widgets.line_coding import coded
from tests.widgets.fakes import HLO

BROWSER = Path(__file__).parents[2] / "frontend" / "test" / "linecoding.test.ts"


def decoded(data: bytes) -> str:
    """As `frontend/src/lib/linecoding.ts` reads it."""
    raw = gzip.decompress(data)
    size, lines, numbers = struct.unpack_from("<3I", raw)
    templates = [template.split("\0") for template in raw[12 : 12 + size].decode().split("\n")]
    at = 12 + size
    columns = []
    for count in (lines, numbers):
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


@settings(max_examples=300, deadline=None)
@given(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=60)
    | st.from_regex(r"(%a\.\d{0,12} = f32\[\d+,\d+\]\n?){0,9}", fullmatch=True)
)
@example("")
@example("999999999\n0\n999999999\n1000000000 007 0.50")
def test_what_is_written_is_read(text: str) -> None:
    data = coded(text)
    assert data is not None
    assert decoded(data) == text


def test_a_text_with_the_mark_of_numbers_is_not_written_so() -> None:
    assert coded("a\0b") is None


def test_layers_that_differ_in_numbers_take_little() -> None:
    text = "\n".join(re.sub(r"\.(\d+)", lambda m, n=n: f".{int(m[1]) + 100 * n}", HLO) for n in range(50))
    data = coded(text)
    assert data is not None
    assert len(data) < 0.6 * len(gzip.compress(text.encode(), 9))


def test_the_browsers_test_has_what_python_writes() -> None:
    found = re.search(r'TEXT = (".*");\nconst CODED =\s+"(.*)"', BROWSER.read_text())
    assert found is not None
    import base64
    import json

    data = coded(json.loads(found[1]))
    assert data is not None
    assert gzip.decompress(base64.b64decode(found[2])) == gzip.decompress(data)
