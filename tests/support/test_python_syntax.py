"""Python source parsed while other threads parse too."""

from __future__ import annotations

import ast

import pytest

from inspector.lowering import listings
from inspector.support import python_syntax
from inspector.support.python_syntax import parse_python


def test_statements_and_expressions() -> None:
    assert isinstance(parse_python("x = 1"), ast.Module)
    assert isinstance(parse_python("f(x)", mode="eval"), ast.Expression)


def test_syntax_errors_are_raised() -> None:
    with pytest.raises(SyntaxError):
        parse_python("x =")


def _fail(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    parse, failures = (
        ast.parse,
        [SystemError("AST constructor recursion depth mismatch (before=180, after=69)")] * times,
    )

    def flaky(text: str, mode: str) -> ast.AST:
        if failures:
            raise failures.pop()
        return parse(text, mode=mode)

    monkeypatch.setattr(python_syntax.ast, "parse", flaky)


def test_parsing_is_retried_after_an_error_caused_by_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    _fail(monkeypatch, 3)
    assert listings._definitions("x = 1\n\n@d\ndef f():\n    pass\n") == [(1, 1), (3, 5)]
    assert listings._definitions("x =") == []


def test_the_last_error_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    _fail(monkeypatch, 20)
    with pytest.raises(SystemError):
        parse_python("x = 1")
