"""The glossary of lesson 0: its terms are those of the lessons, and each is explained where it is first used."""

from __future__ import annotations

import json
import re
from functools import cache

import pytest

from tests.project import committed

NOTEBOOKS = committed("notebooks/course", "*.ipynb")

FORMS = {
    "lower": "lower(?:s|ed|ing)?",
    "trace": "trac(?:e|es|ed|ing)",
    "axis": "ax[ei]s",
    "contracted dimension": "contracted",
}
"""Forms of terms that are more than a plural."""


@cache
def paragraphs(lesson: int) -> tuple[str, ...]:
    """Returns the markdown cells of a lesson without the glossary, folded answers, code and links to lessons."""
    cells = json.loads(NOTEBOOKS[lesson].read_text(encoding="utf-8"))["cells"]
    texts = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
    plain = (re.sub(r"<details>.*?</details>|\n## Glossary.*|```.*?```", "", text, flags=re.DOTALL) for text in texts)
    return tuple(re.sub(r"`[^`\n]*`", "`…`", re.sub(r"\[[^]\n]*\]\(\d[^)]*\)", "", text)) for text in plain)


def glossary() -> list[tuple[str, str, int]]:
    """Returns term, meaning and lesson of each row."""
    (text,) = (
        "".join(cell["source"])
        for cell in json.loads(NOTEBOOKS[0].read_text(encoding="utf-8"))["cells"]
        if "## Glossary" in "".join(cell["source"])
    )
    rows = re.findall(r"^\| (.+?) \| (.+?) \| (\d) \|$", text, re.MULTILINE)
    return [(term, meaning, int(lesson)) for term, meaning, lesson in rows]


def pattern(term: str) -> re.Pattern[str]:
    """Returns an expression for a term, or a plural of it, as a whole word; abbreviations have capitals."""
    forms = (FORMS.get(each) or re.escape(each).replace(r"\ ", r"\s+") + "(?:e?s)?" for each in term.split(", "))
    return re.compile(rf"(?<![\w-])(?:{'|'.join(forms)})(?![\w-])", 0 if term[:2].isupper() else re.IGNORECASE)


def marked(text: str) -> str:
    """Returns the parts of a cell that introduce terms: italics, bold, headings and first columns of tables."""
    emphasized = (inside for _, inside in re.findall(r"(\*{1,2})(?!\s)([^*]+?)\1", text))
    lines = re.findall(r"^(?:#+|\|) ([^|\n]*)", text, re.MULTILINE)
    return "\n".join([*emphasized, *lines])


GLOSSARY = glossary()


def test_the_glossary_is_sorted_and_has_each_term_once() -> None:
    terms = [term for term, _, _ in GLOSSARY]
    assert len(terms) > 40
    assert terms == sorted(set(terms), key=str.lower)


@pytest.mark.parametrize(("term", "lesson"), [(term, lesson) for term, _, lesson in GLOSSARY])
def test_a_term_is_explained_where_it_is_first_used(term: str, lesson: int) -> None:
    """The first cell of a lesson may use the terms of the lesson: it says what the lesson is about."""
    used = pattern(term).search
    first = next((number for number in range(len(NOTEBOOKS)) if used("\n".join(paragraphs(number)))), None)
    assert first == lesson, "the lesson in the glossary is not the first that uses it"
    outline, *rest = paragraphs(lesson)
    explaining = next((text for text in rest if used(text)), outline)
    assert used(marked(outline)) or used(marked(explaining)), (
        f"not in italics or bold where it is first used: {explaining}"
    )
