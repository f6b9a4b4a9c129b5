"""Options as they are typed or pasted into the Explorer: read, checked, and refused with what is wrong."""

from __future__ import annotations

from collections.abc import Mapping

from inspector import settings
from inspector.compilation.options import options_text
from inspector.compilation.options.options import Options
from inspector.errors import OptionError
from inspector.toolchain import flags
from inspector.toolchain.untrusted import check_untrusted

_VARIABLES = ("XLA_FLAGS", "LIBTPU_INIT_ARGS")
_QUOTES = "'\""


def read_options(flag: str, value: str) -> Options:
    """Options as they are typed: one flag's name and value, or several flags as in XLA_FLAGS.

    Raises:
      OptionError: a value without a flag, a flag without its value, a file outside of the user's `dump_directory`,
        or what `Options.parse` refuses.
    """
    text, value = unwrapped(flag), value.strip()
    if not text and value:
        raise OptionError(f"The value {value!r} has no flag. Choose a flag beside it.")
    if not text:
        return Options()
    if "=" in text or len(text.split()) > 1:
        if value:
            raise OptionError(f"{text!r} holds its own values; clear {value!r} beside it, or name one flag only.")
        return _checked(Options.parse(text, read_file=False))
    if not value and flags.flag_type(text).kind != "bool":
        raise OptionError(
            f"{text} needs a value of type {flags.flag_type(text)}. Type it in the field beside the flag."
        )
    return _checked(Options.parse(options_text.write({text.removeprefix("--"): value or "true"}), read_file=False))


def read_fields(values: Mapping[str, str], text: str) -> Options:
    """Options as they are typed into fields with their names, an empty one left unsaid, and flags as in XLA_FLAGS.

    Raises:
      OptionError: as `read_options`; or an option that is in a field and in the text.
    """
    said = {name: value.strip() for name, value in values.items() if value.strip()}
    given = _checked(Options.parse(unwrapped(text), read_file=False))
    if twice := sorted(said.keys() & given.as_dict().keys()):
        raise OptionError(f"{', '.join(twice)} stands in a field and among the flags. Clear one of them.")
    return given.merge(_checked(Options.parse(options_text.write(said), read_file=False)))


def unwrapped(text: str) -> str:
    """The flags of a text, also of a line that sets XLA_FLAGS in a shell, a notebook or Python.

    Such as `export XLA_FLAGS="--xla_a=1 --xla_b" python train.py` or `os.environ["XLA_FLAGS"] = "--xla_a=1"`. A line that
    ends in a backslash goes on in the next.
    """
    text = " ".join(text.replace("\\\n", " ").replace("\\\r\n", " ").split("\r")).strip()
    for variable in _VARIABLES:
        before, found, after = text.partition(variable)
        if found and "--" not in before and "=" not in before:
            return _value(after)
    return text


def _value(text: str) -> str:
    """What is assigned in `"] = "--xla_a=1" # why`."""
    text = text.lstrip("'\"] ").removeprefix("=").strip()
    quote = text[:1]
    if quote and quote in _QUOTES and quote in text[1:]:
        return text[1 : text.index(quote, 1)].strip()
    return text


def _checked(options: Options) -> Options:
    """Refuses what a page may not ask for: anybody may have made it."""
    try:
        check_untrusted(options.as_dict(), settings.current().dump_directory)
    except OptionError as e:
        if type(e) is not OptionError:
            raise
        raise OptionError(f"{e} From Python, explorer.add({{...}}) takes every option.") from None
    return options
