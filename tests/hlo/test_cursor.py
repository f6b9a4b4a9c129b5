"""Tokens off a text, by themselves: what is read, where it ends, and what is said where it does not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from inspector.errors import ModuleError
from inspector.hlo.cursor import _LONG, Cursor


@pytest.mark.parametrize(
    ("text", "read", "found", "position"),
    [
        ("a b", lambda c: c.at("a"), True, 0),
        (" \n a", lambda c: c.at("a"), True, 3),
        ("  ", lambda c: c.at("a"), False, 2),
        ("ab", lambda c: c.accept("ab"), True, 2),
        (" ab", lambda c: c.accept("b"), False, 1),
        (" a", lambda c: c.expect("a"), None, 2),
        (" 12,", lambda c: c.integer(), 12, 3),
        ("-12", lambda c: c.integer(), -12, 3),
        ("1,-2 , 3}x", lambda c: c.integers("}"), (1, -2, 3), 9),
        ("}", lambda c: c.integers("}"), (), 1),
        (" \n}", lambda c: c.integers("}"), (), 3),
        ("7]>", lambda c: c.integers("]>"), (7,), 3),
        (" name=1", lambda c: c.until("="), "name", 5),
        (" 'a b'.", lambda c: c.quoted(), "a b", 6),
        ('"a\'b"', lambda c: c.quoted(), "a'b", 5),
        ("  ", lambda c: c.end(), None, 2),
    ],
)
def test_tokens(text: str, read: Callable[[Cursor], Any], found: object, position: int) -> None:
    cursor = Cursor(text, "a text")
    assert read(cursor) == found
    assert cursor.position == position


@pytest.mark.parametrize(
    ("text", "read", "said"),
    [
        (" a", lambda c: c.expect("b"), r"Cannot read a text at position 1: expected 'b', got 'a' after ' '"),
        ("a", lambda c: c.end(), "position 0: expected the end"),
        ("-", lambda c: c.integer(), "position 0: expected an integer"),
        ("x", lambda c: c.integer(), "position 0: expected an integer"),
        ("1,2", lambda c: c.integers("}"), "expected '}'"),
        ("1,x}", lambda c: c.integers("}"), "position 0: expected integers up to '}'"),
        ("1,,2}", lambda c: c.integers("}"), "position 0: expected integers up to '}'"),
        ("1,}", lambda c: c.integers("}"), "position 0: expected integers up to '}'"),
        ("--1}", lambda c: c.integers("}"), "position 0: expected integers up to '}'"),
        ("²}", lambda c: c.integers("}"), "position 0: expected integers up to '}'"),
        ("abc", lambda c: c.until("="), "expected a name and '='"),
        ("'abc", lambda c: c.quoted(), "position 1: expected the closing '"),
        ('"abc', lambda c: c.quoted(), 'position 1: expected the closing "'),
        ("abc", lambda c: c.quoted(), 'expected "\'"'),
    ],
)
def test_invalid_texts_are_refused(text: str, read: Callable[[Cursor], Any], said: str) -> None:
    with pytest.raises(ModuleError) as caught:
        read(Cursor(text, "a text"))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("at", "before", "after"), [(0, 0, 20), (30, 30, 20), (31, 30, 20), (80, 30, 20), (81, 30, 19)]
)
def test_a_message_shows_the_surrounding_text(at: int, before: int, after: int) -> None:
    text = "".join(chr(ord("a") + n % 26) for n in range(100))
    cursor = Cursor(text, "letters")
    cursor.position = at
    shown = ("…" if at > before else "") + text[at - before : at]
    rest = text[at : at + after] + ("…" if at + after < 100 else "")
    assert f"expected rest, got {rest!r} after {shown!r}." in str(cursor.error("rest"))


@pytest.mark.parametrize("count", [_LONG // 4, _LONG // 2, _LONG])
@pytest.mark.parametrize("written", ["{}", " {}", "-{}", "{}000000000000000000"])
def test_long_lists_are_read_as_short_ones(count: int, written: str) -> None:
    words = [written.format(n + 1) for n in range(count)]
    cursor = Cursor(f"{{{','.join(words)}}} rest", "integers")
    cursor.expect("{")
    assert cursor.integers("}") == tuple(map(int, words))
    cursor.expect("rest")
    cursor.end()


@pytest.mark.parametrize("odd", ["", "x", "1.5", "٣"])
def test_a_long_list_with_something_else_is_refused(odd: str) -> None:
    cursor = Cursor(f"{'1,' * _LONG}{odd},1}}", "integers")
    with pytest.raises(ModuleError, match="expected integers up to"):
        cursor.integers("}")
