"""Values of libtpu's own flags, and the flags that belong in LIBTPU_INIT_ARGS.

libtpu converts every value to text and parses it as on a command line (observed with libtpu 0.0.42.1 and 0.0.50.1, in the
environment that it dumps). So a value's text is equivalent to the value, an int is a valid float, and True and False
mean "true" and "false", also for an enum with these words. inspector checks the flag's type and range, which libtpu
does only in part: it ignores a message that it cannot parse.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from inspector.errors import OptionError, Unavailable
from inspector.support.notebook import short
from inspector.toolchain.flags import types as flag_types
from inspector.toolchain.flags.flag_type import FlagType, FlagValue
from inspector.toolchain.flags.messages import FLOATS, RANGES
from inspector.toolchain.flags.values import is_number, is_text, read_message, read_one

AUTO = "auto"
"""The value with which libtpu decides itself."""


def read(name: str, type_: FlagType, value: object) -> FlagValue | None:
    """Converts a user's value to the form that libtpu accepts; None if the flag does not accept it.

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
    """Returns a flag's default, as it would be set."""
    from inspector.toolchain.libtpu import default_texts

    texts = default_texts()
    if isinstance(texts, Unavailable):
        return texts
    if name not in texts:
        return Unavailable("libtpu reports no plain value of this flag")
    value = read(name, type_, texts[name])
    return Unavailable(f"libtpu reports {texts[name]!r}, which is not of type {type_}") if value is None else value


def init_args(flags: Mapping[str, FlagValue]) -> tuple[str, ...]:
    """Returns the arguments in LIBTPU_INIT_ARGS for the flags that libtpu reads once, when it starts.

    Args:
      flags: checked values, by name.

    Returns:
      The arguments, such as ("--xla_mosaic_dump_to=/tmp/dump",).

    Raises:
      OptionError: a value contains white space, which separates arguments. libtpu does not support quotes.
    """
    words = []
    for name, value in flags.items():
        if not flag_types.is_flag_of_libtpu(name) or (type_ := flag_types.flag_type(name)).is_per_compile:
            continue
        text = _text(read(name, type_, value))
        if any(character.isspace() or character == "\0" for character in text):
            raise OptionError(
                f"{name}={short(value)} has white space or a null character, which ends an argument in"
                " LIBTPU_INIT_ARGS. libtpu does not support quotes. Use a value without white space."
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
    number = read_one(type_, value.strip()) if isinstance(value, str) else value
    if type_.kind in FLOATS and type(number) is int:
        number = float(number)
    assert type_.kind in FLOATS or type_.kind in RANGES
    return number if isinstance(number, (int, float)) and is_number(type_, number) else None


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
