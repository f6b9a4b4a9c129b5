"""Numbers in the lessons' text: assertions of their cells compute them, or the code of a cell begins with them."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator

import pytest

from inspector.course.checking import LESSONS
from tests.project import committed

NOTEBOOKS = committed("notebooks/course", "*.ipynb")

NOT_RESULTS = r"^# [^\n]*|\*\d+ minutes.*?\*|<details>.*?</details>|\n## Glossary.*|\[[^]]*\]\([^)]*\)|`[^`]*`|JAX 0\.\d+|10\^9|2\^20|H100|\bv\d\w"
"""Titles, durations, folded answers, links, code, versions, units and names of chips."""


def cells(lesson: int, kind: str) -> list[str]:
    found = json.loads(NOTEBOOKS[lesson].read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in found if cell["cell_type"] == kind]


def in_text(text: str) -> list[float]:
    """Returns the numbers of two or more digits in a text. One digit counts things that the reader sees."""
    plain = re.sub(NOT_RESULTS, " ", text, flags=re.DOTALL | re.MULTILINE)
    found = re.findall(r"(?<![\w.,])\d[\d,]*(?:\.\d+)?(?!\w)", plain)
    return [number for each in found if (number := float(each.rstrip(",").replace(",", ""))) >= 10]


def _numbers(node: ast.AST) -> Iterator[float]:
    """Yields the constants in code, and the values of arithmetic between constants."""
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, int | float):
            yield float(each.value)
        elif isinstance(each, ast.BinOp) and all(
            isinstance(part, ast.BinOp | ast.operator) or isinstance(getattr(part, "value", None), int | float)
            for part in ast.walk(each)
        ):
            yield float(eval(compile(ast.Expression(each), "lesson", "eval")))


def computed(lesson: int) -> set[float]:
    """Returns the numbers in the lesson's assertions, and those that its other code begins with."""
    numbers = {number for code in cells(lesson, "code") for number in _numbers(ast.parse(code))}
    return numbers | {number / 1e9 for number in numbers}  # bytes per second as GB/s


@pytest.mark.parametrize("lesson", range(len(LESSONS)))
def test_numbers_in_the_text_are_in_assertions_or_inputs(lesson: int) -> None:
    known = computed(lesson)
    unknown = {
        (number, text[:80]) for text in cells(lesson, "markdown") for number in in_text(text) if number not in known
    }
    assert not unknown


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("take 56 µs, 1,024 bytes and 0.75 MiB", [56, 1024]),
        ("# 12. A title\n\n*15 minutes.*\n\nOf 20, 18 fit.", [20, 18]),
        ("`f32[64]` on a TPU v5e with JAX 0.12: 10^9", []),
        ("is 12.5 times as long, up to 40.", [12.5, 40]),
    ],
)
def test_numbers_are_found(text: str, numbers: list[float]) -> None:
    assert in_text(text) == numbers
