"""Messages of a browser while a cell runs: on a thread of their own where front end and kernel can do so."""

from __future__ import annotations

from typing import Any


def leave_to_front_end(comm: object) -> None:
    """Has what a front end sends handled where it asks for: JupyterLab does in a subshell, beside cells.

    ipykernel 7.4 hands it to where the kernel last sent something on the comm, for code that waits for an answer; which
    the app does not, and from which a cell that runs keeps it until it has ended. Others are left as they are.
    """
    if hasattr(comm, "_reply_subshell_for"):
        comm._reply_subshell_for = _as_sent  # noqa: SLF001 - ipykernel has no public way


def _as_sent(_data: Any, subshell: str | None) -> str | None:
    return subshell
