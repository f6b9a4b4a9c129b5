"""Names of a notebook. Its code cells run in IPython, up to the one that defines the requested name."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from inspector.cli.cells import ANY, Cell, defined
from inspector.cli.output import working
from inspector.support import files
from inspector.support.units import counted

_MAX_BYTES = 256 << 20
_SKIPPED, _RAISING = "skip-execution", "raises-exception"  # tags of nbclient and Jupyter Book


def notebook_names(path: Path, name: str, cell: int) -> Mapping[str, Any]:
    """Runs code cells and returns the names that they define.

    Args:
      path: the notebook.
      name: the requested name.
      cell: the last code cell to run, counted from 1; 0 for the last one that defines the name.

    Raises:
      click.UsageError: the file is not a notebook, or there is no such cell.
      Exception: an error that a cell raises.
    """
    cells = code_cells(path)
    last = cell or _defines(cells, name.partition(".")[0])
    if not 0 < last <= len(cells):
        raise click.UsageError(
            f"{path.name} has {counted(len(cells), 'code cell')}, "
            + (f"and no cell {cell}." if cell else f"and none of them defines {name!r}.")
        )
    from inspector.cli import notebook_shell

    shell, folder = notebook_shell.shell(), path.resolve().parent
    sys.path.insert(0, str(folder))  # as in Jupyter, which also runs cells in the notebook's folder
    with contextlib.chdir(folder):
        for number, each in enumerate(cells[:last], 1):
            if _SKIPPED in each.tags:
                continue
            with working(f"running cell {number} of {path.name}"):
                try:
                    shell.run(each.source)
                except Exception:
                    if _RAISING not in each.tags:
                        raise
    return notebook_shell.namespace(shell)


def code_cells(path: Path) -> list[Cell]:
    """Reads the code cells.

    Raises:
      click.UsageError: the file is not a notebook.
    """
    try:
        cells = json.loads(files.read(path, _MAX_BYTES))["cells"]
        return [
            Cell("".join(cell["source"]), frozenset(cell.get("metadata", {}).get("tags", ())))
            for cell in cells
            if cell["cell_type"] == "code"
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as e:
        raise click.UsageError(f"{str(path)!r} is not a readable notebook: {type(e).__name__}: {e}.") from e


def _defines(cells: Sequence[Cell], name: str) -> int:
    """Returns the number of the last cell that defines a name, else of the last cell that may define it, else 0; counted from 1."""
    for wanted in (name, ANY):
        numbers = [number for number, cell in enumerate(cells, 1) if wanted in defined(cell.source)]
        if numbers:
            return numbers[-1]
    return 0
