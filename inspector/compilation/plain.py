"""Frozen dataclasses as JSON and back. What is read is checked against the fields' types, which are the schema.

    value ── encode ──▶ JSON value ── decode(type, ...) ──▶ an equal value, or `FormError` that names the place

A field may be a str, an int, a float, a bool, None, a literal, a tuple, a mapping from texts, another such
dataclass, `Unavailable`, or a choice of these. Knows nothing of what the values mean: what a dataclass does not
take, it refuses itself when it is made.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar, get_args, get_origin

from inspector.errors import AtLeast, InspectorError, Missing, Unavailable

T = TypeVar("T")

_GREATEST = 2**64  # no count of XLA's has more bits
_SHOWN = 80
# JSON becomes a hundred times its length in Python's objects when it is all brackets.
_MAX_VALUES = 1_000_000


class FormError(ValueError):
    """JSON that has not the form of the value that it should be."""


def encode(value: object) -> Any:
    """A JSON value of a dataclass, or of what its fields may be. Raises TypeError for anything else."""
    if isinstance(value, AtLeast):
        return {"at_least": float(value), "missing": encode(value.missing)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Unavailable):
        return {"unavailable": [value.reason, value.remedy]}
    if dataclasses.is_dataclass(value):
        return {field.name: encode(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, (tuple, list)):
        return [encode(each) for each in value]
    if isinstance(value, Mapping):
        return {name: encode(each) for name, each in value.items()}
    raise TypeError(f"A {type(value).__name__} cannot be saved: {value!r}")


def parse(text: bytes) -> Any:
    """The JSON value of a text in UTF-8, of whatever form.

    Raises:
      FormError: none, or one that would take too much memory.
    """
    values = sum(map(text.count, (b",", b"[", b"{")))
    if values > _MAX_VALUES:
        raise FormError(f"it has {values:,} values, more than {_MAX_VALUES:,}")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as e:
        raise FormError(f"it is no JSON ({e})") from e


def decode(kind: type[T], value: object, at: str = "") -> T:
    """The value of a type that a JSON value stands for.

    Args:
      kind: the type, as an annotation writes it.
      value: what `json.loads` gave.
      at: the place of the value in what it was read from, for the message.

    Raises:
      FormError: it has another form.
    """
    return typing.cast("T", _decode(kind, value, at))


_Decode = Callable[[Any, str], Any]
"""Gives the value of some type that a JSON value at a place stands for."""


def _decode(kind: Any, value: Any, at: str) -> Any:
    return _decoder(kind)(value, at)


@functools.cache  # a manifest has thousands of values of a dozen types
def _decoder(kind: Any) -> _Decode:
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return lambda value, _: value
    if origin in (typing.Union, types.UnionType):
        return functools.partial(_choice, arguments)
    if origin is Literal:
        return functools.partial(_literal, arguments)
    if origin is tuple:
        return functools.partial(_tuple, arguments)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return functools.partial(_mapping, arguments[1])
    if kind is Unavailable:
        return _unavailable
    if dataclasses.is_dataclass(kind):
        return functools.partial(_dataclass, kind)
    return functools.partial(_scalar, kind)


def _literal(choices: tuple[Any, ...], value: Any, at: str) -> Any:
    if not any(type(value) is type(each) and value == each for each in choices):
        raise _unlike(f"one of {', '.join(map(repr, choices))}", value, at)
    return value


def _mapping(kind: Any, value: Any, at: str) -> dict[str, Any]:
    read = _decoder(kind)
    return {name: read(each, f"{at}.{name}") for name, each in _object(value, at).items()}


def _unavailable(value: Any, at: str) -> Unavailable:
    reasons = _object(value, at)
    if set(reasons) != {"unavailable"}:
        raise _unlike("a reason", value, at)
    return Unavailable(*_tuple((str, str), reasons["unavailable"], at))


def _choice(kinds: tuple[Any, ...], value: Any, at: str) -> Any:
    refusals = []
    for kind in kinds:
        try:
            return _decode(kind, value, at)
        except FormError as e:
            refusals.append(e)
    # Of an object, the choice that got furthest says most.
    raise (
        max(refusals, key=lambda e: len(str(e).partition(":")[0]))
        if isinstance(value, dict)
        else _unlike(" or ".join(_name(kind) for kind in kinds), value, at)
    )


def _tuple(kinds: tuple[Any, ...], value: Any, at: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise _unlike("a list", value, at)
    if kinds[1:] == (...,):
        read = _decoder(kinds[0])
        return tuple([read(each, f"{at}[{i}]") for i, each in enumerate(value)])
    if len(kinds) != len(value):
        raise _unlike(f"a list of {len(kinds)}", value, at)
    return tuple([_decode(kind, each, f"{at}[{i}]") for i, (kind, each) in enumerate(zip(kinds, value, strict=True))])


def _dataclass(kind: Any, value: Any, at: str) -> Any:
    given, (fields, needed) = _object(value, at), _fields(kind)
    if unknown := sorted(given.keys() - fields.keys()):
        raise FormError(f"{at}: a {kind.__name__} has no {unknown[0][:_SHOWN]!r}")
    if missing := [name for name in needed if name not in given]:
        raise FormError(f"{at}: a {kind.__name__} without {missing[0]!r}")
    decoded = {name: fields[name](each, f"{at}.{name}") for name, each in given.items()}
    try:
        return kind(**decoded)
    except (InspectorError, ValueError, TypeError, OverflowError) as e:
        raise FormError(f"{at}: {e}") from e


@functools.cache
def _fields(kind: Any) -> tuple[Mapping[str, _Decode], tuple[str, ...]]:
    """What reads each field of a dataclass, and the fields that it must have."""
    fields, hints = dataclasses.fields(kind), typing.get_type_hints(kind)
    needed = (f.name for f in fields if f.default is f.default_factory is dataclasses.MISSING)
    return {field.name: _decoder(hints[field.name]) for field in fields}, tuple(needed)


def _object(value: Any, at: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _unlike("an object", value, at)
    for name in value:
        _scalar(str, name, at)
    return value


def _scalar(kind: Any, given: object, at: str) -> Any:
    value: Any = given
    if kind is float and isinstance(value, dict) and set(value) == {"at_least", "missing"}:
        missing = decode(tuple[Missing, ...], value["missing"], f"{at}.missing")
        return AtLeast(_scalar(float, value["at_least"], at), missing)
    if kind is float and type(value) is int and abs(value) < _GREATEST:
        return float(value)
    if type(given) is not (type(None) if kind is None else kind):
        raise _unlike(_name(kind), value, at)
    if kind is int and abs(value) >= _GREATEST:
        raise FormError(f"{at}: a number of {value.bit_length()} bits")
    if kind is str and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as e:  # half of a surrogate pair, which can neither be printed nor saved
            raise FormError(f"{at}: {e}") from e
    return value


def _name(kind: Any) -> str:
    return "null" if kind in (None, type(None)) else getattr(kind, "__name__", str(kind))


def _unlike(expected: str, value: object, at: str) -> FormError:
    found = repr(value)
    return FormError(f"{at}: expected {expected}, got {found[:_SHOWN]}{'...' if len(found) > _SHOWN else ''}")
