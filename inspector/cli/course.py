"""`course`: scores, lessons in other forms and tests, for lecturers."""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path

import click

_FORMS = ("student", "nbgrader", "otter", "slides")
_TESTS = ("before", "after")


@click.group()
def course() -> None:
    """Grade and build the lessons of the course."""


@course.command()
@click.argument("paths", nargs=-1, required=True, metavar="NOTEBOOK_OR_FOLDER...")
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="File to write; standard output by default.")
def scores(paths: tuple[str, ...], output: str | None) -> None:
    """Write scores as CSV: a row for each notebook, or for each folder with one student's notebooks.

    Answers are read from the cells and checked. No code of a notebook runs. A question has 1, 0, or ? for an answer that is
    not a literal; it is empty without an answer.
    """
    from inspector.course.handed_in import score, table
    from inspector.support import files

    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(table([score(path) for path in paths]))
    if output is None:
        sys.stdout.write(text.getvalue())
    else:
        files.write_text(output, text.getvalue())


@course.command()
@click.argument("notebooks", nargs=-1, required=True, metavar="NOTEBOOK...")
@click.option("--format", "form", type=click.Choice(_FORMS), required=True, help="Form of the lessons.")
@click.option("-o", "--output", type=click.Path(file_okay=False), required=True, help="Folder to write into.")
def build(notebooks: tuple[str, ...], form: str, output: str) -> None:
    """Write lessons in another form, with the recordings (NAME.inspector) that they read.

    \b
      student   without answers and outputs
      nbgrader  the instructor's version, for `nbgrader generate_assignment`
      otter     the instructor's version, for `otter assign`
      slides    for `jupyter nbconvert --to slides`; answers are speaker notes
    """
    from inspector.course.builds import as_text, build
    from inspector.course.handed_in import read_notebook
    from inspector.errors import ParameterError
    from inspector.support import files

    folder = Path(output)
    for name in notebooks:
        target = folder / Path(name).name
        if target.resolve() == Path(name).resolve():
            raise ParameterError(f"{name!r} would replace itself. Give another folder with -o.")
        recording = Path(name).with_suffix(".inspector")
        recordings = [recording] if recording.is_file() else []
        built = as_text(build(read_notebook(name), form, [path.name for path in recordings]))
        folder.mkdir(parents=True, exist_ok=True)
        files.write_text(target, built)
        click.echo(str(target))
        for path in recordings:
            with files.writing(folder / path.name) as file:
                file.write(path.read_bytes())
            click.echo(str(folder / path.name))


@course.command()
@click.argument("form", type=click.Choice(_TESTS))
@click.option("--key", is_flag=True, help="Add the answers with their reasons.")
def test(form: str, key: bool) -> None:
    """Print a test of twelve questions as Markdown: one for before the course, and a parallel one for after it."""
    from inspector.course.class_tests import as_markdown

    click.echo(as_markdown(form, with_key=key), nl=False)
