"""For lecturers: scores of handed-in notebooks, lessons in other forms, and the tests before and after the course."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import inspector
from inspector.cli.commands import inspector as commands
from inspector.course import class_tests
from inspector.course.builds import FORMS, build, solution
from inspector.course.checking import questions
from inspector.course.handed_in import asked, read_notebook, score, source, table
from inspector.errors import ModuleError, ParameterError
from tests.course.test_drill import CHECKS
from tests.hlo.conftest import Execute
from tests.project import committed

NOTEBOOKS = list(committed("notebooks/course", "*.ipynb"))
COMPILING = [path for path in NOTEBOOKS if path.name[0] not in "12"]  # most answers are computed by compiles
SECOND = next(path for path in NOTEBOOKS if path.name.startswith("2_"))


def handed_in(folder: Path, answers: dict[str, str], name: str = "ada.ipynb") -> Path:
    """Writes the second lesson with its dots replaced by answers."""
    text = SECOND.read_text(encoding="utf-8")
    for number, answer in answers.items():
        text = text.replace(
            json.dumps(f'check("{number}", ...)')[1:-1], json.dumps(f'check("{number}", {answer})')[1:-1]
        )
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_scores_of_a_notebook(tmp_path: Path) -> None:
    path = handed_in(
        tmp_path,
        {"2.1": "[[0, 1], [2, 3], [4, 5], [6, 7]]", "2.2": '"[2,4]<=[8]"', "2.3": "groups_of(x)", "2.4": "[[0, 1], [2, 3]]"},
    )  # fmt: skip
    assert table([score(path)]) == [
        ["student", "right", "answered", "asked", "2.1", "2.2", "2.3", "2.4", "2.5"],
        ["ada", "2", "4", "5", "1", "1", "?", "0", ""],
    ]


def test_a_folder_is_one_student_and_checkpoints_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "eva" / ".ipynb_checkpoints").mkdir(parents=True)
    handed_in(tmp_path / "eva", {"2.5": "{0, 3}"}, "lesson.ipynb")
    handed_in(
        tmp_path / "eva" / ".ipynb_checkpoints", {"2.1": "[[0, 1], [2, 3], [4, 5], [6, 7]]"}, "lesson-checkpoint.ipynb"
    )
    found = score(tmp_path / "eva")
    assert (found.student, found.right) == ("eva", 1)


def test_no_code_of_a_student_runs(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("still here")
    path = handed_in(tmp_path, {"2.1": f"__import__('os').remove({str(victim)!r})", "2.2": "9**9**9**9"})
    assert [given.result for given in score(path).given.values()][:2] == ["not readable", "not readable"]
    assert victim.exists()


@pytest.mark.parametrize(
    ("code", "number", "answer", "result"),
    [
        ('check("3.4", 7 * 2048)', "3.4", "7 * 2048", "right"),
        ('inspector.check("8.2", jax.lax.psum)', "8.2", "jax.lax.psum", "wrong"),
        ('%time\ncheck("1.1", 8.0)', "1.1", "8.0", "right"),
        ('x = check("1.1", -8)', "1.1", "-8", "wrong"),
        ('check("2.5", set())', "2.5", "set()", "wrong"),
        ('check("1.1", 8 / 0)', "1.1", "8 / 0", "not readable"),
        ('check("1.1", "a" * 3)', "1.1", "'a' * 3", "not readable"),
        ('check("1.1", eight)', "1.1", "eight", "not readable"),
    ],
)
def test_answers_are_read_without_running_them(
    code: str, number: str, answer: str, result: str, tmp_path: Path
) -> None:
    path = tmp_path / "x.ipynb"
    path.write_text(json.dumps({"cells": [{"cell_type": "code", "source": code}]}))
    (given,) = score(path).given.values()
    assert (given.number, given.source, given.result) == (number, answer, result)


@pytest.mark.parametrize("code", ["check('9.9', 1)", "check(number, 1)", "def (", "drill.check(...)", "check('1.1')"])
def test_other_code_asks_nothing(code: str) -> None:
    assert list(asked(code)) == []


@pytest.mark.parametrize(
    "text", ["", "{}", '{"cells": 3}', '{"cells": [1]}', '{"cells": [{"cell_type": "code"}]}', "\udcff"]
)
def test_a_file_that_is_not_a_notebook_is_reported(text: str, tmp_path: Path) -> None:
    path = tmp_path / "x.ipynb"
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(ModuleError, match=r"x\.ipynb' is not a Jupyter notebook"):
        score(path)
    with pytest.raises(ParameterError, match="has no notebooks"):
        score((tmp_path / "empty").mkdir() or tmp_path / "empty")


@pytest.mark.parametrize(
    ("path", "form"),
    [
        pytest.param(
            path, form, marks=[pytest.mark.slow] if path in COMPILING and form in ("nbgrader", "otter") else []
        )
        for path in NOTEBOOKS
        for form in FORMS
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_lessons_in_other_forms(path: Path, form: str) -> None:
    lesson = read_notebook(path)
    built = build(lesson, form)
    cells = built["cells"]
    numbers = [number for cell in lesson["cells"] if cell["cell_type"] == "code" for number, _ in asked(source(cell))]
    assert lesson == read_notebook(path), "the lesson itself is unchanged"
    assert len({cell["id"] for cell in cells}) == len(cells)
    assert all(re.fullmatch(r"[\w-]{1,64}", cell["id"]) for cell in cells)
    texts = "".join(map(source, cells))
    if form == "slides":
        kinds = [cell["metadata"]["slideshow"]["slide_type"] for cell in cells]
        assert kinds[0] == "slide"
        assert kinds.count("notes") == len(numbers)
        code = "\n".join(source(cell) for cell in cells if cell["cell_type"] == "code")
        assert not re.findall(r"^(?:import|from|assert|jax\.config) .*", code, re.MULTILINE)
        shown = [(cell, kind) for cell, kind in zip(cells, kinds, strict=True) if kind not in ("notes", "skip")]
        for (cell, _), (after, kind) in itertools.pairwise(shown):
            if 'check("' in source(cell) and 'check("' not in source(after):
                assert kind in ("slide", "subslide"), f"the slide of {source(cell)} shows {source(after)}"
        return
    assert "<details>" not in texts
    if form == "student":
        assert all(not cell["outputs"] for cell in cells if cell["cell_type"] == "code")
        assert texts.count('check("') == len(numbers)
        return
    for number in numbers:
        name = number.replace(".", "_")
        (answer,) = (source(cell) for cell in cells if cell["id"] == f"answer-{number.replace('.', '-')}")
        (test,) = (source(cell) for cell in cells if cell["id"] == f"test-{number.replace('.', '-')}")
        names: dict[str, Any] = {"check": inspector.check}
        exec(answer, names)
        exec(test, names)
        with pytest.raises(AssertionError, match="Your turn"):
            exec(test, {"check": inspector.check, f"answer_{name}": ...})
        assert solution(questions(int(number[0]))[number]) in answer


def test_the_metadata_of_nbgrader() -> None:
    cells = build(read_notebook(SECOND), "nbgrader")["cells"]
    graded = [cell["metadata"]["nbgrader"] for cell in cells if "nbgrader" in cell["metadata"]]
    assert sum(each.get("points", 0) for each in graded) == 5
    assert all(each["grade"] is each["locked"] is not each["solution"] for each in graded)
    assert len({each["grade_id"] for each in graded}) == len(graded) == 10


def test_recordings_go_with_a_lesson(tmp_path: Path) -> None:
    source_folder, out = tmp_path / "in", tmp_path / "out"
    source_folder.mkdir()
    handed_in(source_folder, {}, "a.ipynb")
    (source_folder / "a.inspector").write_bytes(b"recorded")
    built = CliRunner().invoke(
        commands, ["course", "build", str(source_folder / "a.ipynb"), "--format", "otter", "-o", str(out)]
    )
    assert built.output.splitlines() == [str(out / "a.ipynb"), str(out / "a.inspector")]
    assert (out / "a.inspector").read_bytes() == b"recorded"
    config = source(read_notebook(out / "a.ipynb")["cells"][0])
    assert 'files: ["a.inspector"]' in config
    # Otter runs the tests with the files for Gradescope, so they must be generated.
    assert "generate" not in config


def test_the_cells_of_otter() -> None:
    cells = build(read_notebook(SECOND), "otter")["cells"]
    marks = [source(cell).splitlines()[0] for cell in cells if cell["cell_type"] == "raw"]
    question = [
        "# BEGIN QUESTION",
        "# BEGIN SOLUTION",
        "# END SOLUTION",
        "# BEGIN TESTS",
        "# END TESTS",
        "# END QUESTION",
    ]
    assert marks == ["# ASSIGNMENT CONFIG", *question * 5]


@pytest.mark.slow
def test_both_tests_of_a_class_are_parallel_and_their_keys_are_right(execute: Execute) -> None:
    before, after = (class_tests.questions_of(form) for form in class_tests.FORMS)
    kinds = [kind for kind, _ in class_tests.EXERCISES]
    assert len(before) == len(after) == len(kinds) == 12
    assert {question.text for question in before}.isdisjoint(question.text for question in after)
    for kind, *both in zip(kinds, before, after, strict=True):
        for question in both:
            if kind not in ("groups", "order", "collectives"):  # a slow test of drills has these
                CHECKS[kind](question, execute)
            assert question.answer in class_tests.as_markdown(
                "before" if question in before else "after", with_key=True
            )
    text = class_tests.as_markdown("before", with_key=False)
    assert "Key" not in text
    assert all(question.because not in text for question in before)


def test_commands(tmp_path: Path) -> None:
    def run(*arguments: str) -> str:
        result = CliRunner().invoke(commands, ["course", *arguments])
        assert result.exit_code == 0, result.output
        return result.stdout

    path = handed_in(tmp_path, {"2.5": "[0, 3]"})
    rows = list(csv.DictReader(io.StringIO(run("scores", str(path)))))
    assert [(row["student"], row["right"], row["2.5"]) for row in rows] == [("ada", "1", "1")]
    run("scores", str(path), "-o", str(tmp_path / "scores.csv"))
    assert (tmp_path / "scores.csv").read_text().startswith("student,right,answered,asked,2.1")
    assert run("build", str(path), "--format", "student", "-o", str(tmp_path / "out")).strip() == str(
        tmp_path / "out" / "ada.ipynb"
    )
    assert "<details>" not in (tmp_path / "out" / "ada.ipynb").read_text()
    itself = CliRunner().invoke(commands, ["course", "build", str(path), "--format", "student", "-o", str(tmp_path)])
    assert itself.exit_code == 2
    assert "would replace itself" in itself.stderr
    missing = CliRunner().invoke(commands, ["course", "scores", str(tmp_path / "none.ipynb")])
    assert (missing.exit_code, missing.stdout) == (2, "")
    assert "## Key" in run("test", "after", "--key")
