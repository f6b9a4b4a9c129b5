"""Which values of which flags are tried."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from inspector import platforms
from inspector.compilation import options_proto
from inspector.compilation.options import FlagValue, Options
from inspector.errors import OptionError
from inspector.toolchain import flags as flag_types

Trial = tuple[str, FlagValue]
"""A flag with one value."""


def boolean_flags(platform: str) -> tuple[str, ...]:
    """The boolean flags of XLA, and of libtpu for a TPU, that the compiler for a platform may read, by name.

    Those that dump are left out: they change no program, and some write into the folder one is in.

    Args:
      platform: such as "cpu", "gpu" or "tpu".
    """
    own = platforms.named(platform)
    others = tuple(p.flag_prefix for p in platforms.PLATFORMS if p.kind != own.kind)
    names = flag_types.flag_names() if own is platforms.TPU else flag_types.xla_flag_names()
    types = {name: flag_types.flag_type(name) for name in names if not name.startswith(others)}
    return tuple(
        name
        for name, type_ in types.items()
        if type_.kind == "bool"
        and not type_.repeated
        and "dump" not in name
        and type_.home in ("debug_options", "libtpu")
        and type_.is_per_compile
    )


def trials(flags: Iterable[str] | Mapping[str, Iterable[FlagValue]], options: Options) -> tuple[Trial, ...]:
    """Flags with each value to try, checked."""
    tried = [
        trial
        for name in flags
        for value in (_listed(name, flags[name]) if isinstance(flags, Mapping) else _values(name, options))
        for trial in Options(flags={name: value}).flags.items()
    ]
    for name, value in tried:
        flag_types.check_value(name, value)
    return tuple(tried)


def _listed(flag: str, values: Iterable[FlagValue]) -> list[FlagValue]:
    given: Any = values  # a user's, whatever the annotation says
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise OptionError(f"The values to try of {flag} must be a list, such as [{given!r}], got {given!r}.")
    return list(given)


def _values(flag: str, options: Options) -> list[FlagValue]:
    """The values of a bool or an enum beside the one that it has."""
    type_ = flag_types.flag_type(flag)
    name = flag.removeprefix("--")
    if type_.repeated or type_.kind not in ("bool", "enum"):
        raise OptionError(f"{name} takes values of the type {type_}: say which to try, such as {{{name!r}: [...]}}.")
    choices: list[FlagValue] = [False, True] if type_.kind == "bool" else [choice for choice, _ in type_.choices]
    present = options.flags[name] if name in options.flags else options_proto.unsaid_value(name)
    return [choice for choice in choices if choice != present]
