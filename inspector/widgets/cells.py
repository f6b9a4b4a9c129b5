"""Names notebook cells by their number, instead of the file name that the notebook kernel assigned."""

from __future__ import annotations

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
    raw, run = shell.history_manager.input_hist_raw, shell.user_ns.get("In", [])
    return {
        shell.compile.get_code_name(text + end, transformed, number): f"In [{number}]"
        for number, (text, transformed) in enumerate(zip(raw, run, strict=False))
        if number
        for end in ("", "\n")  # the name includes a trailing line break, which the history drops
    }
