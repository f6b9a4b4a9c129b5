"""Answers: at most as long as requested, complete where they fit, and with the way to the rest."""

from __future__ import annotations

import json
import random
from typing import Any

import click
import pytest

from inspector.cli.mcp.answers import Page, as_text, page_of

ROWS = [
    {"name": f"fusion.{n}", "bytes": n, "source_file": "/home/me/step.py", "source_line": n % 7} for n in range(1000)
]


def pages(result: Any, page: Page) -> list[dict[str, Any]]:
    """Follows the offsets of a section to its end."""
    rows: list[dict[str, Any]] = []
    for _ in range(200):
        shown = page_of(result, page)
        part = shown["answer"]["rows"]
        assert part, "each page has a row"
        rows += part
        following = [entry["next_offset"] for entry in shown["left_out"] if "next_offset" in entry]
        if not following:
            return rows
        page = Page(following[0], page.limit, page.contains, page.section, page.max_chars)
    raise AssertionError("the pages have no end")


def test_a_short_answer_is_complete() -> None:
    result = {"program": "jit_f", "numbers": {"peak_bytes": 12}, "rows": ROWS[:3]}
    assert page_of(result, Page()) == {"answer": result, "left_out": []}


@pytest.mark.parametrize("max_chars", [1000, 5000, 20_000, 200_000])
@pytest.mark.parametrize("contains", ["", "FUSION.9"])
def test_pages_have_all_rows_once(max_chars: int, contains: str) -> None:
    expected = [row for row in ROWS if "fusion.9" in row["name"] or not contains]
    assert pages({"rows": ROWS}, Page(contains=contains, max_chars=max_chars)) == expected


def test_random_answers_are_bounded() -> None:
    """Values of every shape, with long texts, lists and keys: never longer than requested, as JSON and as text."""
    generator = random.Random(7)

    def value(depth: int) -> Any:
        kind = generator.randrange(7 if depth else 4)
        if kind == 0:
            return "x" * generator.choice([3, 400, 30_000])
        if kind in (1, 2):
            return generator.choice([None, True, 3.25, float("nan"), 12])
        if kind == 3:
            return list(range(generator.choice([0, 5, 5000])))
        if kind == 4:
            return {f"key{n}": value(depth - 1) for n in range(generator.randrange(6))}
        return [{f"column{n}": value(0) for n in range(4)} for _ in range(generator.choice([1, 30, 500]))]

    for _ in range(60):
        result, most = {f"part{n}": value(3) for n in range(4)}, generator.choice([1000, 6000, 20_000])
        shown = page_of(result, Page(max_chars=most))
        assert len(json.dumps(shown, ensure_ascii=False, allow_nan=False)) <= most
        assert as_text(shown)


def test_what_is_left_out_is_stated() -> None:
    shown = page_of({"rows": ROWS, "few": ROWS[:2]}, Page(max_chars=3000))
    assert len(shown["answer"]["few"]) == 2, "short sections are complete"
    (entry,) = shown["left_out"]
    count = len(shown["answer"]["rows"])
    assert (entry["section"], entry["next_offset"]) == ("rows", count)
    assert entry["shown"] == f"0 to {count - 1} of 1000"
    assert f"section='rows', offset={count}" in as_text(shown)
    limited = page_of({"rows": ROWS}, Page(offset=10, limit=5))
    assert [row["bytes"] for row in limited["answer"]["rows"]] == [10, 11, 12, 13, 14]
    assert limited["left_out"][0]["next_offset"] == 15
    filtered = page_of({"rows": ROWS}, Page(contains="fusion.99"))
    assert filtered["left_out"][0]["shown"] == "0 to 10 of 11 that contain 'fusion.99' of 1000"
    nothing = page_of({"rows": ROWS}, Page(contains="all-reduce"))
    assert nothing["left_out"] == [{"section": "rows", "shown": "none of 0 that contain 'all-reduce' of 1000"}]


def test_sections_below_other_values() -> None:
    result = {"changes": {"other": ROWS}, "profiles": [{"program": "jit_f", "rows": ROWS}]}
    shown = page_of(result, Page(section="profiles.0.rows", limit=2))
    assert len(shown["answer"]["profiles"][0]["rows"]) == 2
    assert shown["answer"]["changes"] == {"other": []}
    with pytest.raises(
        click.UsageError, match=r"has no section 'row'\. Its sections: changes\.other, profiles\.0\.rows"
    ):
        page_of(result, Page(section="row"))


def test_long_cells_are_cut_with_the_way_to_the_rest() -> None:
    shown = page_of({"rows": [{"groups": list(range(4096)), "text": "y" * 5000}]}, Page())
    (row,) = shown["answer"]["rows"]
    assert row["groups"][-1] == "… 4,056 more"
    assert row["text"].endswith("… 3,000 more characters: larger max_chars")
    longer = page_of({"rows": [{"text": "y" * 5000}]}, Page(max_chars=100_000))
    assert longer["answer"]["rows"] == [{"text": "y" * 5000}]


def test_text_has_tables_lines_and_sources() -> None:
    lines = [{"line": 7, "text": "ROOT add.1", "source_file": "/home/me/step.py", "source_line": 3}]
    text = as_text(page_of({"numbers": {"peak_bytes": 12.0}, "rows": ROWS[:2], "lines": lines, "empty": []}, Page()))
    assert text.splitlines() == [
        "numbers.peak_bytes: 12", "rows:", "name | bytes | source", "fusion.0 | 0 | /home/me/step.py:0",
        "fusion.1 | 1 | /home/me/step.py:1", "lines:", "7\tROOT add.1  # /home/me/step.py:3", "empty: none",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"offset": -1}, "offset is -1. Expected an integer from 0."),
        ({"limit": 0}, "limit is 0. Expected an integer from 1."),
        ({"limit": True}, "limit is True. Expected an integer from 1."),
        ({"max_chars": 10**9}, "max_chars is 1000000000. Expected an integer from 1000 to 200000."),
        ({"contains": 3}, "contains is 3. Expected a text."),
    ],
)
def test_wrong_pages_are_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(click.UsageError, match=words):
        Page.taken_from(given)


def test_the_parameters_of_a_page_are_taken_from_a_call() -> None:
    given: dict[str, Any] = {"program": "a.hlo", "offset": 3, "contains": "dot", "limit": None}
    assert Page.taken_from(given) == Page(offset=3, contains="dot")
    assert given == {"program": "a.hlo"}
