"""Checks whether a value is a valid message."""

from __future__ import annotations

import functools
import reprlib
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

_CHECKED_ITEMS = 16
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 120


def problem(value: object, kind: Any, path: str = "message") -> str | None:
    """Returns the first problem of a message, or None if it is valid.

    Only the first items of each list are checked: a message can contain 100,000 group members, all
    created by the same line of code.

    Args:
      value: a decoded JSON value.
      kind: the expected type: `ToBrowser`, `FromBrowser`, a message class or a part of one.
      path: the name of the value in the returned text.
    """
    if is_typeddict(kind):
        return _problem_of_fields(value, kind, path)
    arguments = get_args(kind)
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return _problem_of_union(value, arguments, path)
    if origin is Literal:
        return None if value in arguments else f"{path} is {_short_text(value)}, expected one of {arguments}"
    if origin is list:
        if not isinstance(value, list):
            return f"{path} is {_short_text(value)}, expected a list"
        return _first(problem(v, arguments[0], f"{path}[{i}]") for i, v in enumerate(value[:_CHECKED_ITEMS]))
    if origin is tuple:
        if not isinstance(value, (list, tuple)) or len(value) != len(arguments):
            return f"{path} is {_short_text(value)}, expected {len(arguments)} values"
        pairs = enumerate(zip(value, arguments, strict=True))
        return _first(problem(v, a, f"{path}[{i}]") for i, (v, a) in pairs)
    if origin is dict:
        if not isinstance(value, Mapping):
            return f"{path} is {_short_text(value)}, expected an object"
        items = list(value.items())[:_CHECKED_ITEMS]
        return _first(problem(v, arguments[1], f"{path}[{_short_text(k)}]") for k, v in items)
    return _problem_of_scalar(value, kind, path)


def type_of(kind: type) -> str:
    """Returns the `type` that identifies the messages of a class."""
    return str(get_args(_hints(kind)["type"])[0])


def _problem_of_fields(value: object, kind: Any, path: str) -> str | None:
    if not isinstance(value, Mapping):
        return f"{path} is {_short_text(value)}, expected {kind.__name__}"
    hints = _hints(kind)
    missing = sorted(hints.keys() - value.keys())
    unknown = sorted(value.keys() - hints.keys() - {"to"})
    if missing or unknown:
        return f"{path} is not {kind.__name__}: missing {missing}, unknown {_short_text(unknown)}"
    return _first(problem(value[name], hint, f"{path}.{name}") for name, hint in hints.items())


def _problem_of_union(value: object, kinds: tuple[Any, ...], path: str) -> str | None:
    tagged = {type_of(k): k for k in kinds if "type" in _hints(k)}
    if tagged:
        tag = value.get("type") if isinstance(value, Mapping) else None
        if not isinstance(tag, str) or tag not in tagged:
            return f"{path} has type {_short_text(tag)}, expected one of {sorted(tagged)}"
        return problem(value, tagged[tag], path)
    problems = [problem(value, k, path) for k in kinds]
    return None if None in problems else problems[0]


def _problem_of_scalar(value: object, kind: Any, path: str) -> str | None:
    if kind is Any:
        return None
    accepted = (int, float) if kind is float else (kind,)
    is_flag = isinstance(value, bool) and kind is not bool
    if isinstance(value, accepted) and not is_flag:
        return None
    name = "null" if kind is NoneType else kind.__name__
    return f"{path} is {_short_text(value)}, expected {name}"


def _short_text(value: object) -> str:
    """Returns the text of a value, shortened if it is long."""
    return _SHORT.repr(value)


@functools.cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind) if is_typeddict(kind) else {}


def _first(problems: Any) -> str | None:
    return next((p for p in problems if p is not None), None)
