"""JAX's warnings about a traced function, as notes instead of a block of red text above the Explorer."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator

from inspector.support import packages


@contextlib.contextmanager
def noted_warnings(notes: list[str]) -> Iterator[None]:
    """Collects the warnings of JAX's own code during the context; all others are shown as usual when it ends.

    Args:
      notes: receives the texts of JAX's warnings, without repetitions, when the context ends.
    """
    folders: tuple[str, ...] = tuple(
        f"{folder}{os.sep}" for name in ("jax", "jaxlib") for folder in packages.folders(name)
    )
    others: list[warnings.WarningMessage] = []
    try:
        with warnings.catch_warnings(record=True) as caught:
            yield
    except BaseException:
        folders = ()  # there will be no Explorer with notes
        raise
    finally:
        for each in caught:
            if each.filename.startswith(folders):
                notes.append(f"JAX warns: {each.message}")
            else:
                others.append(each)
        notes[:] = dict.fromkeys(notes)
        for each in others:
            warnings.showwarning(each.message, each.category, each.filename, each.lineno, each.file, each.line)
