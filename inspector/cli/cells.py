"""Code cells of a notebook and the names that they define."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator
from typing import Any

from inspector.support.python_syntax import parse_python

ANY = "*"
"""Stands for names that are not in the text of a cell, such as the names of a file that it runs."""

_CELL_MAGIC = re.compile(r"\s*%%(!|\w+)[^\n]*\n?")
_RUN = re.compile(r"^\s*%run\b", re.MULTILINE)
_OTHER_LANGUAGES = frozenset(
    [
        "!",
        "bash",
        "cmd",
        "html",
        "javascript",
        "js",
        "latex",
        "markdown",
        "perl",
        "pypy",
        "python",
        "python2",
        "python3",
        "ruby",
        "script",
        "sh",
        "svg",
        "sx",
        "system",
        "timeit",
        "writefile",
    ]
)
_SCOPES = (
    ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda,
    ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp,
)  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class Cell:
    """A code cell.

    Attributes:
      source: its text, including magics.
      tags: its tags in the notebook, such as "raises-exception".
    """

    source: str
    tags: frozenset[str] = frozenset()


def defined(source: str) -> set[str]:
    """Returns the names that a cell defines at its top level, with "*" if a file or module may define more."""
    from IPython.core.inputtransformer2 import TransformerManager

    magic = _CELL_MAGIC.match(source)
    if magic is not None:
        return set() if magic[1] in _OTHER_LANGUAGES else defined(source[magic.end() :])
    try:
        transformer: Any = TransformerManager  # untyped
        tree = parse_python(transformer().transform_cell(source))
    except SyntaxError:
        return set()
    names = {ANY} if _RUN.search(source) else set()
    for node in _top_level(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


def _top_level(tree: ast.AST) -> Iterator[ast.AST]:
    """Yields the nodes in the module's own scope, including those within `if`, `with`, `try` and loops."""
    for node in ast.iter_child_nodes(tree):
        yield node
        if not isinstance(node, _SCOPES):
            yield from _top_level(node)
