"""The site: every public name has its place in the reference, every question of a reader its answer, and nothing is run."""

from __future__ import annotations

import re

import pytest

import inspector
from tests.conftest import ROOT
from tests.project import committed

DOCS = ROOT / "docs"
SETTINGS = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
REFERENCE = "".join(path.read_text(encoding="utf-8") for path in committed("docs/reference", "*.md"))


def test_every_public_name_is_in_the_reference_once() -> None:
    there = re.findall(r"^::: inspector\.(\w+)$", REFERENCE, re.MULTILINE)
    assert sorted(there) == sorted(set(inspector.__all__) - {"__version__"})


def test_the_tables_of_the_reference_list_its_pages() -> None:
    table = (DOCS / "reference" / "index.md").read_text(encoding="utf-8")
    for page, names in re.findall(r"^\| \[.*\]\((.*)\) \| (.*) \|$", table, re.MULTILINE):
        text = (DOCS / "reference" / page).read_text(encoding="utf-8")
        assert re.findall(r"^::: inspector\.(\w+)$", text, re.MULTILINE) == re.findall(r"`(\w+)`", names), page


@pytest.mark.parametrize(
    "question", ["slow to compile", "uses the memory", "all-gather comes from", "check it in CI", "another JAX"]
)
def test_a_question_is_answered_and_the_first_page_leads_there(question: str) -> None:
    (heading,) = re.findall(rf"^## \.\.\. (.*{question}.*)$", (DOCS / "howto.md").read_text("utf-8"), re.MULTILINE)
    anchor = heading.lower().replace(" ", "-")
    assert f"](howto.md#{anchor})" in (DOCS / "index.md").read_text(encoding="utf-8")


def test_notebooks_are_shown_as_they_are_stored() -> None:
    assert "execute: false" in SETTINGS
    for notebook in committed("notebooks", "*.ipynb"):
        path = notebook.relative_to(ROOT).as_posix()
        assert f": {path}" in SETTINGS, f"{path} is not in the navigation"


def test_the_files_that_contributors_are_sent_to_are_there() -> None:
    named = re.findall(r"`((?:inspector|tests|frontend|docs|benchmarks|notebooks|\.ci)/[\w./]*)`", CONTRIBUTING)
    assert len(named) > 20
    assert [path for path in named if "NAME" not in path and not (ROOT / path).exists()] == []


def test_contributing_explains_how_to_add_each() -> None:
    for what in ("A pane", "A platform and its targets", "A product", "A JAX version"):
        assert re.search(rf"^## {what}", CONTRIBUTING, re.MULTILINE), what
