"""Names notebook cells by their number, instead of the file name that the notebook kernel assigned."""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from typing import Any

from inspector.hlo.source import Frame, is_notebook_cell, library_text, own_frame
from inspector.widgets.messages.common import SourceLine


def cell_name(file: str) -> str | None:
    """Returns `In [3]` for the file name of a cell's code; None for any other file or outside IPython.

    A cell that ran several times unchanged has the number of its last run.
    """
    return _names().get(file) if is_notebook_cell(file) else None


def display_file(file: str) -> str:
    """Returns the name of a source file in the panes: a cell's number, else its path."""
    return cell_name(file) or file


def source_line(frames: Sequence[Frame]) -> SourceLine | None:
    """Returns the line that panes show for a call stack: the user's line, with the library line that it calls; None without frames.

    Args:
      frames: frames of the call stack, innermost first.
    """
    frame = own_frame(frames)
    if frame is None:
        return None
    return SourceLine(file=display_file(frame.file), line=frame.line or None, library=library_text(frames) or "")


def _names() -> dict[str, str]:
    ipython = sys.modules.get("IPython")
    shell: Any = ipython.get_ipython() if ipython else None
    if shell is None:
        return {}
    return _names_of(shell.compile, tuple(shell.history_manager.input_hist_raw), tuple(shell.user_ns.get("In", [])))


@functools.lru_cache(maxsize=1)
def _names_of(compiler: Any, raw: tuple[str, ...], run: tuple[str, ...]) -> dict[str, str]:
    return {
        _file_of(compiler, text + end, transformed, number): f"In [{number}]"
        for number, (text, transformed) in enumerate(zip(raw, run, strict=False))
        if number
        for end in ("", "\n")  # the name includes a trailing line break, which the history drops
    }


@functools.lru_cache(maxsize=10_000)
def _file_of(compiler: Any, text: str, transformed: str, number: int) -> str:
    """Returns the file name of a cell: a hash of its text, which takes the notebook kernel milliseconds."""
    return str(compiler.get_code_name(text, transformed, number))
