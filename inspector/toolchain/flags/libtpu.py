"""Values of libtpu's own flags, and the words of LIBTPU_INIT_ARGS among them.

libtpu turns every value into text and reads that as on a command line (measured on libtpu 0.0.42.1
and 0.0.50.1, by the environment that it dumps). So a value's text is as good as the value, an int is
a float, and True and False are "true" and "false", also of an enum with these words. We hold it to
the flag's type and range, which libtpu only partly does: it ignores a message that it cannot read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from inspector.errors import OptionError, Unavailable
from inspector.toolchain.flags import types as flag_types
from inspector.toolchain.flags.flag_type import FlagType, FlagValue
from inspector.toolchain.flags.messages import FLOATS, RANGES
from inspector.toolchain.flags.values import is_number, is_text, read_message, read_one

AUTO = "auto"
"""What libtpu decides itself."""


def read(name: str, type_: FlagType, value: object) -> FlagValue | None:
    """A value as libtpu takes it, from what users write; None when it is none of the flag.

    Raises:
      FlagTypeError: the text of a message cannot be read.
    """
    if type_.is_auto and value == AUTO:
        return AUTO
    if type_.repeated:
        return _read_list(type_, value)
    if type_.kind == "string":
        return value if isinstance(value, str) and is_text(value) else None
    if type_.kind == "message":
        return _read_message(name, type_, value) if isinstance(value, str) and is_text(value) else None
    if type_.kind == "enum":
        return _read_word(type_, value)
    if type_.kind == "bool":
        return read_one(type_, value) if isinstance(value, str) else value if isinstance(value, bool) else None
    return _read_number(type_, value)


def default(name: str, type_: FlagType) -> FlagValue | Unavailable:
    """A flag's default, as it would be given."""
    from inspector.toolchain.libtpu import default_texts

    texts = default_texts()
    if isinstance(texts, Unavailable):
        return texts
    if name not in texts:
        return Unavailable("libtpu tells no plain value of it")
    found = read(name, type_, texts[name])
    return Unavailable(f"libtpu says {texts[name]!r}, which is no {type_}") if found is None else found


def init_args(flags: Mapping[str, FlagValue]) -> tuple[str, ...]:
    """The words of LIBTPU_INIT_ARGS among flags: those that libtpu reads once, when it starts.

    Args:
      flags: checked, by name.

    Returns:
      Such as ("--xla_mosaic_dump_to=/tmp/dump",), by name.

    Raises:
      OptionError: a value with white space, where libtpu ends a word; it knows no quotes.
    """
    words = []
    for name, value in flags.items():
        if not flag_types.is_flag_of_libtpu(name) or (type_ := flag_types.flag_type(name)).is_per_compile:
            continue
        text = _text(read(name, type_, value))
        if any(character.isspace() or character == "\0" for character in text):
            raise OptionError(
                f"{name}={value!r} has white space or a null character, where a word of LIBTPU_INIT_ARGS ends; libtpu"
                " knows no quotes. Give a value without."
            )
        words.append(f"--{name}={text}")
    return tuple(words)


def _read_list(type_: FlagType, value: object) -> FlagValue | None:
    if type(value) is int and type_.kind != "string":
        value = str(value)
    if not isinstance(value, str) or not is_text(value):
        return None
    element = dataclasses.replace(type_, repeated=False)
    is_list = type_.kind == "string" or all(_read_number(element, part) is not None for part in value.split(","))
    return value if is_list else None


def _read_message(name: str, type_: FlagType, text: str) -> FlagValue:
    from inspector.toolchain.libtpu import libtpu_message

    message: Any = libtpu_message(type_.message)
    read_message(name, message(), text)
    return text


def _read_word(type_: FlagType, value: object) -> FlagValue | None:
    text = _text(value) if isinstance(value, bool) else value
    if not isinstance(text, str):
        return None
    return next((word for word, _ in type_.choices if word.lower() == text.lower()), None)


def _read_number(type_: FlagType, value: object) -> FlagValue | None:
    found = read_one(type_, value.strip()) if isinstance(value, str) else value
    if type_.kind in FLOATS and type(found) is int:
        found = float(found)
    assert type_.kind in FLOATS or type_.kind in RANGES
    return found if isinstance(found, (int, float)) and is_number(type_, found) else None


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
