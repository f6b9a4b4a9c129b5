"""Packages that are installed beside this one, by name. Nothing is imported, and nothing in the current folder counts."""

from __future__ import annotations

import functools
import hashlib
import importlib.machinery
import importlib.metadata
import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

from inspector.subprocesses import import_path, is_here


def folders(name: str) -> list[Path]:
    """Where a package is, several places for a namespace package; none when it is not installed."""
    found = importlib.util.find_spec(name)
    if found is None:
        return []
    # One in the current folder hides the installed one.
    return _outside(found) or _outside(importlib.machinery.PathFinder.find_spec(name, import_path()))


def version(distribution: str) -> str:
    """Of an installed distribution; "" for none."""
    found = _distribution(distribution)
    return found.version if found else ""


def files(distribution: str) -> list[Path]:
    """What an installed distribution brought along."""
    found = _distribution(distribution)
    return [Path(str(file.locate())) for file in (found.files or () if found else ())]


@functools.cache
def code_stamp(folder: Path = Path(__file__).parent) -> str:
    """Tells one state of a package's code from another, in hex: names, sizes and times of its modules.

    A version does not: it stays the same while an editable installation changes.
    """
    text = "\n".join(sorted(_described(str(folder), "")))
    return hashlib.sha256(text.encode()).hexdigest()


def _described(folder: str, below: str) -> Iterator[str]:
    """A line for each module below a folder. Not by `pathlib`, which takes longer than to read a small program."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _described(entry.path, f"{below}{entry.name}/")
            elif entry.name.endswith(".py"):
                stat = entry.stat()
                yield f"{below}{entry.name} {stat.st_size} {stat.st_mtime_ns}"


def _outside(spec: importlib.machinery.ModuleSpec | None) -> list[Path]:
    places = (spec.submodule_search_locations or ()) if spec else ()
    return [Path(place) for place in places if not is_here(str(Path(place).parent))]


def _distribution(name: str) -> importlib.metadata.Distribution | None:
    return next(iter(importlib.metadata.distributions(name=name, path=import_path())), None)
