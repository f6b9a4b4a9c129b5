"""Dataclasses as JSON and back: what has another form is refused by name."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, Literal

import pytest

from inspector.errors import AtLeast, Missing, Unavailable
from inspector.support import json_values


@dataclasses.dataclass(frozen=True, slots=True)
class Inner:
    sizes: tuple[int, ...]
    kind: Literal["a", "b"] = "a"

    def __post_init__(self) -> None:
        if 0 in self.sizes:
            raise ValueError("no size may be 0")


@dataclasses.dataclass(frozen=True, slots=True)
class Outer:
    name: str
    inner: Inner | Unavailable | None
    pair: tuple[str, float | tuple[int]]
    seconds: Mapping[str, float]
    sure: bool = True


WHOLE = Outer("ü", Inner((1, 2), "b"), ("x", (3,)), {"a": 1.5, "b": AtLeast(2.0, [Missing("c", "custom call")])})
JSON = json.loads(json.dumps(json_values.encode(WHOLE)))


@pytest.mark.parametrize("inner", [Inner(()), Unavailable("why", "do"), None])
def test_a_round_trip_gives_an_equal_value(inner: Any) -> None:
    value = dataclasses.replace(WHOLE, inner=inner)
    found = json_values.decode(Outer, json_values.parse(json.dumps(json_values.encode(value)).encode()))
    assert found == value
    assert isinstance(found.seconds["b"], AtLeast)
    assert found.seconds["b"].missing == value.seconds["b"].missing  # type: ignore[attr-defined]


def test_whole_numbers_are_seconds_and_fields_with_defaults_may_be_missing() -> None:
    found = json_values.decode(Outer, {**{k: v for k, v in JSON.items() if k != "sure"}, "seconds": {"a": 1}})
    assert found.sure
    assert isinstance(found.seconds["a"], float)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": 1}, r"^v.name: expected str, got 1$"),
        ({"name": "\ud800"}, r"^v.name: .*surrogates"),
        ({"sure": 1}, r"^v.sure: expected bool, got 1$"),
        ({"inner": {"sizes": [True]}}, r"^v.inner.sizes\[0\]: expected int, got True$"),
        ({"inner": {"sizes": [2**70]}}, r"^v.inner.sizes\[0\]: an integer of 71 bits, more than 64$"),
        ({"inner": {"sizes": [0]}}, r"^v.inner: no size may be 0$"),
        ({"inner": {"sizes": [], "kind": "c"}}, r"^v.inner.kind: expected one of 'a', 'b', got 'c'$"),
        ({"inner": {"sizes": [], "more": 1}}, r"^v.inner: Inner has no field 'more'$"),
        ({"inner": {}}, r"^v.inner: Inner lacks the field 'sizes'$"),
        ({"inner": "x" * 1000}, r"^v.inner: expected Inner or Unavailable or null, got 'x{79}\.\.\.$"),
        ({"pair": ["x"]}, r"^v.pair: expected a list of 2, got \['x'\]$"),
        ({"pair": ["x", [1, 2]]}, r"^v.pair\[1\]: expected float or tuple"),
        ({"seconds": {"a": None}}, r"^v.seconds.a: expected float, got None$"),
        ({"seconds": []}, r"^v.seconds: expected an object, got \[\]$"),
    ],
)
def test_another_form_is_refused_by_its_place(change: dict[str, Any], words: str) -> None:
    with pytest.raises(json_values.FormError, match=words):
        json_values.decode(Outer, {**JSON, **change}, "v")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"[" * 900_000, "not JSON"), (b"[1", "not JSON"), (b"\xff", "not JSON"), (b"9" * 5000, "not JSON"),
        (b"[" + b"{}," * 1_000_000 + b"1]", "2,000,001 values, more than 1,000,000"),
    ],
)  # fmt: skip
def test_invalid_or_too_large_json_is_refused(text: bytes, words: str) -> None:
    with pytest.raises(json_values.FormError, match=words):
        json_values.parse(text)


def test_unsupported_types_are_not_encoded() -> None:
    with pytest.raises(TypeError, match="A object cannot be saved"):
        json_values.encode({"a": object()})
