"""The stored output of a notebook that has the app's code, which a notebook saves once for all its outputs."""

from __future__ import annotations

import weakref
from typing import Protocol


class StoredForm(Protocol):
    """An output that is stored in a notebook."""

    def refresh(self) -> None:
        """Writes the output again."""


_open: weakref.WeakSet[StoredForm] = weakref.WeakSet()
_holder: weakref.ref[StoredForm] | None = None


def add(output: StoredForm) -> None:
    """Adds an output that can have the code."""
    _open.add(output)


def has_code(output: StoredForm) -> bool:
    """Reports whether an output must have the code: the first one that is written, until it is removed."""
    global _holder
    if _holder is None or _holder() is None:
        _holder = weakref.ref(output)
    return _holder() is output


def remove(output: StoredForm) -> None:
    """Removes a closed output; another one takes over the code."""
    global _holder
    _open.discard(output)
    if _holder is not None and _holder() in (output, None):
        _holder = None
        for other in list(_open):
            other.refresh()
