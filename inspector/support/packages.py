"""Packages that are installed beside this one, by name, and which source files belong to packages.

Nothing is imported, and nothing in the current folder counts.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.machinery
import importlib.metadata
import importlib.util
import os
import re
from collections.abc import Iterator
from pathlib import Path

from inspector.support.subprocesses import import_path, is_here


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


def is_library_file(file: str) -> bool:
    """Reports whether a source file belongs to an installed package or to Python itself, and so not to the user's own code.

    The path alone decides, so a program recorded on another machine gives the same answer. Library files are those below
    `site-packages` or `dist-packages`, in a wheel or an egg, in Python's standard library, in code that a library
    generated, and in a clone of a known JAX library (`equinox/equinox/nn/_linear.py`), which an editable installation
    imports. Everything else is the user's: scripts, notebook cells, and the user's own packages, installed as editable
    or imported from a folder.

    Args:
      file: a path or another name of code, as Python has it (`co_filename`).
    """
    return _in_library(file) is not None


def package_path(file: str) -> str:
    """A library's source file from its package on, such as `equinox/nn/_linear.py`; any other file as it is."""
    return _in_library(file) or file


@functools.lru_cache(1 << 14)
def _in_library(file: str) -> str | None:
    """The part of a library file's path that begins with its package; None for the user's files."""
    path = file.replace("\\", "/")
    if path.startswith(_OWN):
        return f"{Path(_OWN).name}/{path.removeprefix(_OWN)}"
    found = next(filter(None, (pattern.match(path) for pattern in _LIBRARY)), None)
    return found["rest"] if found else None


_OWN = Path(__file__).parent.parent.as_posix() + "/"
_CLONED = (
    "jax|jaxlib|flax|haiku|optax|equinox|diffrax|lineax|optimistix|numpyro|chex|orbax|distrax|jraph|rlax|blackjax|penzai|"
    "jaxopt|jaxtyping|oryx|brax|maxtext|levanter|haliax|keras|tensorflow_probability|einops|jmp"
)
_LIBRARY = (
    re.compile(r".*/(?:site|dist)-packages/(?P<rest>.+)"),
    re.compile(r".*\.(?:whl|egg|pyz|pex)/(?P<rest>.+)"),
    re.compile(rf".*/(?:dm-)?({_CLONED})(?:[-_][^/]*)?/(?:src/)?(?P<rest>\1/.+)"),
    # The standard library, in Unix and in Windows.
    re.compile(r".*/lib(?:64)?/(?:python|pypy)\d+(?:\.\d+)?t?/(?P<rest>.+)"),
    re.compile(r".*/python\d+\.zip/(?P<rest>.+)"),
    re.compile(r"[A-Za-z]:/(?:.*/)?(?:(?i:python|pypy)[\d.\-]*|(?i:mini|ana|mamba)\w*|envs/[^/]+)/Lib/(?P<rest>.+)"),
    # Code that libraries generate.
    re.compile(
        r"(?P<rest><(?:frozen |attrs generated|@beartype|decorator-gen|__array_function__|eval_with_key|lambdifygenerated).*)"
    ),
)


@functools.cache
def code_stamp(folder: Path = Path(__file__).parent.parent) -> str:
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
