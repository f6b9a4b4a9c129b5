"""Reads and writes the text of an `XLA_FLAGS` variable, with XLA's own rules for quotes.

From XLA's `parse_flags_from_env.cc`: a flag begins with a dash and ends at white space. A value that
begins with a quote ends at the next such quote, with backslash escapes between double quotes only. A
text that begins without a dash is the name of a file with flags. This module also accepts flags without dashes,
and quotes around a whole flag, as in a shell.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from inspector.errors import FlagTypeError, OptionError
from inspector.support import files
from inspector.support.notebook import short
from inspector.toolchain import flags

MAX_FILE_BYTES = 16 << 20
"""Maximum size of a file of flags."""

_QUOTES = "'\""


def flags_text(text: str) -> str:
    """Returns the flags in a text, or in the file that it names.

    Raises:
      OptionError: not a text, or a file that cannot be read.
    """
    value: Any = text  # given by the user, so of any type
    if not isinstance(value, str):
        raise OptionError(
            f"Flags must be the text of an XLA_FLAGS variable, got {type(value).__name__}: {short(value)}."
        )
    if text.lstrip()[:1] in ("", "-", *_QUOTES) or "=" in text or not os.path.exists(text):  # noqa: PTH110 - False for a long text
        return text
    try:
        return files.read(text, MAX_FILE_BYTES).decode()
    except (OSError, UnicodeDecodeError) as e:
        raise OptionError(f"Cannot read the file of flags {short(text)}: {e}. Pass the flags themselves.") from e


def words(text: str) -> Iterator[tuple[str, str]]:
    """Yields (name, value) of each flag. The value of a flag without one is "true".

    Raises:
      OptionError: a word that is not a flag, or unclosed quotes.
    """
    position = 0
    while (position := _skip_space(text, position)) < len(text):
        word, quoted, position = _word(text, position)
        name, equals, value = word.partition("=")
        is_dashed = name.startswith("--")
        name = name.removeprefix("--")
        if not name or name.startswith("-") or not (equals or is_dashed):
            raise OptionError(
                f"Cannot read {short(word)} as a flag. Expected --name=value, such as"
                " --xla_cpu_enable_fast_math=true, with white space between flags, or the name of a file with flags."
            )
        yield name, quoted if quoted is not None else value if equals else "true"


def read_flag(name: str, text: str, before: flags.FlagValue | None = None) -> flags.FlagValue:
    """Reads a flag's value. Adds it to the value `before` for lists of texts, maps and `+NAME,-NAME`, as XLA does.

    Raises:
      UnknownFlagError, FlagTypeError: as in `flags.parse_value`.
    """
    value = flags.parse_value(name, text, before)
    type_ = flags.flag_type(name)
    if before and type_.repeated and type_.kind == "string":
        return f"{before},{value}"
    return f"{before},{value}" if before and value and type_.kind == "map" else value


def read_field(name: str, text: str) -> Any:
    """Reads a value of one of `flags.OPTION_FIELDS`, in the form that `write` writes.

    Raises:
      FlagTypeError: the text is not such a value.
    """
    if name == "device_assignment":
        return _read_rows(text)
    type_ = flags.flag_type(name)
    if not type_.repeated:
        return flags.read_plain(name, text)
    return tuple(flags.read_plain(name, part) for part in text.split(",") if part)


def write(values: Mapping[str, Any]) -> str:
    """Writes flags by name as a text that `words` reads."""
    return " ".join(f"--{name}={_quote(value_text(value))}" for name, value in values.items())


def _skip_space(text: str, position: int) -> int:
    while position < len(text) and text[position].isspace():
        position += 1
    return position


def _word(text: str, start: int) -> tuple[str, str | None, int]:
    """Returns the flag at `start`: its text, its value if that is in quotes, and its end."""
    if text[start] in _QUOTES:
        word, end = _quoted(text, start)
        return word, None, end
    end = start
    while end < len(text) and not text[end].isspace():
        if text[end] == "=" and text[end + 1 : end + 2] and text[end + 1] in _QUOTES:
            value, after = _quoted(text, end + 1)
            return text[start : end + 1], value, after
        if text[end] == "=":
            while end < len(text) and not text[end].isspace():
                end += 1
            break
        end += 1
    return text[start:end], None, end


def _quoted(text: str, start: int) -> tuple[str, int]:
    quote, chars, position = text[start], [], start + 1
    while position < len(text) and text[position] != quote:
        if text[position] == "\\" and quote == '"' and position + 1 < len(text):
            position += 1
        chars.append(text[position])
        position += 1
    if position == len(text):
        raise OptionError(f"Cannot read {short(text)} as flags: a quotation mark is not closed.")
    return "".join(chars), position + 1


def _read_rows(text: str) -> tuple[tuple[int, ...], ...]:
    try:
        return tuple(tuple(int(part) for part in row.split(",")) for row in text.split(";"))
    except ValueError:
        raise FlagTypeError(
            f"device_assignment: cannot read {short(text)}; expected device ids, with commas within a replica and"
            " semicolons between replicas, such as 0,1;2,3."
        ) from None


def value_text(value: object) -> str:
    """Writes a value as in `XLA_FLAGS`: booleans in lower case, lists with commas."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        separator = ";" if value and isinstance(value[0], tuple) else ","
        return separator.join(value_text(part) for part in value)
    return str(value)


def _quote(text: str) -> str:
    if text and text[0] not in _QUOTES and not any(c.isspace() for c in text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
