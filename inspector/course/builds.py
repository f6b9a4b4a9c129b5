"""Lessons in other forms for lecturers: without answers, for nbgrader and Otter, and as slides.

nbgrader: nbgrader.readthedocs.io, "Creating and grading assignments" (cell metadata of schema version 3).
Otter: otter-grader.readthedocs.io, "Otter Assign format" (raw cells with configurations).
Slides: nbconvert.readthedocs.io (`slideshow` metadata of cells).
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from inspector.course.answers import Number
from inspector.course.checking import questions
from inspector.course.handed_in import Cell, asked, is_answer, source
from inspector.course.question import Question
from inspector.course.slides import slides


def build(notebook: Mapping[str, Any], form: str, recordings: Sequence[str] = ()) -> dict[str, Any]:
    """Returns a lesson in another form, with new cells where questions are.

    Args:
      notebook: the lesson, as JSON.
      form: one of `FORMS`.
      recordings: names of files that the lesson reads, in its folder.
    """
    built = copy.deepcopy(dict(notebook))
    built["cells"] = list(_FORMS[form](built["cells"]))
    if form == "otter":
        config = "# ASSIGNMENT CONFIG\nsolutions_pdf: false\nexport_cell: false\nrequirements: [jax-inspector]\n"
        config += f"files: {json.dumps(list(recordings))}\n" if recordings else ""
        built["cells"].insert(0, _cell("raw", "config", config))
    return built


def as_text(notebook: Mapping[str, Any]) -> str:
    """Returns a notebook as the text of its file."""
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def solution(question: Question) -> str:
    """Returns the right answer to a question as Python code."""
    value = question.key
    if isinstance(question.kind, Number):
        return f"{value:g}" if value % 1 else str(int(value))
    return repr([list(group) for group in value] if value and isinstance(value[0], tuple) else value)


def _without_answers(cells: list[Cell]) -> Iterator[Cell]:
    for cell in cells:
        if not is_answer(cell):
            yield {**cell, "outputs": [], "execution_count": None} if cell["cell_type"] == "code" else cell


def _nbgrader(cells: list[Cell]) -> Iterator[Cell]:
    for cell in _without_answers(cells):
        if (number := _question_of(cell)) is None:
            yield cell
            continue
        name = number.replace(".", "_")
        yield _cell("markdown", f"question-{number}", f"**Question {number}.** {_question(number).text}")
        answer = (
            f"answer_{name} = ...\n### BEGIN SOLUTION\nanswer_{name} = {solution(_question(number))}\n### END SOLUTION"
        )
        yield _graded(_cell("code", f"answer-{number}", answer), f"answer-{name}", solution=True)
        yield _graded(_cell("code", f"test-{number}", _test(number)), f"test-{name}", points=1)


def _otter(cells: list[Cell]) -> Iterator[Cell]:
    for cell in _without_answers(cells):
        if (number := _question_of(cell)) is None:
            yield cell
            continue
        name = number.replace(".", "_")
        lines = (
            ("raw", "begin", f"# BEGIN QUESTION\nname: q{name}\npoints: 1"),
            ("markdown", "text", f"**Question {number}.** {_question(number).text}"),
            ("raw", "begin-solution", "# BEGIN SOLUTION"),
            ("code", "answer", f"answer_{name} = {solution(_question(number))}  # SOLUTION"),
            ("raw", "end-solution", "# END SOLUTION"),
            ("raw", "begin-tests", "# BEGIN TESTS"),
            ("code", "test", _test(number)),
            ("raw", "end-tests", "# END TESTS"),
            ("raw", "end", "# END QUESTION"),
        )
        for kind, part, text in lines:
            yield _cell(kind, f"{part}-{number}", text)


_FORMS: Mapping[str, Callable[[list[Cell]], Iterator[Cell]]] = {
    "student": _without_answers,
    "nbgrader": _nbgrader,
    "otter": _otter,
    "slides": slides,
}
FORMS = tuple(_FORMS)


def _test(number: str) -> str:
    name = number.replace(".", "_")
    # Otter runs it as a doctest, which must not print; a failed assertion shows the reply.
    return f'assert (verdict := check("{number}", answer_{name})), verdict'


def _question(number: str) -> Question:
    return questions(int(number.partition(".")[0]))[number]


def _question_of(cell: Cell) -> str | None:
    found = list(asked(source(cell))) if cell["cell_type"] == "code" else []
    return found[0][0] if found else None


def _graded(cell: Cell, name: str, *, solution: bool = False, points: int = 0) -> Cell:
    """Adds nbgrader's metadata: a cell for the answer, or a locked cell with a test that gives points."""
    grade = {
        "grade": not solution, "grade_id": name, "locked": not solution, "schema_version": 3, "solution": solution, "task": False,
        **({} if solution else {"points": points}),
    }  # fmt: skip
    return {**cell, "metadata": {"nbgrader": grade}}


def _cell(kind: str, name: str, text: str) -> Cell:
    cell: Cell = {
        "cell_type": kind,
        "id": name.replace(".", "-"),
        "metadata": {},
        "source": text.splitlines(keepends=True),
    }
    return {**cell, "execution_count": None, "outputs": []} if kind == "code" else cell
