"""Fields that are made when they are first asked for."""

from __future__ import annotations

import dataclasses
import pickle
import threading
from collections.abc import Callable

import pytest

from inspector.support import deferred
from inspector.support.deferred import Deferred


@dataclasses.dataclass(frozen=True, slots=True)
class Text(Deferred):
    title: str
    body: str
    length: int
    notes: tuple[str, ...] = ()
    kinds: list[str] = dataclasses.field(default_factory=list)


def text(made: list[str], title: str = "t") -> Text:
    def body(of: Text) -> str:
        made.append(of.title)
        return f"{of.title}: body"

    return deferred.defer(Text, {"body": body, "length": lambda of: len(of.body)}, title=title)


def test_a_field_is_computed_once_on_first_access() -> None:
    made: list[str] = []
    value = text(made)
    assert (value.title, value.notes, value.kinds, made) == ("t", (), [], [])
    assert value.length == len("t: body")
    assert value.body is value.body
    assert made == ["t"]


def test_a_deferred_value_compares_and_pickles_as_a_complete_one() -> None:
    whole = Text("t", "t: body", 7)
    assert text([]) == whole
    assert hash(dataclasses.astuple(text([]))[:2]) == hash(("t", "t: body"))
    assert dataclasses.replace(text([]), title="u") == dataclasses.replace(whole, title="u")
    assert pickle.loads(pickle.dumps(text([]))) == whole


def test_a_replaced_value_shares_computed_fields() -> None:
    made: list[str] = []
    value = text(made)
    other = deferred.replace(deferred.replace(value, title="u", notes=("n",)), kinds=["k"])
    assert not made
    assert (other.title, other.body, other.notes, other.kinds) == ("u", "t: body", ("n",), ["k"])
    assert value.body is other.body
    assert made == ["t"]
    assert deferred.replace(Text("t", "b", 1), length=2) == Text("t", "b", 2)


@dataclasses.dataclass(frozen=True, slots=True)
class Heading(Text):
    level: int = 1


def test_the_same_as_another_class_makes_nothing() -> None:
    made: list[str] = []
    value = text(made)
    heading = deferred.convert(Heading, value, level=2)
    assert (heading.title, heading.level, made) == ("t", 2, [])
    assert heading.body is value.body
    assert deferred.convert(Heading, Text("t", "b", 1)) == Heading("t", "b", 1)


def test_a_failed_value_is_retried() -> None:
    tries: list[int] = []

    def body(_: Text) -> str:
        tries.append(1)
        if len(tries) == 1:
            raise ValueError("not yet")
        return "body"

    value = deferred.defer(Text, {"body": body}, title="t", length=4)
    with pytest.raises(ValueError, match="not yet"):
        _ = value.body
    assert value.body == "body"


def test_threads_that_ask_at_once_wait_for_the_same() -> None:
    made: list[str] = []
    begun, go_on = threading.Event(), threading.Event()

    def body(_: Text) -> str:
        begun.set()
        go_on.wait(10)
        made.append("body")
        return str(len(made))

    value = deferred.defer(Text, {"body": body}, title="t", length=4)
    found: list[str] = []
    ask: Callable[[], None] = lambda: found.append(value.body)  # noqa: E731
    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert begun.wait(10)
    go_on.set()
    for thread in threads:
        thread.join(10)
    assert found == ["1"] * 4


def test_a_missing_attribute_raises_the_usual_error() -> None:
    for value in (text([]), Text("t", "b", 1)):
        with pytest.raises(AttributeError, match="has no attribute 'other'"):
            _ = value.other  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="'title' is neither known nor deferred"):
        deferred.defer(Text, {"body": lambda _: "b"}, length=1)
    with pytest.raises(TypeError, match="A Text has no field 'other'"):
        deferred.defer(Text, {}, title="t", body="b", length=1, other=2)
