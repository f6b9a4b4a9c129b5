"""Listings of the jaxpr and of the Python source that it came from."""

from __future__ import annotations

import collections
import linecache
import pathlib
import sys
import types
from collections.abc import Iterable
from typing import Any

from inspector._jax.lowering.jaxprs import Place
from inspector._jax.lowering.traced import JaxprFacts
from inspector.errors import Unavailable
from inspector.hlo.listing import Listing
from inspector.hlo.source import Frame, Origin, Root, is_notebook_cell
from inspector.support import subprocesses
from inspector.support.packages import is_library_file
from inspector.support.python_syntax import parse_python

# Packages that run the user's code; their files are never shown.
_MACHINERY = ("IPython", "ipykernel", "traitlets", "tornado", "_pytest", "pluggy", "click")
_OWN = pathlib.Path(__file__).parent.parent


def jaxpr_listing(facts: JaxprFacts, root: Root) -> Listing:
    """Returns the listing of a jaxpr, with the origins of each line."""
    known = {places: origins_of(places, root) for places in dict.fromkeys(facts.places)}
    return Listing.of(facts.text, [known[places] for places in facts.places])


def origins_of(places: Iterable[Place], root: Root) -> tuple[Origin, ...]:
    """Returns the origins of places in a program, trimmed to the function that was lowered.

    The scope of the root comes before the name of each place.
    """
    return root.trim(
        Origin("/".join(filter(None, (root.scope, name))), tuple(Frame(*frame) for frame in frames))
        for name, frames in places
    )


def source_listing(fun: Any, listings: Iterable[Listing]) -> Listing | Unavailable:
    """Returns the Python source that listings refer to: whole notebook cells, or else the enclosing definitions.

    Args:
      fun: the lowered function, whose file comes first; None if not known.
      listings: listings whose origins name files and lines.
    """
    lines: dict[str, collections.Counter[int]] = collections.defaultdict(collections.Counter)
    for listing in listings:
        for frame in (f for entry in listing.origins for origin in entry for f in origin.frames):
            lines[frame.file][frame.line] += 1
    first, span = definition(fun) or ("", (0, 0))
    if first:
        lines[first].update([span[0]])
    files = sorted(
        (f for f in lines if _is_users(f)), key=lambda f: (f != first, is_library_file(f), -sum(lines[f].values()))
    )
    blocks = [block for file in files for block in _file_blocks(file, lines[file])]
    if not blocks:
        named = next(iter(files), "")
        if named and not first and not named.startswith("<"):
            return Unavailable(f"{named} is not on this machine", "Open the program where its source files are.")
        return Unavailable(
            "no source file of the program can be read", "define the function in a file or a notebook cell"
        )
    text: list[str] = []
    origins: list[tuple[Origin, ...]] = []
    labels: list[int | None] = []
    for file, start, block in blocks:
        text += [f"# {_short_name(file)}", *block]
        origins += [(), *((Origin("", (Frame(file, start + i, ""),)),) for i in range(len(block)))]
        labels += [None, *range(start, start + len(block))]
    return Listing.of("\n".join(text), origins, labels=labels)


def _file_blocks(file: str, lines: collections.Counter[int]) -> list[tuple[str, int, list[str]]]:
    """Returns (file, first line number, lines) of each part of a file that contains a given line."""
    whole = [line.rstrip("\n") for line in linecache.getlines(file)]
    if not whole:
        return []
    if is_notebook_cell(file) or len(whole) <= _SHORT_FILE:
        return [(file, 1, whole)]
    spans = _definitions("\n".join(whole)) or [(1, len(whole))]
    wanted = sorted({span for span in spans for line in lines if span[0] <= line <= span[1]})
    return [(file, start, whole[start - 1 : end]) for start, end in wanted]


def _definitions(text: str) -> list[tuple[int, int]]:
    """Returns the line spans of the top-level statements, decorators included; none if the text is not Python."""
    try:
        tree = parse_python(text)
    except (SyntaxError, SystemError):
        return []
    spans = []
    for node in tree.body:
        decorators = getattr(node, "decorator_list", [])
        start = min([node.lineno, *(d.lineno for d in decorators)])
        spans.append((start, node.end_lineno or node.lineno))
    return spans


def definition(fun: Any) -> tuple[str, tuple[int, int]] | None:
    """Returns the file, and the first and last line, of a function's code; None if it has none."""
    code = _code_of(fun)
    if code is None:
        return None
    return code.co_filename, (code.co_firstlineno, _last_line(code))


def _last_line(code: types.CodeType) -> int:
    own = max((line for _, _, line in code.co_lines() if line), default=code.co_firstlineno)
    return max([own, *(_last_line(c) for c in code.co_consts if isinstance(c, types.CodeType))])


def _code_of(fun: Any) -> Any:
    """Returns the code object behind jit, partials, methods and wrappers; None if there is none."""
    for _ in range(10):
        if hasattr(fun, "__code__") and not hasattr(fun, "__wrapped__"):
            return fun.__code__
        fun = getattr(fun, "__wrapped__", None) or getattr(fun, "func", None) or getattr(fun, "__func__", None)
        if fun is None:
            return None
    return None


def _is_users(file: str) -> bool:
    is_machinery = (_in_packages(file) or "").partition("/")[0] in _MACHINERY
    return is_notebook_cell(file) or not (is_machinery or pathlib.PurePath(file).is_relative_to(_OWN))


def _in_packages(file: str) -> str | None:
    """Returns the part of a path below the folder that packages are installed in; None for other files."""
    parts = pathlib.PurePath(file).parts
    below = max((i + 1 for i, part in enumerate(parts) if part in _PACKAGE_FOLDERS), default=0)
    return "/".join(parts[below:]) if below else None


def _short_name(file: str) -> str:
    """Returns a path relative to its package folder, the current folder or a folder on `sys.path`."""
    if is_notebook_cell(file):
        return "notebook cell"
    if packaged := _in_packages(file):
        return packaged
    path = pathlib.PurePath(file)
    imported = sorted((pathlib.PurePath(entry) for entry in sys.path if entry), key=lambda entry: -len(entry.parts))
    current = subprocesses.current_folder()
    for folder in (*([pathlib.Path(current)] if current else []), *imported):
        if path.is_relative_to(folder) and len(folder.parts) > 1:
            return path.relative_to(folder).as_posix()
    return file


_PACKAGE_FOLDERS = ("site-packages", "dist-packages")
# Files up to this many lines are shown whole.
_SHORT_FILE = 60
