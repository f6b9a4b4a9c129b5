"""The course: correct answers agree with JAX and XLA, and every usual mistake gets a separate reply."""

from __future__ import annotations

import ast
import json
import re
from typing import Any

import jax
import numpy as np
import pytest

import inspector
from inspector.analysis.findings.registry import KINDS
from inspector.course.answers import Choice
from inspector.course.checking import LESSONS, questions
from inspector.errors import ParameterError
from tests.conftest import ROOT
from tests.course.spellings import spellings
from tests.project import committed

NUMBERS = [number for lesson in range(len(LESSONS)) for number in questions(lesson)]
NOTEBOOKS = committed("notebooks/course", "*.ipynb")


def cells(lesson: int, kind: str) -> list[str]:
    (path,) = (path for path in NOTEBOOKS if path.name.startswith(f"{lesson}_"))
    found = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in found if cell["cell_type"] == kind]


def shown_answer(number: str) -> Any:
    """Returns the text of the folded answer in the notebook."""
    (text,) = (
        text for text in cells(int(number[0]), "markdown") if f"<summary>The answer to {number}</summary>" in text
    )
    (code,) = re.findall(r"</summary>\n\n`(.*?)`", text)
    return ast.literal_eval(code)


@pytest.mark.parametrize("number", NUMBERS)
def test_right_and_wrong_answers_are_distinguished(number: str) -> None:
    question = questions(int(number[0]))[number]
    verdict = inspector.check(number, shown_answer(number))
    assert verdict.is_right, verdict
    assert verdict.reply == question.because
    replies = [question.because, *(mistake.reply for mistake in question.mistakes)]
    assert len(set(replies)) == len(replies) >= 3, "each mistake has its own reply"
    for mistake in question.mistakes:
        said = inspector.check(number, mistake.answer)
        assert (said.is_right, said.reply) == (False, mistake.reply)
    unanswered = inspector.check(number, ...)
    assert unanswered.is_right is None
    assert question.text in unanswered.reply


@pytest.mark.parametrize("number", NUMBERS)
def test_answers_are_read_in_eight_spellings(number: str) -> None:
    question = questions(int(number[0]))[number]
    right = spellings(question.kind, shown_answer(number))
    assert len(right) == 8
    for answer in right:
        verdict = inspector.check(number, answer)
        assert verdict, (answer, verdict)
    for mistake in question.mistakes:
        if mistake.answer == []:
            continue  # no ids have no forms
        for answer in spellings(question.kind, mistake.answer):
            verdict = inspector.check(number, answer)
            assert (bool(verdict), verdict.reply) == (False, mistake.reply), answer


@pytest.mark.parametrize(
    ("number", "answer", "is_right"),
    [
        ("2.1", "[4,2]<=[8]", True),
        ("2.2", "[2,4]<=[8]", True),
        ("2.2", "[[0 1 2 3]\n [4 5 6 7]]", True),
        ("2.1", "[2,4]<=[8]", False),
        ("2.4", "[2,4]<=[2,2,2]T(1,0,2)", True),
        ("2.3", "[1,6]<=[2,3]T(1,0)", True),
        ("2.3", [0, 3, 1, 4, 2, 5], True),
        ("2.3", "{}", False),
        ("2.5", {0, 3}, True),
        ("2.5", [3, 0, 0], True),
        ("2.5", "0 and 3", True),
        ("4.3", "f32[2]", True),
        ("4.3", "f32[2]{0}", True),
        ("4.3", "f32[8]", False),
        ("3.1", 68, True),
        ("3.4", "14 KiB", True),
        ("3.4", "14 kB", False),
        ("5.4", "0.0734 ms", True),
        ("5.4", "73.4 ms", False),
        ("7.1", "lax.all_to_all", True),
        ("7.1", jax.lax.all_to_all, True),
        ("5.3", jax.lax.all_gather, True),
        ("5.3", "an all-gather", True),
        ("8.2", "no collective", True),
        ("8.4", "psum", True),
        ("4.1", jax.jit, True),
        ("4.1", "jax.pmap", False),
    ],
)
def test_notations_of_the_course_are_read(number: str, answer: object, is_right: bool) -> None:
    assert inspector.check(number, answer).is_right is is_right


@pytest.mark.parametrize(
    ("number", "answer", "words"),
    [
        ("3.3", "14 bytes", "Expected a number; got '14 bytes'"),
        ("3.4", "14 ms", "Expected a number of bytes; got '14 ms'"),
        ("5.4", "73,4", "Expected a number of microseconds"),
        ("2.3", [{0, 1, 2, 3, 4, 5}], "the order counts, and a set has none"),
        ("2.4", "[1048576,8]<=[8388608]", "too many to expand"),
        ("2.4", "[2,4]<=[4,3]", "Expected groups of ids"),
        ("2.1", True, "Expected groups of ids"),
        ("2.1", "{{0,1},{2,3", "Expected groups of ids"),
        ("2.5", "", "Expected integers"),
        ("3.3", True, "Expected a number; got True"),
    ],
)
def test_an_answer_that_cannot_be_read_is_explained(number: str, answer: object, words: str) -> None:
    verdict = inspector.check(number, answer)
    assert verdict.is_right is False
    assert words in verdict.reply


def test_clues_compare_ids_as_sets() -> None:
    assert "1 of 2 are right" in inspector.check("2.5", [3, 5]).reply
    assert "3 of 4 are right." in inspector.check("7.2", [7, 6, 5, 3]).reply
    assert "all have 2 members" in inspector.check("2.1", [[0], [1, 2, 3], [4, 5], [6, 7]]).reply


def test_a_verdict_is_true_for_a_right_answer_only() -> None:
    assert [bool(inspector.check("1.1", answer)) for answer in (8, 7, ..., "?")] == [True, False, False, False]


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("nonsense", [None, "?", {}, object(), [[1, "a"]], float("nan")])
def test_an_invalid_answer_gets_the_expected_form(number: str, nonsense: object) -> None:
    verdict = inspector.check(number, nonsense)
    assert verdict.is_right is False
    assert verdict.reply.startswith("Expected ")


@pytest.mark.parametrize(
    ("number", "answer", "words"),
    [
        ("2.1", [[0, 1], [2, 3], [4, 5], [6, 8]], "There is no id 8. Ids go from 0 to 7."),
        ("2.1", [[0, 1], [2, 3], [4, 5], [6, 6]], "6 appears more than once."),
        ("2.1", [[0, 1], [2, 3], [4, 5]], "Missing: 6, 7."),
        ("2.1", [[0, 1, 2, 3], [4, 5, 6, 7]], "Expected 4 groups of 2; got 2 groups."),
        ("2.1", [[0, 7], [1, 6], [2, 5], [3, 4]], "The number and size of the groups are right"),
        ("2.3", [[0, 3, 1, 4, 5, 2]], "The members are right, but their order is not"),
        ("3.1", [67], "0 of 1 are right"),
        ("3.2", [1, 11, 31, 21], "The numbers are right, but their order is not"),
        ("3.4", 14336 * 2, "Too large by a factor of two"),
        ("3.4", 14335, "Too small"),
        ("5.4", 0.0000734, "Too small by a factor of a million"),
    ],
)
def test_an_unexpected_wrong_answer_gets_a_specific_reply(number: str, answer: object, words: str) -> None:
    verdict = inspector.check(number, answer)
    assert verdict.is_right is False
    assert words in verdict.reply


def test_times_may_be_rounded_and_bytes_may_not() -> None:
    assert inspector.check("5.4", 73).is_right
    assert not inspector.check("3.4", 14337).is_right


@pytest.mark.parametrize("number", ["9.1", "2.9", "", "two", "0.9", 2.1, "1"])
def test_an_unknown_question_is_reported(number: Any) -> None:
    if number == 2.1:
        assert inspector.check(number, ...).is_right is None
        return
    with pytest.raises(ParameterError, match="Unknown question"):
        inspector.check(number, 3)


def before(number: str) -> str:
    """Returns the texts, the code and the stored outputs of a lesson before a question, without folded answers."""
    (path,) = (path for path in NOTEBOOKS if path.name.startswith(f"{number[0]}_"))
    texts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if f'check("{number}"' in source:
            return "\n".join([*texts, source])
        texts.append(source.split("<details>")[0])
        for output in cell.get("outputs", ()):
            texts.append("".join(output.get("text") or output.get("data", {}).get("text/plain", "")))
    raise AssertionError(number)


@pytest.mark.parametrize("number", NUMBERS)
def test_no_answer_stands_before_its_question(number: str) -> None:
    answer, kind = shown_answer(number), questions(int(number[0]))[number].kind
    text = re.sub(r"[\s,]+", ",", before(number).translate(str.maketrans("{}()", "[][]")))
    if isinstance(kind, Choice):
        mentioned = {word for word in kind.words if re.search(rf"\b{re.escape(word)}\b", text.replace("_", "-"))}
        assert answer not in mentioned or len(mentioned) > 1, "the only choice that the lesson mentions"
    elif isinstance(answer, int | float):
        assert answer < 1000 or not re.search(rf"\b{answer}\b", text.replace(",", ""))
    elif np.size(answer) > 3:
        assert re.sub(r"\s", "", str(answer)).replace("(", "[").replace(")", "]") not in text


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_stored_tables_are_not_cut_off(path: Any) -> None:
    """pandas ends texts that it cuts off with dots, and leaves out rows and columns with a cell of dots."""
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        for output in cell.get("outputs", ()):
            html = "".join(output.get("data", {}).get("text/html", ""))
            assert not re.findall(r"<t[dh][^>]*>[^<]*(?:\.\.\.|…)</t[dh]>", html)
            plain = "".join(output.get("data", {}).get("text/plain", ""))
            assert "Try" not in plain.partition("<Picture:")[2], "a hint for a notebook in a picture"


def test_lessons_link_to_findings_and_lessons_that_exist() -> None:
    headings = {heading.strip("# `") for heading in (ROOT / "docs" / "findings.md").read_text("utf-8").splitlines()}
    linked = set[str]()
    for lesson in range(len(LESSONS)):
        text = "\n".join(cells(lesson, "markdown"))
        linked |= set(re.findall(r"\]\(\.\./\.\./docs/findings\.md#([\w-]+)\)", text))
        names = re.findall(r"\]\((\w+\.ipynb)", text)
        assert set(names) <= {path.name for path in NOTEBOOKS}
    assert linked <= headings & set(KINDS)
    sharding = {
        kind for kind in KINDS if kind.endswith(("argument", "ring", "collectives", "shards", "order", "communication"))
    }
    assert sharding - {"transposed-argument", "unused-argument"} <= linked


def test_every_question_precedes_its_answer_in_the_notebook() -> None:
    for lesson in range(len(LESSONS)):
        code = "\n".join(cells(lesson, "code"))
        asked = re.findall(r'check\("(\d\.\d)", \.\.\.\)', code)
        assert asked == list(questions(lesson)), "asked once each, in order, unanswered"
        prose = " ".join("\n".join(cells(lesson, "markdown")).split())
        for question in questions(lesson).values():
            assert question.because not in prose.split("<details>")[0]
