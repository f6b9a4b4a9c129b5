"""Reads and checks options that are typed or pasted into the Explorer."""

from __future__ import annotations

from collections.abc import Mapping

from inspector import settings
from inspector.compilation.options import options_text
from inspector.compilation.options.options import Options
from inspector.errors import OptionError
from inspector.support.notebook import short
from inspector.toolchain import flags
from inspector.toolchain.untrusted import check_untrusted

_VARIABLES = ("XLA_FLAGS", "LIBTPU_INIT_ARGS")
_QUOTES = "'\""


def read_options(flag: str, value: str) -> Options:
    """Parses typed options: the name and value of one flag, or several flags as in XLA_FLAGS.

    Raises:
      OptionError: a value without a flag, a flag without its value, a file outside the user's `dump_directory`,
        or text that `Options.parse` rejects.
    """
    text, value = unwrapped(flag), value.strip()
    if not text and value:
        raise OptionError(f"The value {short(value)} has no flag. Enter a flag next to it.")
    if not text:
        return Options()
    if "=" in text or len(text.split()) > 1:
        if value:
            raise OptionError(
                f"{short(text)} already contains values. Clear {short(value)}, or enter the name of a single flag."
            )
        return _checked(Options.parse(text, read_file=False))
    if not value and flags.flag_type(text).kind != "bool":
        raise OptionError(
            f"{text} needs a value of type {flags.flag_type(text)}. Enter it in the field next to the flag."
        )
    return _checked(Options.parse(options_text.write({text.removeprefix("--"): value or "true"}), read_file=False))


def read_fields(values: Mapping[str, str], text: str) -> Options:
    """Parses options that are typed into named fields, where empty fields are not set, and flags as in XLA_FLAGS.

    Raises:
      OptionError: see `read_options`; or an option is both in a field and among the flags.
    """
    fields = {name: value.strip() for name, value in values.items() if value.strip()}
    options = _checked(Options.parse(unwrapped(text), read_file=False))
    if twice := sorted(fields.keys() & options.as_dict().keys()):
        raise OptionError(f"{', '.join(twice)} is set both in a field and among the flags. Clear one of them.")
    return options.merge(_checked(Options.parse(options_text.write(fields), read_file=False)))


def unwrapped(text: str) -> str:
    """Returns the flags of a text, also of a line that sets XLA_FLAGS in a shell, a notebook or Python.

    Examples: `export XLA_FLAGS="--xla_a=1 --xla_b" python train.py` and `os.environ["XLA_FLAGS"] = "--xla_a=1"`. A line that
    ends in a backslash continues on the next line.
    """
    text = " ".join(text.replace("\\\n", " ").replace("\\\r\n", " ").split("\r")).strip()
    for variable in _VARIABLES:
        before, match, after = text.partition(variable)
        if match and "--" not in before and "=" not in before:
            return _value(after)
    return text


def _value(text: str) -> str:
    """Returns the assigned value of a text such as `"] = "--xla_a=1" # why`."""
    text = text.lstrip("'\"] ").removeprefix("=").strip()
    quote = text[:1]
    if quote and quote in _QUOTES and quote in text[1:]:
        return text[1 : text.index(quote, 1)].strip()
    return text


def _checked(options: Options) -> Options:
    """Rejects options that an untrusted page may not request."""
    try:
        check_untrusted(options.as_dict(), settings.current().dump_directory)
    except OptionError as e:
        if type(e) is not OptionError:
            raise
        raise OptionError(f"{e} To use any option, call explorer.add({{...}}) from Python.") from None
    return options
