"""Notebook cells by the number that the reader sees, instead of the file name that the notebook kernel gave them."""

from __future__ import annotations

import sys
from typing import Any


def cell_name(file: str) -> str | None:
    """`In [3]` for the file name of a cell's code, None for anything else or outside of IPython.

    A cell that ran several times unchanged has the number of its last run.
    """
    if "ipykernel_" not in file and not file.startswith("<ipython-input"):
        return None
    return _names().get(file)


def display_file(file: str) -> str:
    """What the panes call a source file: a cell's number, else its path."""
    return cell_name(file) or file


def _names() -> dict[str, str]:
    ipython = sys.modules.get("IPython")
    shell: Any = ipython.get_ipython() if ipython else None
    if shell is None:
        return {}
    raw, run = shell.history_manager.input_hist_raw, shell.user_ns.get("In", [])
    return {
        shell.compile.get_code_name(text + end, transformed, number): f"In [{number}]"
        for number, (text, transformed) in enumerate(zip(raw, run, strict=False))
        if number
        for end in ("", "\n")  # the history drops a line break at the end, of which the name was made too
    }
