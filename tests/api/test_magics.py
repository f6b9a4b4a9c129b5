"""`%explore f(x)`: the call as a user writes it."""

from __future__ import annotations

import functools
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

import inspector
from inspector.api import magics
from inspector.errors import ParameterError

Call = tuple[Any, tuple[Any, ...], dict[str, Any]]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Call]:
    """Returns the arguments that `explore` would get."""
    made: list[Call] = []
    import inspector.api.explore as module

    @functools.wraps(module.explore)  # whose options it has
    def record(fun: Any, *args: Any, **settings: Any) -> str:
        made.append((fun, args, settings))
        return "shown"

    monkeypatch.setattr(module, "explore", record)
    return made


def f(*args: Any, **kwargs: Any) -> None:
    raise AssertionError("%explore must not call the function")


@pytest.mark.parametrize(
    ("line", "args", "settings"),
    [
        ("f(x, 2)", (10, 2), {"kwargs": {}}),
        (" f( x, w=x + 1 ) ", (10,), {"kwargs": {"w": 11}}),
        ("f(*pair, **named)", (1, 2), {"kwargs": {"a": 3}}),
        ("f(*pair, x, k=1, **named)", (1, 2, 10), {"kwargs": {"k": 1, "a": 3}}),
        ("f()", (), {"kwargs": {}}),
        ("f({'a': x}, {0: 10})", ({"a": 10}, {0: 10}), {"kwargs": {}}),
        ("f(x), dict(target='cpu:8')", (10,), {"kwargs": {}, "target": "cpu:8"}),
        ("f(x), {'axis_env': [('i', 4)]}", (10,), {"kwargs": {}, "axis_env": [("i", 4)]}),
        ("holder.f(x)", (10,), {"kwargs": {}}),
    ],
)
def test_a_line_is_the_call_explored(calls: list[Call], line: str, args: Any, settings: Any) -> None:
    holder = type("Holder", (), {"f": staticmethod(f)})
    names = {"f": f, "x": 10, "pair": (1, 2), "named": {"a": 3}, "holder": holder}
    assert magics.explore_call(line, names) == "shown"
    assert calls == [(f, args, settings)]


@pytest.mark.parametrize("line", ["", "f", "f(x", "x = f(x)", "f(x) + 1", "f(x), g(x), h(x)", "lambda x: x"])
def test_other_expressions_than_calls_are_refused(calls: list[Call], line: str) -> None:
    with pytest.raises(ParameterError, match=r"%explore takes a call, such as %explore f\(x, w\), got"):
        magics.explore_call(line, {"f": f, "x": 1})
    assert calls == []


def test_a_name_that_is_not_there_is_pythons_error(calls: list[Call]) -> None:
    with pytest.raises(NameError, match="nothing"):
        magics.explore_call("f(nothing)", {"f": f})


def test_in_a_shell_braces_and_dollars_are_the_users(calls: list[Call]) -> None:
    shell = InteractiveShell()
    inspector.load_ipython_extension(shell)
    shell.user_ns.update(f=f, x=10, w=3)
    assert shell.run_line_magic("explore", "f({0: 10, 'w': {x}}, '$x {w}')") == "shown"
    assert calls == [(f, ({0: 10, "w": {10}}, "$x {w}"), {"kwargs": {}})]
