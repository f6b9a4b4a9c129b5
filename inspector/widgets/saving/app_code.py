"""The app's code: the loader that a notebook saves, and the code itself, which is sent or written once per page."""

from __future__ import annotations

import functools
import gzip
import hashlib
from pathlib import Path

_STATIC = Path(__file__).parent.parent / "static"
_NAME_DIGITS = 16


@functools.cache
def code() -> bytes:
    """Returns the app as one JavaScript module with its styles, compressed with gzip."""
    return gzip.compress((_STATIC / "explorer.js").read_bytes(), 9, mtime=0)


@functools.cache
def code_name() -> str:
    """Returns a name that distinguishes this code from that of other versions of inspector on the same page."""
    return hashlib.sha256((_STATIC / "explorer.js").read_bytes()).hexdigest()[:_NAME_DIGITS]


@functools.cache
def loader() -> str:
    """Returns the module of the widget, which requests `code` and runs it."""
    return (_STATIC / "loader.js").read_text("utf-8").replace("$CODE", code_name())


@functools.cache
def page_script() -> str:
    """Returns the script that starts the app from its recording on a page; it is part of the page's element."""
    return (_STATIC / "page.js").read_text("utf-8")
