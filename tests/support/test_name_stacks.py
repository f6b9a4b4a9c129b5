"""Name stacks in their parts."""

from __future__ import annotations

import pytest

from inspector.support.name_stacks import cut, names_of


@pytest.mark.parametrize(
    ("stack", "names"),
    [
        ("", []),
        ("jit(step)/transpose(jvp(attention))/dot_general", ["step", "attention", "dot_general"]),
        ("transpose(jvp())/mul", ["mul"]),
        ("vmap(jvp(a/b))/c", ["a", "b", "c"]),
        ("jit(jit(g))/g[x/y]", ["g", "g[x/y]"]),
        ("mine(a)/jvp", ["mine(a)", "jvp"]),
    ],
)
def test_names(stack: str, names: list[str]) -> None:
    assert [*names_of(stack)] == names


def test_names_in_brackets_stay_whole() -> None:
    assert [*cut("a(b/c)/d[e/f]//g")] == ["a(b/c)", "d[e/f]", "", "g"]
    assert [*cut("a/b(c:d):e", ":")] == ["a/b(c:d)", "e"]
    assert [*cut("a)/b")] == ["a)", "b"]
