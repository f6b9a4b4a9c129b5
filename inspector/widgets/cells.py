"""Notebook cells by the number that the reader sees, instead of the file name that the notebook kernel gave them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from inspector.hlo.source import Frame, library_text, own_frame
from inspector.widgets.messages.common import SourceLine


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


def source_line(frames: Sequence[Frame]) -> SourceLine | None:
    """The line that panes show for a call stack: the user's, with the library's that it led to; None without frames.

    Args:
      frames: innermost first.
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
        for end in ("", "\n")  # the history drops a line break at the end, of which the name was made too
    }
