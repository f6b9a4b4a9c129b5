"""Converts frozen dataclasses to JSON and back. JSON is checked against the fields' types, which are the schema.

    value ── encode ──▶ JSON value ── decode(type, ...) ──▶ an equal value, or `FormError` that names the location

A field may be a str, an int, a float, a bool, None, a literal, a tuple, a frozen set, a mapping with str keys, another
such dataclass, `Unavailable`, a type with a custom `Form`, or a union of these. Fields that are valid in one process only
(`cross_process.py`) are omitted. The meaning of values is not checked here: a dataclass rejects invalid values when it is
constructed.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, ForwardRef, Literal, NamedTuple, TypeVar, get_args, get_origin

from inspector.errors import About, AtLeast, InspectorError, Missing, Partial, Unavailable
from inspector.support.cross_process import Portable, traveling

T = TypeVar("T")

_PARTIAL: Mapping[type[Partial], str] = {AtLeast: "at_least", About: "about"}
_GREATEST = 2**64  # no count of XLA has more than 64 bits
_SHOWN = 80
# JSON that consists of brackets takes a hundred times its length as Python objects.
_MAX_VALUES = 1_000_000


class FormError(ValueError):
    """JSON that does not match the type of the expected value."""


class Form(NamedTuple):
    """A custom JSON form of one type, instead of field by field.

    Attributes:
      write: converts a value to a JSON value.
      read: converts a JSON value and its location to a value; may raise FormError.
    """

    write: Callable[[Any], Any]
    read: Callable[[Any, str], Any]


Forms = Mapping[type, Form]
"""Forms by the exact type of a value or field."""

_NONE: Forms = types.MappingProxyType({})


def encode(value: object, forms: Forms = _NONE) -> Any:
    """Returns the JSON value of a dataclass or of a field's value. Raises TypeError for other types."""
    form = forms.get(type(value))
    return fields_of(value, forms) if form is None else form.write(value)


def fields_of(value: object, forms: Forms = _NONE) -> Any:
    """Encodes a value field by field, ignoring the form of its own type."""
    if isinstance(value, Partial):
        return {_PARTIAL[type(value)]: float(value), "missing": encode(value.missing, forms)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Unavailable):
        return {"unavailable": [value.reason, value.remedy]}
    if dataclasses.is_dataclass(value):
        return {name: encode(getattr(value, name), forms) for name in _written(value.__class__)}
    if isinstance(value, (tuple, list)):
        return [encode(each, forms) for each in value]
    if isinstance(value, frozenset):
        return sorted((encode(each, forms) for each in value), key=json.dumps)
    if isinstance(value, Mapping):
        return {name: encode(each, forms) for name, each in value.items()}
    raise TypeError(f"A {type(value).__name__} cannot be saved: {value!r}")


def parse(text: bytes) -> Any:
    """Parses UTF-8 JSON of any structure.

    Raises:
      FormError: the text is not JSON, or it would take too much memory.
    """
    values = sum(map(text.count, (b",", b"[", b"{")))
    if values > _MAX_VALUES:
        raise FormError(f"it has {values:,} values, more than {_MAX_VALUES:,}")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as e:
        raise FormError(f"it is not JSON ({e})") from e


def decode(kind: type[T], value: object, at: str = "", forms: Forms = _NONE) -> T:
    """Converts a JSON value to a value of a type.

    Args:
      kind: the type, as in an annotation.
      value: a value from `json.loads`.
      at: the location of the value in its document, for messages.
      forms: custom forms, by type.

    Raises:
      FormError: the JSON does not match the type.
    """
    return typing.cast("T", _decode(kind, value, at, forms))


def decode_fields(kind: type[T], value: object, at: str = "", forms: Forms = _NONE) -> T:
    """Decodes a dataclass field by field, ignoring its own form."""
    return typing.cast("T", _dataclass(kind, value, at, forms))


_Decode = Callable[[Any, str, Forms], Any]
"""Converts a JSON value at a location to a value of some type."""


def _decode(kind: Any, value: Any, at: str, forms: Forms) -> Any:
    return _decoder(kind)(value, at, forms)


@functools.cache  # a manifest has thousands of values of a dozen types
def _decoder(kind: Any) -> _Decode:
    key = next((each for each in (get_origin(kind), kind) if isinstance(each, type)), None)
    field_by_field = _decoder_without_form(kind)
    if key is None or key in _FORMLESS:
        return field_by_field

    def read(value: Any, at: str, forms: Forms) -> Any:
        form = forms.get(key)
        return field_by_field(value, at, forms) if form is None else form.read(value, at)

    return read


_FORMLESS = frozenset({bool, int, float, type(None), tuple, Unavailable})


def _decoder_without_form(kind: Any) -> _Decode:
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return lambda value, *_: value
    if isinstance(kind, ForwardRef):  # `get_type_hints` leaves it in recursive types
        return lambda value, at, _: _nested(value, at)
    if origin in (typing.Union, types.UnionType):
        return functools.partial(_choice, arguments)
    if origin is Literal:
        return functools.partial(_literal, arguments)
    if origin is tuple:
        return functools.partial(_tuple, arguments)
    if origin is frozenset:
        return lambda value, at, forms: frozenset(_tuple((*arguments, ...), value, at, forms))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return functools.partial(_mapping, arguments[1])
    if kind is Unavailable:
        return _unavailable
    if dataclasses.is_dataclass(kind):
        return functools.partial(_dataclass, kind)
    return functools.partial(_scalar, kind)


def _literal(choices: tuple[Any, ...], value: Any, at: str, _: Forms) -> Any:
    if not any(type(value) is type(each) and value == each for each in choices):
        raise _unlike(f"one of {', '.join(map(repr, choices))}", value, at)
    return value


def _mapping(kind: Any, value: Any, at: str, forms: Forms) -> dict[str, Any]:
    read = _decoder(kind)
    return {name: read(each, f"{at}.{name}", forms) for name, each in _object(value, at).items()}


def _unavailable(value: Any, at: str, _: Forms) -> Unavailable:
    reasons = _object(value, at)
    if set(reasons) != {"unavailable"}:
        raise _unlike("a reason", value, at)
    return Unavailable(*_tuple((str, str), reasons["unavailable"], at, _NONE))


def _nested(value: Any, at: str) -> Any:
    """Decodes scalars, and nested lists of them as tuples."""
    if isinstance(value, list):
        return tuple(_nested(each, f"{at}[{i}]") for i, each in enumerate(value))
    return _object(None, at) if isinstance(value, dict) else _scalar(type(value), value, at)


def _choice(kinds: tuple[Any, ...], value: Any, at: str, forms: Forms) -> Any:
    refusals = []
    for kind in kinds:
        try:
            return _decode(kind, value, at, forms)
        except FormError as e:
            refusals.append(e)
    # For an object, the error at the deepest location is the most informative.
    raise (
        max(refusals, key=lambda e: len(str(e).partition(":")[0]))
        if isinstance(value, dict)
        else _unlike(" or ".join(_name(kind) for kind in kinds), value, at)
    )


def _tuple(kinds: tuple[Any, ...], value: Any, at: str, forms: Forms) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise _unlike("a list", value, at)
    if kinds[1:] == (...,):
        read = _decoder(kinds[0])
        return tuple([read(each, f"{at}[{i}]", forms) for i, each in enumerate(value)])
    if len(kinds) != len(value):
        raise _unlike(f"a list of {len(kinds)}", value, at)
    pairs = enumerate(zip(kinds, value, strict=True))
    return tuple([_decode(kind, each, f"{at}[{i}]", forms) for i, (kind, each) in pairs])


def _dataclass(kind: Any, value: Any, at: str, forms: Forms) -> Any:
    members, (fields, needed) = _object(value, at), _fields(kind)
    if unknown := sorted(members.keys() - fields.keys()):
        raise FormError(f"{at}: {kind.__name__} has no field {unknown[0][:_SHOWN]!r}")
    if missing := [name for name in needed if name not in members]:
        raise FormError(f"{at}: {kind.__name__} lacks the field {missing[0]!r}")
    decoded = {name: fields[name](each, f"{at}.{name}", forms) for name, each in members.items()}
    try:
        return kind(**decoded)
    except (InspectorError, ValueError, TypeError, OverflowError) as e:
        raise FormError(f"{at}: {e}") from e


@functools.cache
def _fields(kind: Any) -> tuple[Mapping[str, _Decode], tuple[str, ...]]:
    """Returns a decoder for each field of a dataclass, and the names of required fields."""
    fields, hints = _written(kind), typing.get_type_hints(kind)
    needed = (n for n, f in fields.items() if f.default is f.default_factory is dataclasses.MISSING)
    return {name: _decoder(hints[name]) for name in fields}, tuple(needed)


@functools.cache
def _written(kind: Any) -> dict[str, dataclasses.Field[Any]]:
    """Returns the encoded fields of a dataclass, by name."""
    fields = dataclasses.fields(kind)
    omitted = () if not issubclass(kind, Portable) else {f.name for f in fields} - traveling(kind)
    return {field.name: field for field in fields if field.name not in omitted}


def _object(value: Any, at: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _unlike("an object", value, at)
    for name in value:
        _scalar(str, name, at)
    return value


def _scalar(kind: Any, json_value: object, at: str, _: Forms = _NONE) -> Any:
    value: Any = json_value
    for partial, name in _PARTIAL.items() if kind is float and isinstance(value, dict) else ():
        if set(value) == {name, "missing"}:
            missing = decode(tuple[Missing, ...], value["missing"], f"{at}.missing")
            return partial(_scalar(float, value[name], at), missing)
    if kind is float and type(value) is int and abs(value) < _GREATEST:
        return float(value)
    if type(json_value) is not (type(None) if kind is None else kind):
        raise _unlike(_name(kind), value, at)
    if kind is int and abs(value) >= _GREATEST:
        raise FormError(f"{at}: an integer of {value.bit_length()} bits, more than 64")
    if kind is str and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as e:  # a lone surrogate, which cannot be printed or saved
            raise FormError(f"{at}: {e}") from e
    return value


def _name(kind: Any) -> str:
    return "null" if kind in (None, type(None)) else getattr(kind, "__name__", str(kind))


def _unlike(expected: str, value: object, at: str) -> FormError:
    text = repr(value)
    return FormError(f"{at}: expected {expected}, got {text[:_SHOWN]}{'...' if len(text) > _SHOWN else ''}")
