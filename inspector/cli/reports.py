"""`explore`, `report` and `replay`: a whole exploration as one HTML page, and a recorded one under the JAX that is installed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from inspector.cli.given import (
    Asked,
    Given,
    given,
    options_text,
    prepare,
    takes_flags,
    takes_json,
    takes_program,
    takes_target,
)  # fmt: skip
from inspector.cli.output import records, say_json, working

if TYPE_CHECKING:
    from inspector.compilation.compiled import CompiledProgram
    from inspector.exploration import Exploration
    from inspector.widgets.explorer import Explorer

_COMPARE = click.option(
    "-c",
    "--compare",
    "compare",
    multiple=True,
    metavar="TARGET|OPTIONS",
    help="One more variant: a target, or --flag=value.",
)


def _page(command: Any) -> Any:
    return click.option(
        "-o", "--output", "file", type=click.Path(dir_okay=False, path_type=Path),
        help="Write to this file: .html, or .inspector to go on with later.",
    )(command)  # fmt: skip


_SAME = "the same program"


@click.command()
@takes_program
@takes_target
@takes_flags
@_COMPARE
@_page
@click.option("--open/--no-open", "is_opened", default=True, help="Open the page in a browser.")
@click.option("--lab", is_flag=True, help="A notebook in JupyterLab in place of a page, to turn knobs in.")
def explore(
    asked: Asked,
    target: str,
    flags: tuple[str, ...],
    compare: tuple[str, ...],
    file: Path | None,
    is_opened: bool,
    lab: bool,
) -> None:
    """Every stage side by side, in a browser: a page that needs no network, or JupyterLab."""
    if lab:
        _start_lab(asked, target, flags, compare)
    path = file or Path(tempfile.mkdtemp(prefix="inspector-page-")) / "exploration.html"
    _write(asked, target, flags, compare, path)
    if is_opened and path.suffix != ".inspector" and webbrowser.open(path.resolve().as_uri()):
        click.echo(f"opened {path}", err=True)
    else:
        click.echo(str(path))


@click.command()
@takes_program
@takes_target
@takes_flags
@_COMPARE
@_page
def report(asked: Asked, target: str, flags: tuple[str, ...], compare: tuple[str, ...], file: Path | None) -> None:
    """The same as one file, to attach to an issue: HTML, or .inspector, which others can compile again."""
    name = asked.program.rpartition(":")[2].rpartition("/")[2].removesuffix(".inspector") or "report"
    path = file or Path(f"{name}.html")
    _write(asked, target, flags, compare, path)
    click.echo(f"{path}: {path.stat().st_size:,} bytes", err=True)


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--jax", default="", metavar="VERSION", help="By this version in place of the installed one; uv installs it."
)
@click.option("--exit-code", is_flag=True, help="End with status 1 where a program differs.")
@takes_json
def replay(file: Path, jax: str, exit_code: bool, as_json: bool) -> None:
    """Compiles a recorded exploration again under the JAX that is installed, or another, and says what differs."""
    prepare("cpu")
    from inspector.compilation.compiled import CompiledProgram
    from inspector.exploration import load

    found = load(file)
    exploration = _recorded(found) if isinstance(found, CompiledProgram) else found
    with working(f"compiling {len(exploration.variants)} variants"):
        done = exploration.replay(jax)
    if as_json:
        say_json(records(done.table()))
    else:
        click.echo(str(done))
    if exit_code and not all(str(said).startswith(_SAME) for said in done.differences):
        raise SystemExit(1)


def _write(asked: Asked, target: str, flags: tuple[str, ...], compare: tuple[str, ...], path: Path) -> None:
    prepare(target, *_targets(compare, target))
    found = given(asked)
    explorer = _explorer(found, target, flags, compare)
    with working("compiling"):
        explorer.wait()
    for variant in explorer.variants:
        if variant.state == "failed":
            click.echo(f"{variant.label}: {variant.error}", err=True)
    with working(f"writing {path}"):
        if path.suffix == ".inspector":
            explorer.save(path)
        else:
            explorer.save_html(path)
    explorer.close()


def _targets(compare: tuple[str, ...], target: str) -> list[str]:
    return [str(other) for _, other in _variants(compare, target) if other is not None]


def _variants(compare: tuple[str, ...], target: str) -> list[tuple[Any, Any]]:
    """Options and targets of more variants; options may be written without their dashes."""
    from inspector.widgets.variants import variants_of

    plain = [f"--{each}" if "=" in each and "==" not in each and not each.startswith("-") else each for each in compare]
    return variants_of(plain, target)


def _explorer(found: Given, target: str, flags: tuple[str, ...], compare: tuple[str, ...]) -> Explorer:
    from inspector.compilation.compiled import CompiledProgram
    from inspector.exploration import Exploration
    from inspector.exploring import explore as start

    saved = _recorded(found.fun) if isinstance(found.fun, CompiledProgram) else found.fun
    if isinstance(saved, Exploration):
        explorer, target = saved.explorer(), str(saved.baseline.target)
    else:
        with working("lowering"):
            explorer = start(saved, *found.args, target=target, options=options_text(flags), **found.keywords)
    for options, other in _variants(compare, target):
        explorer.add(options, other)
    return explorer


def _recorded(compiled: CompiledProgram) -> Exploration:
    """An exploration of one program that was saved alone."""
    from inspector.exploration import Exploration
    from inspector.lowering.lower import lower
    from inspector.reports.recorded import RecordedExploration, RecordedVariant

    lowered = lower(compiled)
    variant = RecordedVariant("baseline", compiled.options, compiled.target, "done", lowered=lowered, program=compiled)
    return Exploration.of(RecordedExploration.now(lowered, (variant,)))


def _start_lab(asked: Asked, target: str, flags: tuple[str, ...], compare: tuple[str, ...]) -> None:
    """Ends the process by becoming JupyterLab."""
    lab = shutil.which("jupyter-lab") or shutil.which("jupyter-lab", path=str(Path(sys.executable).parent))
    if lab is None:
        raise click.UsageError(
            "JupyterLab is not installed: pip install 'jax-inspector[lab]'. Without --lab, a page is opened."
        )
    path = Path(tempfile.mkdtemp(prefix="inspector-lab-")) / "explore.ipynb"
    path.write_text(json.dumps(notebook(asked, target, flags, compare)), encoding="utf-8")
    click.echo(f"{path}: JupyterLab starts", err=True)
    as_root = ["--allow-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    raise SystemExit(subprocess.call([lab, *as_root, str(path)]))


def notebook(asked: Asked, target: str, flags: tuple[str, ...], compare: tuple[str, ...]) -> dict[str, Any]:
    """A notebook that explores what a command line names."""
    code = f"""from inspector import explore
from inspector.cli.given import Asked, given, prepare

prepare({target!r}, *{_targets(compare, target)!r})
found = given({asked!r})
explore(
    found.fun, *found.args, target={target!r}, options={options_text(flags)!r}, compare={list(compare)!r},
    **found.keywords,
)"""
    cell: dict[str, Any] = {
        "cell_type": "code",
        "id": "explore",
        "execution_count": None,
        "metadata": {},
        "outputs": [],
        "source": code,
    }
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": kernel}, "cells": [cell]}
