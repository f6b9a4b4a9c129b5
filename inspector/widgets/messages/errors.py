"""Converts exceptions to messages."""

from __future__ import annotations

from inspector.errors import cut
from inspector.widgets.messages.common import Error, Notice

_SHOWN_CHARACTERS = 8000  # a few screens of text


def error_of(error: BaseException) -> Error:
    """Returns an exception as panes show it; long messages are cut in the middle."""
    return Error(kind=type(error).__name__, message=cut(str(error), _SHOWN_CHARACTERS))


def notice_of(error: BaseException) -> Notice:
    """Returns an exception as a notice, for errors that belong to no pane."""
    shown = error_of(error)
    return Notice(type="notice", level="error", message=f"{shown['kind']}: {shown['message']}")
