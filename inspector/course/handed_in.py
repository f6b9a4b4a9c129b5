"""Answers in notebooks that students handed in, and their scores. No code of a notebook runs."""

from __future__ import annotations

import ast
import dataclasses
import json
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from inspector.course.checking import LESSONS, check, questions
from inspector.errors import ModuleError, ParameterError
from inspector.support import files

Cell = dict[str, Any]

Result = Literal["right", "wrong", "no answer", "not readable"]

_MOST_BYTES = 64 << 20
_OPERATORS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv,
}  # fmt: skip
_SKIPPED = frozenset({".ipynb_checkpoints"})


@dataclasses.dataclass(frozen=True, slots=True)
class Given:
    """An answer in a notebook.

    Attributes:
      number: lesson and question, such as "2.1".
      source: the answer as written.
      result: the verdict; "not readable" if the answer is not a literal, and only running the cell would show its value.
    """

    number: str
    source: str
    result: Result


@dataclasses.dataclass(frozen=True, slots=True)
class Score:
    """The answers of one student.

    Attributes:
      student: name of the file or folder.
      given: the last answer to each question, by number.
    """

    student: str
    given: Mapping[str, Given]

    @property
    def right(self) -> int:
        """Number of right answers."""
        return sum(each.result == "right" for each in self.given.values())


def score(path: str | Path) -> Score:
    """Returns the answers in a notebook, or in all notebooks of a folder.

    Args:
      path: a notebook, or a folder with one student's notebooks.

    Raises:
      ModuleError: a file is not a notebook.
      ParameterError: the folder has no notebooks.
      OSError: a file cannot be read.
    """
    place = Path(path)
    paths = sorted(p for p in place.rglob("*.ipynb") if not _SKIPPED & set(p.parts)) if place.is_dir() else [place]
    if not paths:
        raise ParameterError(f"{str(place)!r} has no notebooks. Expected one folder for each student, or notebooks.")
    given = {each.number: each for notebook in paths for each in answers(read_notebook(notebook))}
    return Score(place.stem, given)


def table(scores: Sequence[Score]) -> list[list[str]]:
    """Returns rows for a spreadsheet: student, right, answered, asked, and 1, 0, "?" or "" for each question that was asked.

    "?" stands for an answer that is not readable; grade it by hand.
    """
    asked = [number for number in all_numbers() if any(number in each.given for each in scores)]
    marks = {"right": "1", "wrong": "0", "no answer": "", "not readable": "?"}
    rows = [["student", "right", "answered", "asked", *asked]]
    for each in scores:
        answered = sum(given.result != "no answer" for given in each.given.values())
        cells = [marks[each.given[number].result] if number in each.given else "" for number in asked]
        rows.append([each.student, str(each.right), str(answered), str(len(each.given)), *cells])
    return rows


def all_numbers() -> list[str]:
    """Returns the numbers of all questions of the course, in order."""
    return [number for lesson in range(len(LESSONS)) for number in questions(lesson)]


def read_notebook(path: str | Path) -> dict[str, Any]:
    """Reads a notebook.

    Raises:
      ModuleError: the file is not a notebook.
      OSError: the file cannot be read.
    """
    try:
        notebook = json.loads(files.read(path, _MOST_BYTES))
        if all(isinstance(cell["cell_type"], str) and source(cell) is not None for cell in notebook["cells"]):
            return dict(notebook)
    except (ValueError, KeyError, TypeError):
        pass
    raise ModuleError(f"{str(path)!r} is not a Jupyter notebook: expected JSON with cells.")


def is_answer(cell: Mapping[str, Any]) -> bool:
    """Reports whether a cell is the folded answer to a question."""
    return cell["cell_type"] == "markdown" and source(cell).startswith("<details>")


def source(cell: Mapping[str, Any]) -> str:
    """Returns the text of a cell."""
    return "".join(cell["source"])


def answers(notebook: Mapping[str, Any]) -> Iterator[Given]:
    """Yields the answers of a notebook in order."""
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            for number, argument in asked(source(cell)):
                yield Given(number, ast.unparse(argument), _result(number, argument))


def asked(code: str) -> Iterator[tuple[str, ast.expr]]:
    """Yields the number and the answer of each `check("2.1", answer)` in the code of a cell."""
    lines = ["pass" if line.lstrip().startswith(("%", "!")) else line for line in code.splitlines()]
    try:
        tree = ast.parse("\n".join(lines))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    known = set(all_numbers())
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or len(node.args) != 2 or not isinstance(node.args[0], ast.Constant):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name == "check" and node.args[0].value in known:
            yield str(node.args[0].value), node.args[1]


def _result(number: str, argument: ast.expr) -> Result:
    try:
        value = _value(argument)
    except (ValueError, TypeError, ArithmeticError, RecursionError, MemoryError):
        return "not readable"
    verdict = check(number, value)
    return "no answer" if verdict.is_right is None else "right" if verdict else "wrong"


def _value(node: ast.expr) -> Any:
    """Returns the value of a literal, of arithmetic with numbers, or the text of a name such as `jax.lax.psum`.

    Raises:
      ValueError, TypeError: other expressions.
    """
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        left, right = _value(node.left), _value(node.right)
        if not all(isinstance(each, int | float) for each in (left, right)):
            raise ValueError("arithmetic with values that are not numbers")
        return _OPERATORS[type(node.op)](left, right)
    if isinstance(node, ast.Name | ast.Attribute):
        text = ast.unparse(node)
        if not text.startswith(("jax.", "lax.")):
            raise ValueError("the value of a name")
        return text
    return ast.literal_eval(node)
