"""Handles parts of a compiler's output that cannot be read, so that the rest of the result stays usable."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from inspector.errors import Unavailable

T = TypeVar("T")

_log = logging.getLogger(__name__)


def readable(name: str, read: Callable[[], T | Unavailable]) -> T | Unavailable:
    """Reads a part of the output. Logs an error and returns it as the reason."""
    try:
        return read()
    except Exception as e:
        _log.exception("The %s of a compile could not be read.", name)
        return Unavailable(f"the compiler's output for it could not be read ({type(e).__name__}: {e})")
