"""The user's own text as listings: the jaxpr, and the Python source that it came from."""

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
from inspector.hlo.source import Frame, Origin, Root
from inspector.support import subprocesses
from inspector.support.packages import is_library_file
from inspector.support.python_syntax import parse_python

# What runs the user's code: never what a reader wants.
_MACHINERY = ("IPython", "ipykernel", "traitlets", "tornado", "_pytest", "pluggy", "click")
_OWN = pathlib.Path(__file__).parent.parent


def jaxpr_listing(facts: JaxprFacts, root: Root) -> Listing:
    """A jaxpr with the origins of each line."""
    known = {places: origins_of(places, root) for places in dict.fromkeys(facts.places)}
    return Listing.of(facts.text, [known[places] for places in facts.places])


def origins_of(places: Iterable[Place], root: Root) -> tuple[Origin, ...]:
    """Places of a program, whose names leave out its own, down to the function that was lowered."""
    return root.trim(
        Origin("/".join(filter(None, (root.scope, name))), tuple(Frame(*frame) for frame in frames))
        for name, frames in places
    )


def source_listing(fun: Any, listings: Iterable[Listing]) -> Listing | Unavailable:
    """The Python that the listings name: whole notebook cells, else the enclosing definitions.

    Args:
      fun: the function lowered, whose file comes first; None when not known.
      listings: whose origins name files and lines.
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
    """(file, first line number, lines) of the parts of a file that are named."""
    whole = [line.rstrip("\n") for line in linecache.getlines(file)]
    if not whole:
        return []
    if _is_cell(file) or len(whole) <= _SHORT_FILE:
        return [(file, 1, whole)]
    spans = _definitions("\n".join(whole)) or [(1, len(whole))]
    wanted = sorted({span for span in spans for line in lines if span[0] <= line <= span[1]})
    return [(file, start, whole[start - 1 : end]) for start, end in wanted]


def _definitions(text: str) -> list[tuple[int, int]]:
    """Line spans of the top-level statements, decorators included."""
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
    """The file, first and last line of a function's code; None when it has none."""
    code = _code_of(fun)
    if code is None:
        return None
    return code.co_filename, (code.co_firstlineno, _last_line(code))


def _last_line(code: types.CodeType) -> int:
    own = max((line for _, _, line in code.co_lines() if line), default=code.co_firstlineno)
    return max([own, *(_last_line(c) for c in code.co_consts if isinstance(c, types.CodeType))])


def _code_of(fun: Any) -> Any:
    """The code object behind jit, partial, methods and wrappers; None when there is none."""
    for _ in range(10):
        if hasattr(fun, "__code__") and not hasattr(fun, "__wrapped__"):
            return fun.__code__
        fun = getattr(fun, "__wrapped__", None) or getattr(fun, "func", None) or getattr(fun, "__func__", None)
        if fun is None:
            return None
    return None


def _is_users(file: str) -> bool:
    is_machinery = (_in_packages(file) or "").partition("/")[0] in _MACHINERY
    return _is_cell(file) or not (is_machinery or pathlib.PurePath(file).is_relative_to(_OWN))


def _is_cell(file: str) -> bool:
    """Notebook cells: ipykernel's temporary files, IPython's `<ipython-input-...>`."""
    return "ipykernel_" in file or file.startswith("<ipython-input")


def _in_packages(file: str) -> str | None:
    """The part of a path below the folder that packages are installed in; None outside of any."""
    parts = pathlib.PurePath(file).parts
    below = max((i + 1 for i, part in enumerate(parts) if part in _PACKAGE_FOLDERS), default=0)
    return "/".join(parts[below:]) if below else None


def _short_name(file: str) -> str:
    """A file as its reader calls it: below its packages' folder, the current one, or one that Python imports from."""
    if _is_cell(file):
        return "notebook cell"
    if packaged := _in_packages(file):
        return packaged
    path = pathlib.PurePath(file)
    imported = sorted((pathlib.PurePath(entry) for entry in sys.path if entry), key=lambda entry: -len(entry.parts))
    here = subprocesses.current_folder()
    for folder in (*([pathlib.Path(here)] if here else []), *imported):
        if path.is_relative_to(folder) and len(folder.parts) > 1:
            return path.relative_to(folder).as_posix()
    return file


_PACKAGE_FOLDERS = ("site-packages", "dist-packages")
# Files up to this many lines are shown whole.
_SHORT_FILE = 60
