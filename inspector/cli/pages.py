"""Explorations as files: one HTML page of several programs, or a bundle of one."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from inspector.cli.output import working

if TYPE_CHECKING:
    from inspector.api.exploration import Exploration
    from inspector.widgets.explorer import Explorer


_PAGES = (".html", ".htm")
_BUNDLE = ".inspector"


class OutputFile(click.Path):
    """A file to write. Checks its suffix and that its folder exists before anything is compiled."""

    def __init__(self, *suffixes: str) -> None:
        super().__init__(dir_okay=False, path_type=Path)
        self._suffixes = suffixes

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Called by click."""
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        if self._suffixes and path.suffix.lower() not in self._suffixes:
            self.fail(f"The name {str(path)!r} must end in {', '.join(self._suffixes)}.")
        if not path.parent.is_dir():
            self.fail(f"{str(path)!r}: the folder {str(path.parent)!r} does not exist.")
        return path


PAGE = OutputFile(*_PAGES)
PAGE_OR_BUNDLE = OutputFile(*_PAGES, _BUNDLE)
ANY_FILE = OutputFile()


def takes_html(command: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a command --html, as `page`."""
    return click.option("--html", "page", type=PAGE, metavar="FILE", help="Also write an HTML page with every stage.")(
        command
    )


_PREFIX = "inspector-page-"
_LIFE_S = 24 * 3600.0
_MOST = 5


def temporary_page() -> Path:
    """Returns a path for an unnamed page in the temporary folder, and deletes this user's earlier ones.

    The last few stay for a day, because a browser may still need to load them.
    """
    folders = []
    with contextlib.suppress(OSError):
        for entry in os.scandir(tempfile.gettempdir()):
            with contextlib.suppress(OSError):
                about = entry.stat(follow_symlinks=False)
                is_own = not hasattr(os, "geteuid") or about.st_uid == os.geteuid()
                if entry.name.startswith(_PREFIX) and entry.is_dir(follow_symlinks=False) and is_own:
                    folders.append((about.st_mtime, Path(entry.path)))
    for place, (written_s, folder) in enumerate(sorted(folders, reverse=True)):
        if place >= _MOST - 1 or time.time() - written_s > _LIFE_S:
            with contextlib.suppress(OSError):
                (folder / _PAGE).unlink(missing_ok=True)
                folder.rmdir()  # fails if the user has put other files there
    return Path(tempfile.mkdtemp(prefix=_PREFIX)) / _PAGE


_PAGE = "exploration.html"


def write(path: Path, explorers: Sequence[Explorer]) -> bool:
    """Waits for all compiles and writes a page, or a bundle for the suffix .inspector; reports failed compiles on stderr.

    Returns:
      True if everything compiled.

    Raises:
      click.UsageError: several programs for a bundle.
    """
    if path.suffix == _BUNDLE and len(explorers) > 1:
        raise click.UsageError(
            f"{path}: an .inspector file has one program, got {len(explorers)}. Use an .html file for several."
        )
    variants = [variant for explorer in explorers for variant in _compiled(explorer).variants]
    failed = [variant for variant in variants if variant.state != "done"]
    with working(f"writing {path}"):
        if path.suffix == _BUNDLE:
            explorers[0].save(path)
        elif len(variants) == 1:
            explorers[0].save_html(path)
        else:
            from inspector.widgets.saving.report import report

            report(path, *explorers)
    for variant in failed:
        target = "" if variant.label == str(variant.target) else f" [{variant.target}]"
        click.echo(f"{variant.label}{target} was not compiled: {variant.failure or variant.state}", err=True)
    for explorer in explorers:
        explorer.close()
    return not failed


def _compiled(explorer: Explorer) -> Explorer:
    with working(f"compiling {explorer.lowered.program.name}"):
        return explorer.wait()


def write_page(path: Path, explorations: Sequence[Exploration]) -> None:
    """Writes a page of recorded explorations, and reports its path on stderr."""
    write(path, [exploration.explorer() for exploration in explorations])
    click.echo(f"{path}: {path.stat().st_size:,} bytes", err=True)
