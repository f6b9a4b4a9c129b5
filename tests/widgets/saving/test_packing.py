"""Texts as templates and numbers: the browser reads back what was written, and HLO gets small."""

from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from inspector.widgets.saving.packing import lines, pack
from tests.widgets.fakes import HLO
from tests.widgets.transcripts import decoded, unpacked

BROWSER = Path(__file__).parents[3] / "frontend" / "test" / "packing.test.ts"


@settings(max_examples=300, deadline=None)
@given(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=60)
    | st.from_regex(r"(%a\.\d{0,12} = f32\[\d+,\d+\]\n?){0,9}", fullmatch=True)
)
@example("")
@example("999999999\n0\n999999999\n1000000000 007 0.50")
def test_packed_lines_are_unpacked(text: str) -> None:
    data = lines(text)
    assert data is not None
    assert decoded(data) == text


def test_a_text_with_the_mark_of_numbers_is_not_written_so() -> None:
    assert lines("a\0b") is None


def test_layers_that_differ_in_numbers_take_little() -> None:
    text = "\n".join(re.sub(r"\.(\d+)", lambda m, n=n: f".{int(m[1]) + 100 * n}", HLO) for n in range(50))
    data = lines(text)
    assert data is not None
    assert len(data) < 0.6 * len(gzip.compress(text.encode(), 9))


def test_the_test_data_of_the_browser_equals_the_output_of_python() -> None:
    found = re.search(r'TEXT = (".*");\nconst CODED =\s+"(.*)"', BROWSER.read_text())
    assert found is not None
    data = lines(json.loads(found[1]))
    assert data is not None
    assert gzip.decompress(base64.b64decode(found[2])) == gzip.decompress(data)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(-(2**31), 2**31 - 1), max_size=300))
def test_numbers_come_back(numbers: list[int]) -> None:
    data = np.array(numbers, "<i4").tobytes()
    assert unpacked(*pack(data)) == data


def test_each_buffer_is_packed_as_it_is_smallest() -> None:
    rising = np.arange(0, 40_000, 7, dtype="<i4").tobytes()
    assert pack(rising)[0] == "differences"
    assert unpacked(*pack(rising)) == rising
    table = json.dumps({"instructions": [None if i % 5 == 0 else f"fusion.{i}" for i in range(500)]}).encode()
    assert pack(table)[0] == "lines"
    assert json.loads(unpacked(*pack(table))) == json.loads(table)
    assert pack(b"short")[0] == "gzip"
    noise = np.random.default_rng(0).bytes(4_000)
    assert unpacked(*pack(noise)) == noise
