"""IPython outside of a notebook. Runs the code of cells, without drawing, input, installing and help."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import click
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from inspector.cli.cells import defined

# Magics that show help, time code, or ask the user.
_SILENT = frozenset(
    {"pinfo", "pinfo2", "pdoc", "psource", "pfile", "pdef", "psearch", "page", "quickref", "magic", "timeit", "reset"}
)
# Magics that change the environment that the command line runs in.
_INSTALLERS = frozenset({"pip", "conda", "mamba", "micromamba", "uv"})
_INSTALLING = re.compile(
    r"^\s*(?:sudo\s+)?(?:[\w./-]*python[\d.]*\s+-m\s+)?(?:\S*/)?(?:pip3?|conda|mamba|uv|apt|apt-get|brew|npm)\s"
)
# Magics that run the user's code, whose errors are raised.
_RUNNING = frozenset({"run", "time", "prun", "timeit"})


class NotebookShell(InteractiveShell):
    """Runs cells of a notebook outside of one.

    Attributes:
      shown: the last error that was displayed rather than raised, as `%%time` does; None for none.
    """

    shown: BaseException | None = None

    def run_line_magic(self, magic_name: str, line: str, _stack_depth: int = 1) -> Any:
        """Runs a line magic. Returns None, with a note on stderr, for one that does not work outside of a notebook."""
        if magic_name in _SILENT:
            return None
        if magic_name in _INSTALLERS:
            return _note(f"%{magic_name} {line}".strip(), "packages are not installed")
        try:
            return super().run_line_magic(magic_name, line, _stack_depth + 1)
        except Exception as error:
            if magic_name in _RUNNING:
                raise
            return _note(f"%{magic_name} {line}".strip(), str(error) or type(error).__name__)

    def run_cell_magic(self, magic_name: str, line: str, cell: str) -> Any:
        """Runs a cell magic. If the magic is unknown, a cell that defines names in Python runs without it."""
        if magic_name in _SILENT:
            return None
        if self.find_cell_magic(magic_name) is None:
            runs = bool(defined(cell))
            _note(f"%%{magic_name}", f"unknown magic, the cell {'runs without it' if runs else 'is skipped'}")
            if runs:
                self.run_cell(cell)
            return None
        return super().run_cell_magic(magic_name, line, cell)

    def system(self, cmd: str) -> None:
        """Runs a shell command, `!...`, without input. Its output goes to the same place as the output of cells."""
        if _INSTALLING.match(cmd):
            return _note(f"!{cmd}", "packages are not installed")
        done = subprocess.run(
            self.var_expand(cmd, depth=1), shell=True, check=False, text=True, errors="replace",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self.user_ns["_exit_code"] = done.returncode
        sys.stdout.write(done.stdout)
        return None

    def getoutput(self, cmd: str, split: bool = True, depth: int = 0) -> Any:
        """Runs a shell command and returns its output, `x = !...`."""
        if _INSTALLING.match(cmd):
            _note(f"!{cmd}", "packages are not installed")
            return []
        return super().getoutput(cmd, split, depth + 1)

    def enable_gui(self, gui: str | None = None) -> None:
        """Does nothing, because there is no event loop."""

    def enable_matplotlib(self, gui: str | None = None) -> tuple[str, str]:
        """Selects drawing into memory, for any backend that a notebook names."""
        import matplotlib as mpl

        mpl.use("agg")
        return gui or "inline", "agg"

    def enable_pylab(self, gui: str | None = None, import_all: bool = True, **_: Any) -> tuple[str, str, list[str]]:
        """Defines the names of `%pylab`, with drawing into memory."""
        from IPython.core import pylabtools

        names: dict[str, Any] = {}
        chosen = self.enable_matplotlib(gui)
        pylabtools.import_pylab(names, import_all)
        self.user_ns.update(names)
        return (*chosen, [])

    def showtraceback(self, *_: Any, **__: Any) -> None:
        """Stores the error, which `run` raises after the cell."""
        self.shown = sys.exc_info()[1]

    showsyntaxerror = showtraceback

    def run(self, source: str) -> None:
        """Runs a cell.

        Raises:
          Exception: an error that the cell raises.
        """
        self.shown = None
        self.run_cell(source, silent=False).raise_error()
        if self.shown is not None:
            raise self.shown


def shell() -> NotebookShell:
    """Creates a shell without history and windows."""
    os.environ.setdefault("MPLBACKEND", "agg")
    settings = Config()
    settings.HistoryManager.enabled = False
    made = NotebookShell if InteractiveShell.initialized() else NotebookShell.instance
    instance: NotebookShell = made(config=settings)
    return instance


def namespace(made: NotebookShell) -> Mapping[str, Any]:
    """Returns the names that the cells have defined."""
    names: Mapping[str, Any] = made.user_ns
    return names


def _note(what: str, why: str) -> None:
    click.echo(f"{what.splitlines()[0][:80]}: {' '.join(why.split())[:200]}", err=True)
