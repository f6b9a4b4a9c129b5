"""The app's code: what a notebook keeps of it, and the code itself, which is sent or written once a page."""

from __future__ import annotations

import functools
import gzip
import hashlib
from pathlib import Path

_STATIC = Path(__file__).parent.parent / "static"
_NAME_DIGITS = 16


@functools.cache
def code() -> bytes:
    """The app as one JavaScript module with its styles, gzip."""
    return gzip.compress((_STATIC / "explorer.js").read_bytes(), 9, mtime=0)


@functools.cache
def code_name() -> str:
    """What tells this code from that of other versions of inspector on the same page."""
    return hashlib.sha256((_STATIC / "explorer.js").read_bytes()).hexdigest()[:_NAME_DIGITS]


@functools.cache
def loader() -> str:
    """The module of the widget, which asks for `code` and runs it."""
    return (_STATIC / "loader.js").read_text("utf-8").replace("$CODE", code_name())


@functools.cache
def page_script() -> str:
    """The script that brings what was recorded to life on a page; stands in the page's element."""
    return (_STATIC / "page.js").read_text("utf-8")
