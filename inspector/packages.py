"""Packages that are installed beside this one, by name. Nothing is imported, and nothing in the current folder counts."""

from __future__ import annotations

import functools
import hashlib
import importlib.machinery
import importlib.metadata
import importlib.util
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
    files = sorted((file, file.stat()) for file in folder.rglob("*.py"))
    text = "\n".join(f"{file.relative_to(folder)} {stat.st_size} {stat.st_mtime_ns}" for file, stat in files)
    return hashlib.sha256(text.encode()).hexdigest()


def _outside(spec: importlib.machinery.ModuleSpec | None) -> list[Path]:
    places = (spec.submodule_search_locations or ()) if spec else ()
    return [Path(place) for place in places if not is_here(str(Path(place).parent))]


def _distribution(name: str) -> importlib.metadata.Distribution | None:
    return next(iter(importlib.metadata.distributions(name=name, path=import_path())), None)
