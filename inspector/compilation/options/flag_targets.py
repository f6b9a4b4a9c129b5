"""Errors and warnings for flags of another compiler than the target's.

Only libtpu accepts its own flags, and an older libtpu rejects a few of XLA's flags. All other flags are
accepted by every compiler, and ignored by those that do not use them.
"""

from __future__ import annotations

from importlib import metadata

from inspector import platforms
from inspector.compilation.options import options_text
from inspector.compilation.options.options import Options
from inspector.errors import OptionError, Unavailable, UnknownFlagError
from inspector.platforms import TPU, Platform
from inspector.support.notebook import short
from inspector.toolchain.flags.readers import READ_AT_START, flag_targets
from inspector.toolchain.flags.types import flag_type, is_flag_of_libtpu, libtpu_flags


def check_targets(options: Options, platform: str | None, *, is_attached: bool) -> None:
    """Rejects flags that the compiler for a platform does not accept.

    Args:
        options: the options to check.
        platform: JAX's name of the target's platform: "cpu", "gpu", "tpu"; None if it is unknown.
        is_attached: True if this process's own client compiles, which has already read LIBTPU_INIT_ARGS.

    Raises:
        OptionError: a libtpu flag for another platform, or one that a running libtpu does not read.
        UnknownFlagError: a flag that is newer than libtpu.
    """
    target = None if platform is None else platforms.named(platform)
    for name in options.flags:
        if is_flag_of_libtpu(name):
            _check_libtpu_flag(name, target, is_attached)
        elif target is TPU:
            _check_xla_flag(name)


def target_warnings(options: Options, platform: str) -> tuple[str, ...]:
    """Returns a warning for each flag that a platform's compiler accepts and ignores."""
    target = platforms.named(platform)
    others = {name: flag_targets(name) for name in options.flags}
    warnings = [
        f"{name} is for XLA's {targets[0].upper()} compiler; XLA accepts it for {target.words} but ignores it."
        for name, targets in others.items()
        if target.kind not in targets
    ]
    return (*warnings, *(_removed_warning(name) for name in options.flags if target is TPU and _is_removed(name)))


def start_flags(options: Options) -> tuple[str, ...]:
    """Returns the options, in the form of XLA_FLAGS, that XLA reads when a process starts its CPU client.

    Args:
        options: checked options.

    Returns:
        Flags sorted by name, such as ("--xla_cpu_max_isa=AVX2",).
    """
    return tuple(options_text.write({n: v}) for n, v in sorted(options.flags.items()) if n in READ_AT_START)


def start_warnings(options: Options, platform: str) -> tuple[str, ...]:
    """Returns a warning for each of these flags, for a process that has started its CPU client."""
    return tuple(
        f"{word.partition('=')[0].removeprefix('--')} is read once, when a process starts its CPU client, and this process"
        " has started it, so XLA ignores the flag. Remove the engine argument, so that a worker starts with the flag, or"
        f" set XLA_FLAGS={word} before Python starts."
        for word in (start_flags(options) if platform == "cpu" else ())
    )


def _check_libtpu_flag(name: str, target: Platform | None, is_attached: bool) -> None:
    if target is not None and target is not TPU:
        raise OptionError(
            f"{name} is a flag of libtpu, for TPU targets only, but the program is compiled for"
            f" {target.words}. Remove it, or lower the program for the TPU and compile it for a"
            " target such as 'tpu:v5e:2x2'."
        )
    if is_attached and not flag_type(name).is_per_compile:
        raise OptionError(
            f"{name} is read from LIBTPU_INIT_ARGS when libtpu starts, and libtpu has started in this process. Set"
            f" LIBTPU_INIT_ARGS=--{name}=... before Python starts, or compile for a target that uses a separate process,"
            " such as 'tpu:v5e:2x2'."
        )


def _check_xla_flag(name: str) -> None:
    from inspector.toolchain.libtpu import libtpu_options, libtpu_version

    options = libtpu_options()
    if isinstance(options, Unavailable) or flag_type(name).home != "debug_options" or name in options.xla_flags:
        return
    raise UnknownFlagError(
        f"libtpu {libtpu_version()} has no flag named {short(name)}: it is older than jaxlib {metadata.version('jaxlib')}, which"
        " has this flag. Remove it for a TPU."
    )


def _is_removed(name: str) -> bool:
    return is_flag_of_libtpu(name) and libtpu_flags()[name].is_removed


def _removed_warning(name: str) -> str:
    return f"{name} was removed from libtpu's compile options; it is still read from LIBTPU_INIT_ARGS and may have no effect."
