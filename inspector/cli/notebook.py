"""A notebook's names: its code cells run in IPython, up to the one that defines what is asked for."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from inspector import files
from inspector.cli.output import working

_MAX_BYTES = 256 << 20


def names_of(path: Path, name: str, cell: int) -> Mapping[str, Any]:
    """The names after the cells.

    Args:
      path: of the notebook.
      name: that is asked for.
      cell: the last code cell to run, counted from 1; 0 for the last one that defines the name.

    Raises:
      click.UsageError: no notebook, or no such cell.
      Exception: what a cell raises.
    """
    sources = code_cells(path)
    last = cell or _defines(sources, name.partition(".")[0])
    if not 0 < last <= len(sources):
        raise click.UsageError(
            f"{path.name} has {len(sources)} code cells, "
            + (f"and no cell {cell}." if cell else f"of which none defines {name!r}.")
        )
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    settings = Config()
    settings.HistoryManager.enabled = False
    shell: Any = InteractiveShell.instance(config=settings)
    for number, source in enumerate(sources[:last], 1):
        with working(f"running cell {number} of {path.name}"):
            shell.run_cell(source, silent=False).raise_error()
    found: Mapping[str, Any] = shell.user_ns
    return found


def code_cells(path: Path) -> list[str]:
    """The sources of the code cells.

    Raises:
      click.UsageError: the file is no notebook.
    """
    try:
        cells = json.loads(files.read(path, _MAX_BYTES))["cells"]
        return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    except (OSError, ValueError, KeyError, TypeError) as e:
        raise click.UsageError(f"{str(path)!r} is no notebook that can be read: {type(e).__name__}: {e}.") from e


def _defines(sources: list[str], name: str) -> int:
    """The last cell that gives something a name, counted from 1; 0 for none."""
    found = [number for number, source in enumerate(sources, 1) if name in _defined(source)]
    return found[-1] if found else 0


def _defined(source: str) -> set[str]:
    from IPython.core.inputtransformer2 import TransformerManager

    try:
        transformer: Any = TransformerManager  # untyped
        body = ast.parse(transformer().transform_cell(source)).body
    except SyntaxError:
        return set()
    names = {node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names}
        else:
            stored = ast.walk(node) if isinstance(node, ast.Assign | ast.AnnAssign) else ()
            names |= {n.id for n in stored if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return names
