"""Handles messages of a browser while a cell runs, on a separate thread if the front end and the kernel support it."""

from __future__ import annotations

from typing import Any


def leave_to_front_end(comm: object) -> None:
    """Handles the front end's messages in the thread that it requests: JupyterLab requests a subshell, which runs in parallel with cells.

    ipykernel 7.4 instead uses the thread where the kernel last sent a message on the comm, for code that waits for an answer. The app
    does not wait, and there a running cell would delay its messages until the cell ends. Other versions are left unchanged.
    """
    if hasattr(comm, "_reply_subshell_for"):
        comm._reply_subshell_for = _as_sent  # noqa: SLF001 - ipykernel has no public way


def _as_sent(_data: Any, subshell: str | None) -> str | None:
    return subshell
