"""Parses Python source in any thread."""

from __future__ import annotations

import ast
import time
from typing import Literal, overload

_ATTEMPTS = 20
_PAUSE_S = 0.001


@overload
def parse_python(text: str, mode: Literal["exec"] = "exec") -> ast.Module: ...


@overload
def parse_python(text: str, mode: Literal["eval"]) -> ast.Expression: ...


def parse_python(text: str, mode: Literal["exec", "eval"] = "exec") -> ast.AST:
    """Returns the syntax tree of a text, as `ast.parse` does, and retries where another thread disturbs the parser.

    Python 3.11.0 to 3.11.4 share one recursion counter between all threads. If two threads parse at the same time, one of them
    may get a SystemError (https://github.com/python/cpython/issues/106905).

    Args:
      text: the source.
      mode: "exec" for statements, "eval" for one expression.

    Raises:
      SyntaxError: the text is not Python.
      SystemError: every attempt was disturbed by another thread.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return ast.parse(text, mode=mode)
        except SystemError:
            time.sleep(_PAUSE_S)
    return ast.parse(text, mode=mode)
