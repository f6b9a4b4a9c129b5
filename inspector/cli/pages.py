"""Explorations as files: one HTML page of several programs, or a bundle of one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from inspector.cli.output import working

if TYPE_CHECKING:
    from inspector.exploration import Exploration
    from inspector.widgets.explorer import Explorer


def takes_html(command: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a command --html, as `page`."""
    return click.option(
        "--html", "page", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
        help="Write a report of it too: a page with every stage.",
    )(command)  # fmt: skip


def write(path: Path, explorers: Sequence[Explorer]) -> None:
    """Waits for all compiles and writes a page, or a bundle where the path ends so; says which of them failed.

    Raises:
      click.UsageError: several programs for a bundle.
    """
    if path.suffix == ".inspector" and len(explorers) > 1:
        raise click.UsageError(
            f"{path}: an .inspector file has one program, got {len(explorers)}. Name an .html file for several."
        )
    variants = [variant for explorer in explorers for variant in _compiled(explorer).variants]
    for variant in variants:
        if variant.state == "failed":
            click.echo(f"{variant.label}: {variant.error}", err=True)
    with working(f"writing {path}"):
        if path.suffix == ".inspector":
            explorers[0].save(path)
        elif len(variants) == 1:
            explorers[0].save_html(path)
        else:
            from inspector.widgets.report import report

            report(path, *explorers)
    for explorer in explorers:
        explorer.close()


def _compiled(explorer: Explorer) -> Explorer:
    with working(f"compiling {explorer.lowered.program.name}"):
        return explorer.wait()


def write_page(path: Path, explorations: Sequence[Exploration]) -> None:
    """A page of what was recorded; says on stderr where it is."""
    write(path, [exploration.explorer() for exploration in explorations])
    click.echo(f"{path}: {path.stat().st_size:,} bytes", err=True)
