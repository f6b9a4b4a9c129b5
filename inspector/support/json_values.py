"""Frozen dataclasses as JSON and back. What is read is checked against the fields' types, which are the schema.

    value ── encode ──▶ JSON value ── decode(type, ...) ──▶ an equal value, or `FormError` that names the place

A field may be a str, an int, a float, a bool, None, a literal, a tuple, a frozen set, a mapping from texts, another
such dataclass, `Unavailable`, a type with a `Form` of its own, or a choice of these. What lives in one process
(`portable.py`) is left out. Knows nothing of what the values mean: what a dataclass does not take, it refuses itself
when it is made.
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
_GREATEST = 2**64  # no count of XLA's has more bits
_SHOWN = 80
# JSON becomes a hundred times its length in Python's objects when it is all brackets.
_MAX_VALUES = 1_000_000


class FormError(ValueError):
    """JSON that has not the form of the value that it should be."""


class Form(NamedTuple):
    """How values of one type are written that are not written field by field.

    Attributes:
      write: gives a JSON value.
      read: the inverse; takes that and its place, and raises FormError.
    """

    write: Callable[[Any], Any]
    read: Callable[[Any, str], Any]


Forms = Mapping[type, Form]
"""Forms by the very type of a value, and of a field."""

_NONE: Forms = types.MappingProxyType({})


def encode(value: object, forms: Forms = _NONE) -> Any:
    """A JSON value of a dataclass, or of what its fields may be. Raises TypeError for anything else."""
    form = forms.get(type(value))
    return fields_of(value, forms) if form is None else form.write(value)


def fields_of(value: object, forms: Forms = _NONE) -> Any:
    """`encode`, of a value whose own type's form is passed over."""
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


def decode(kind: type[T], value: object, at: str = "", forms: Forms = _NONE) -> T:
    """The value of a type that a JSON value stands for.

    Args:
      kind: the type, as an annotation writes it.
      value: what `json.loads` gave.
      at: the place of the value in what it was read from, for the message.
      forms: of types that are not read field by field.

    Raises:
      FormError: it has another form.
    """
    return typing.cast("T", _decode(kind, value, at, forms))


def decode_fields(kind: type[T], value: object, at: str = "", forms: Forms = _NONE) -> T:
    """`decode` of a dataclass whose own form is passed over."""
    return typing.cast("T", _dataclass(kind, value, at, forms))


_Decode = Callable[[Any, str, Forms], Any]
"""Gives the value of some type that a JSON value at a place stands for."""


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
    if isinstance(kind, ForwardRef):  # what `get_type_hints` leaves of a type that contains itself
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
    """Scalars, and lists of such as tuples."""
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
    # Of an object, the choice that got furthest says most.
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
    given, (fields, needed) = _object(value, at), _fields(kind)
    if unknown := sorted(given.keys() - fields.keys()):
        raise FormError(f"{at}: a {kind.__name__} has no {unknown[0][:_SHOWN]!r}")
    if missing := [name for name in needed if name not in given]:
        raise FormError(f"{at}: a {kind.__name__} without {missing[0]!r}")
    decoded = {name: fields[name](each, f"{at}.{name}", forms) for name, each in given.items()}
    try:
        return kind(**decoded)
    except (InspectorError, ValueError, TypeError, OverflowError) as e:
        raise FormError(f"{at}: {e}") from e


@functools.cache
def _fields(kind: Any) -> tuple[Mapping[str, _Decode], tuple[str, ...]]:
    """What reads each field of a dataclass, and the fields that it must have."""
    fields, hints = _written(kind), typing.get_type_hints(kind)
    needed = (n for n, f in fields.items() if f.default is f.default_factory is dataclasses.MISSING)
    return {name: _decoder(hints[name]) for name in fields}, tuple(needed)


@functools.cache
def _written(kind: Any) -> dict[str, dataclasses.Field[Any]]:
    """The fields that are written, by name."""
    found = dataclasses.fields(kind)
    left_out = () if not issubclass(kind, Portable) else {f.name for f in found} - traveling(kind)
    return {field.name: field for field in found if field.name not in left_out}


def _object(value: Any, at: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _unlike("an object", value, at)
    for name in value:
        _scalar(str, name, at)
    return value


def _scalar(kind: Any, given: object, at: str, _: Forms = _NONE) -> Any:
    value: Any = given
    for partial, name in _PARTIAL.items() if kind is float and isinstance(value, dict) else ():
        if set(value) == {name, "missing"}:
            missing = decode(tuple[Missing, ...], value["missing"], f"{at}.missing")
            return partial(_scalar(float, value[name], at), missing)
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
