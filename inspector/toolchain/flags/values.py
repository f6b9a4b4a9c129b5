"""Parses and checks values of XLA's flags, and sets them in XLA's messages.

Values that jaxlib accepts for flags per compile (observed with jaxlib 0.10.2 and 0.12.0):

    bool                a Python bool; 1 and 'true' are rejected
    int32, int64, ...   an int within the type's range; True is rejected
    float, double       a float; an int is rejected, and so are nan and infinity
    string              a str
    enum                the value's full name, or its number; jaxlib accepts any number, inspector only valid ones
    repeated enum       such names or numbers separated by commas without spaces, or one number; '+NAME', which
                        XLA_FLAGS allows, is rejected
    repeated string     strings separated by commas
    map                 serialized bytes only; inspector accepts 'key=value,key=value' as XLA_FLAGS does
    message             serialized bytes only; inspector accepts protobuf's text format

The last two, and the fields outside `DebugOptions`, reach the compiler through `options_proto.py`.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from inspector.errors import FlagTypeError, Unavailable
from inspector.support.notebook import short
from inspector.toolchain.flags.flag_type import FlagType, FlagValue, Home
from inspector.toolchain.flags.messages import FLOATS, RANGES, changes_of, hint
from inspector.toolchain.flags.types import flag_field, flag_type


def read(name: str, type_: FlagType, text: str, before: FlagValue | None = None) -> FlagValue | None:
    """Parses a value from the text of an `XLA_FLAGS` variable; None if it cannot be parsed.

    Args:
      name: the flag's name.
      type_: the flag's type.
      text: the text after the equals sign.
      before: the flag's earlier value in the same variable.

    Raises:
      FlagTypeError: a list of enum values that mixes names and changes, or has an unknown name.
    """
    if type_.kind == "enum" and type_.repeated:
        return _read_enums(name, type_, text, before)
    if type_.repeated or type_.kind in ("string", "map", "message", "bytes"):
        return text
    return read_one(type_, text)


def read_one(type_: FlagType, text: str) -> FlagValue | None:
    """Parses a single value or one element of a list; None if it cannot be parsed."""
    if type_.kind == "enum":
        return _read_enum(type_, text)
    if type_.kind == "string":
        return text
    try:
        if type_.kind == "bool":
            return {"true": True, "1": True, "false": False, "0": False}.get(text.lower())
        return float(text) if type_.kind in FLOATS else _integer(text)
    except ValueError:
        return None


def _integer(text: str) -> int:
    """Parses integers of XLA, which may begin with zeros, and Python integers with a prefix, such as 0x10."""
    if "_" in text:
        raise ValueError(text)
    try:
        return int(text)
    except ValueError:
        return int(text, 0)


def is_value(type_: FlagType, value: object) -> bool:
    """Reports whether jaxlib accepts a value."""
    if type_.is_opaque:
        return False
    if type_.kind in ("map", "message"):
        return is_text(value)
    if type_.repeated and isinstance(value, str):
        return is_text(value) if type_.kind == "string" else _are_elements(type_, value)
    if type_.repeated:
        return type_.kind == "enum" and _is_choice(type_, value)
    if type_.kind == "bool":
        return type(value) is bool
    if type_.kind == "string":
        return is_text(value)
    if type_.kind == "enum":
        return _is_choice(type_, value)
    return is_number(type_, value)


def is_text(value: object) -> bool:
    """Reports whether a value is text that UTF-8 can encode, which excludes lone surrogates."""
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:
        return False


def is_number(type_: FlagType, value: object) -> bool:
    """Reports whether a value is a number of the flag's kind and within its range."""
    if type_.kind in FLOATS:
        return type(value) is float and math.isfinite(value) and abs(value) <= FLOATS[type_.kind]
    low, high = RANGES[type_.kind]
    return type(value) is int and low <= value <= high


def set_field(message: Any, name: str, value: Any) -> None:
    """Sets a flag's field in the message that contains it.

    Raises:
      FlagTypeError: the text of a map or message cannot be parsed.
    """
    type_ = flag_type(name)
    if type_.kind == "map":
        getattr(message, name).clear()
        getattr(message, name).update(_map(value))
    elif type_.kind == "message":
        message.ClearField(name)
        getattr(message, name).MergeFrom(read_message(name, new_message(flag_field(name).message_type), value))
    elif type_.repeated:
        message.ClearField(name)
        getattr(message, name).extend(_elements(type_, value))
    else:
        setattr(message, name, _number(type_, value) if type_.kind == "enum" else value)


def holder(message: Any, home: Home) -> Any:
    """Returns the message within an `xla.CompileOptionsProto` that contains the options of a home."""
    if home == "compile_options":
        return message
    build = message.executable_build_options
    return build if home == "executable_build_options" else build.debug_options


def get_field(message: Any, name: str) -> FlagValue:
    """Returns a flag's value as it would be set. The inverse of `set_field`."""
    type_, value = flag_type(name), getattr(message, name)
    if type_.kind == "map":
        return ",".join(f"{key}={text}" if text else key for key, text in sorted(value.items()))
    if type_.kind == "message":
        from google.protobuf import text_format

        return str(text_format.MessageToString(value, as_one_line=True))
    names = {number: choice for choice, number in type_.choices}
    if type_.repeated:
        return ",".join(_element_text(names.get(v, v)) for v in value)
    plain: FlagValue = names.get(value, value) if type_.kind == "enum" else value
    return plain


def new_message(descriptor: Any) -> Any:
    """Returns an empty message."""
    from google.protobuf import message_factory

    return message_factory.GetMessageClass(descriptor)()


def read_message(name: str, message: Any, text: str) -> Any:
    """Fills a message from protobuf's text format.

    Raises:
      FlagTypeError: the text cannot be parsed. The error lists the message's fields.
    """
    from google.protobuf import text_format

    try:
        return text_format.Parse(text, message)
    except text_format.ParseError as e:
        fields = ", ".join(field.name for field in message.DESCRIPTOR.fields)
        raise FlagTypeError(
            f"Flag {name}: cannot read {short(text)} as a {message.DESCRIPTOR.full_name} in protobuf's text format: {e}."
            f" Its fields: {fields}."
        ) from e


def _read_enum(type_: FlagType, text: str) -> FlagValue:
    if text.removeprefix("-").isdigit():
        return int(text)
    names = [choice for choice, _ in type_.choices]
    shared = _shared_prefix(names)
    for candidate in (text.upper(), shared + text.upper()):
        if candidate in names:
            return candidate
    return text


def _read_enums(name: str, type_: FlagType, text: str, before: FlagValue | None) -> FlagValue:
    words = text.split(",") if text else []
    changes = [word[:1] in ("+", "-") and not word[1:].isdigit() for word in words]
    values = [str(_read_enum(type_, word[1:] if change else word)) for word, change in zip(words, changes, strict=True)]
    if not any(changes):
        return ",".join(values)
    if not all(changes):
        raise FlagTypeError(
            f"Flag {name}: {short(text)} mixes names with '+NAME' and '-NAME'. Use either names or changes."
        )
    elements = _default_elements(name, text) if before is None else [part for part in str(before).split(",") if part]
    for word, value in zip(words, values, strict=True):
        if not _is_choice(type_, value):
            raise FlagTypeError(
                f"Flag {name}: cannot read {short(word)}, expected {changes_of(type_)}.{hint(type_, value)}"
            )
        elements = [*elements, value] if word[0] == "+" else [k for k in elements if k != value]
    return ",".join(dict.fromkeys(elements))


def _default_elements(name: str, text: str) -> list[str]:
    from inspector.toolchain.xla import default_options

    defaults = default_options()
    if isinstance(defaults, Unavailable):
        raise FlagTypeError(
            f"Flag {name}: {short(text)} changes XLA's default, which is {defaults}. Write the whole list."
        )
    listed = str(get_field(defaults.executable_build_options.debug_options, name))
    return listed.split(",") if listed else []


def _shared_prefix(names: list[str]) -> str:
    """Returns the common prefix of an enum's names, up to an underscore."""
    first, last = min(names), max(names)
    length = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    return first[: first.rfind("_", 0, length) + 1]


def _map(text: str) -> dict[str, str]:
    return {key: value for key, _, value in (part.partition("=") for part in text.split(",") if part)}


def _elements(type_: FlagType, value: FlagValue) -> list[Any]:
    element, numbers = dataclasses.replace(type_, repeated=False), dict(type_.choices)
    if not isinstance(value, str):
        return [value]
    values = [read_one(element, part) for part in value.split(",")] if value else []
    return [numbers.get(v, v) if isinstance(v, str) else v for v in values]


def _element_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _number(type_: FlagType, value: Any) -> Any:
    """Returns the number of an enum value that is given by name, number or number as text."""
    numbers = {spelling: number for name, number in type_.choices for spelling in (name, str(number))}
    return numbers.get(value, value)


def _is_choice(type_: FlagType, value: object) -> bool:
    if type(value) is int:
        return any(value == number for _, number in type_.choices)
    return isinstance(value, str) and any(value in (name, str(number)) for name, number in type_.choices)


def _are_elements(type_: FlagType, text: str) -> bool:
    element = dataclasses.replace(type_, repeated=False)
    if type_.kind == "enum":
        return all(_is_choice(element, part) for part in text.split(",") if text)
    return all(is_value(element, read_one(element, part)) for part in text.split(",") if text)
