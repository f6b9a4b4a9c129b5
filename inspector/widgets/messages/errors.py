"""Exceptions as messages."""

from __future__ import annotations

from inspector.errors import cut
from inspector.widgets.messages.common import Error, Notice

_SHOWN_CHARACTERS = 8000  # some screens of text


def error_of(error: BaseException) -> Error:
    """An exception as the panes show it; of a long text the beginning and the end."""
    return Error(kind=type(error).__name__, message=cut(str(error), _SHOWN_CHARACTERS))


def notice_of(error: BaseException) -> Notice:
    """The same where it belongs to no pane."""
    shown = error_of(error)
    return Notice(type="notice", level="error", message=f"{shown['kind']}: {shown['message']}")
