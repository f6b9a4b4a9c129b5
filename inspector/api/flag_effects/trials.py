"""The flags and values that a scan tries."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping
from typing import Any

from inspector import platforms
from inspector.compilation.options import options_proto
from inspector.compilation.options.options import FlagValue, Options
from inspector.errors import OptionError
from inspector.support.notebook import short
from inspector.toolchain import flags as flag_types

Trial = tuple[str, FlagValue]
"""A flag with one value."""


def boolean_flags(platform: str) -> tuple[str, ...]:
    """Returns the boolean flags of XLA, and of libtpu for a TPU, that a platform's compiler may read, by name.

    Dump flags are excluded: they change no program, and some write into the current folder.

    Args:
      platform: e.g. "cpu", "gpu" or "tpu".
    """
    return tuple(name for name, reason in _reasons(platform).items() if not reason)


def left_out(platform: str) -> dict[str, int]:
    """Returns the number of other flags by the reason for excluding them."""
    counts = collections.Counter(reason for reason in _reasons(platform).values() if reason)
    return dict(counts.most_common())


def _reasons(platform: str) -> dict[str, str]:
    """Returns the reason why each flag of the installed compilers is not tried by default; "" if it is."""
    own = platforms.named(platform)
    others = tuple(p.flag_prefix for p in platforms.PLATFORMS if p.kind != own.kind)
    names = flag_types.flag_names() if own is platforms.TPU else flag_types.xla_flag_names()
    return {name: _reason(name, others) for name in names}


def _reason(name: str, others: tuple[str, ...]) -> str:
    if name.startswith(others):
        return "for other compilers"
    type_ = flag_types.flag_type(name)
    if type_.home not in ("debug_options", "libtpu"):
        return "fields of the build options"
    if "dump" in name:
        return "that dump"
    if type_.kind != "bool" or type_.repeated:
        return "with values other than true and false"
    return "" if type_.is_per_compile else "read when libtpu starts"


def trials(flags: Iterable[str] | Mapping[str, Iterable[FlagValue]], options: Options) -> tuple[Trial, ...]:
    """Returns flags with each value to try, checked."""
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
    items: Any = values  # a user's, whatever the annotation says
    if isinstance(items, (str, bytes)) or not isinstance(items, Iterable):
        raise OptionError(f"The values to try of {flag} must be a list, such as [{short(items)}], got {short(items)}.")
    return list(items)


def _values(flag: str, options: Options) -> list[FlagValue]:
    """Returns the other values of a bool or an enum."""
    type_ = flag_types.flag_type(flag)
    name = flag.removeprefix("--")
    if type_.repeated or type_.kind not in ("bool", "enum"):
        raise OptionError(f"{name} has type {type_}. Pass the values to try, such as {{{short(name)}: [...]}}.")
    choices: list[FlagValue] = [False, True] if type_.kind == "bool" else [choice for choice, _ in type_.choices]
    present = options.flags[name] if name in options.flags else options_proto.unsaid_value(name)
    return [choice for choice in choices if choice != present]
