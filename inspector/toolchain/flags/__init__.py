"""The compiler's options by name: their types, and their values in Python and as text.

Combines `types.py` (names and types), `values.py` (values of XLA's flags), `libtpu.py` (values of libtpu's flags) and
`messages.py` (error messages).
"""

from __future__ import annotations

import dataclasses
from typing import Any

from inspector.errors import FlagTypeError, OptionError
from inspector.support.notebook import short
from inspector.toolchain.flags import libtpu
from inspector.toolchain.flags import values as flag_values
from inspector.toolchain.flags.flag_type import OPTION_FIELDS as OPTION_FIELDS
from inspector.toolchain.flags.flag_type import FlagType as FlagType
from inspector.toolchain.flags.flag_type import FlagValue as FlagValue
from inspector.toolchain.flags.flag_type import Home as Home
from inspector.toolchain.flags.messages import expected, expected_text, hint
from inspector.toolchain.flags.types import flag_field as flag_field
from inspector.toolchain.flags.types import flag_names as flag_names
from inspector.toolchain.flags.types import flag_number as flag_number
from inspector.toolchain.flags.types import flag_type as flag_type
from inspector.toolchain.flags.types import xla_flag_names as xla_flag_names
from inspector.toolchain.flags.values import get_field as get_field
from inspector.toolchain.flags.values import holder as holder
from inspector.toolchain.flags.values import set_field as set_field


def parse_value(name: str, text: str, before: FlagValue | None = None) -> FlagValue:
    """Parses a flag's value from the text of an `XLA_FLAGS` variable.

    Names of enum values are accepted in any case, and with or without the prefix that all names share. For a list of enum
    values, `+NAME` and `-NAME` change the value `before`, or XLA's default.

    Raises:
      UnknownFlagError: an unknown flag. The message suggests the nearest names.
      FlagTypeError: the text is not a value of the flag's type.
    """
    type_, name = flag_type(name), name.removeprefix("--")
    value = libtpu.read(name, type_, text) if type_.home == "libtpu" else flag_values.read(name, type_, text, before)
    if value is None:
        raise _unreadable(name, type_, text)
    check_value(name, value)
    return value


def read_plain(name: str, text: str) -> FlagValue:
    """Parses a single bool or number of an option, or of an element of its list.

    Raises:
      FlagTypeError: the text is not such a value.
    """
    type_ = dataclasses.replace(flag_type(name), repeated=False)
    value = flag_values.read_one(type_, text)
    if value is None:
        raise _unreadable(name, type_, text)
    return value


def check_value(name: str, value: object) -> None:
    """Checks that the compiler accepts a value.

    Raises:
      UnknownFlagError: an unknown flag. The message suggests the nearest names.
      FlagTypeError: a value of the wrong type. The message states the value, the expected type and an enum's names.
      OptionError: an option that is not a flag but a field of `Options`.
    """
    type_, name = flag_type(name), name.removeprefix("--")
    if name in OPTION_FIELDS:
        raise OptionError(f"{name} is not a flag but a field of Options: write Options({name}={short(value)}).")
    is_libtpu = type_.home == "libtpu"
    if not (libtpu.read(name, type_, value) is not None if is_libtpu else flag_values.is_value(type_, value)):
        raise FlagTypeError(
            f"Flag {name}: got {short(value)} ({type(value).__name__}), expected {expected(type_)}.{hint(type_, value)}"
        )
    if type_.kind in ("map", "message") and not is_libtpu:
        set_field(flag_values.new_message(flag_field(name).containing_type), name, value)


def sent_value(name: str, value: FlagValue) -> FlagValue:
    """Returns a checked value in the form that the compiler accepts. libtpu's enum words are case-sensitive."""
    type_ = flag_type(name)
    if type_.home != "libtpu":
        return value
    read: Any = libtpu.read(name, type_, value)
    return value if read is None else read


def _unreadable(name: str, type_: FlagType, text: str) -> FlagTypeError:
    if not text:
        return FlagTypeError(
            f"Flag {name}: no value after '='. Expected {expected_text(type_)}, without spaces before it."
        )
    return FlagTypeError(f"Flag {name}: cannot read {text!r} as {expected_text(type_)}.{hint(type_, text)}")
