"""The files that belong to the project, without what Jupyter and others leave beside them."""

from __future__ import annotations

import ast
import gc
import subprocess
from pathlib import Path, PurePath

ROOT = Path(__file__).resolve().parent.parent


def committed(folder: str, pattern: str) -> list[Path]:
    """Files that git lists, or that are not hidden where the project is no clone.

    Users run the notebooks in their clone: checkpoints, copies and new notebooks may lie beside those of the project.

    Args:
      folder: below the project's root, such as "notebooks"; "." for the root.
      pattern: of the file's name.
    """
    git = ["git", "-C", str(ROOT), "ls-files", "-z", "--", folder]
    try:
        names = subprocess.run(git, capture_output=True, text=True, check=True).stdout.split("\0")
    except (OSError, subprocess.CalledProcessError):  # an unpacked source distribution
        return without_hidden(ROOT / folder, pattern)
    paths = (ROOT / name for name in names if name and PurePath(name).match(pattern))
    return sorted(path for path in paths if path.exists())


def without_hidden(folder: Path, pattern: str) -> list[Path]:
    """Files below a folder, those of hidden folders left out. Also finds files that git does not know yet."""
    found = folder.rglob(pattern)
    return sorted(p for p in found if not any(part.startswith(".") for part in p.relative_to(folder).parts))


def parsed(source: str) -> ast.Module:
    """The syntax tree of a file, without garbage collection meanwhile.

    Python 3.11.0 to 3.11.4 raise SystemError ("AST constructor recursion depth mismatch") where a collection's callback,
    such as JAX's, lets another thread parse before this one has ended.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(source)
    finally:
        if was_on:
            gc.enable()
