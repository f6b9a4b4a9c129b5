"""A part of what a compiler left behind that cannot be read: the rest of the compile is as good as without it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from inspector.errors import Unavailable

T = TypeVar("T")

_log = logging.getLogger(__name__)


def readable(name: str, read: Callable[[], T | Unavailable]) -> T | Unavailable:
    """What a part of the answer says, or why it cannot be read, which is logged too."""
    try:
        return read()
    except Exception as e:
        _log.exception("The %s of a compile could not be read.", name)
        return Unavailable(f"what the compiler told of it could not be read ({type(e).__name__}: {e})")
