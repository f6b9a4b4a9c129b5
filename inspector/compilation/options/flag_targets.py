"""What is said of a flag whose compiler is another one than the target's.

libtpu's flags are refused by every other compiler, and a few of XLA's by a libtpu that is older. All
else is accepted everywhere, and a flag of another compiler ignored.
"""

from __future__ import annotations

from importlib import metadata

from inspector import platforms
from inspector.compilation.options import options_text
from inspector.compilation.options.options import Options
from inspector.errors import OptionError, Unavailable, UnknownFlagError
from inspector.platforms import TPU, Platform
from inspector.toolchain.flags.readers import READ_AT_START, flag_targets
from inspector.toolchain.flags.types import flag_type, is_flag_of_libtpu, libtpu_flags


def check_targets(options: Options, platform: str | None, *, is_attached: bool) -> None:
    """Refuses flags that the compiler for a platform does not take.

    Args:
      options: checked.
      platform: JAX's name of what is compiled for: "cpu", "gpu", "tpu"; None where that is not known.
      is_attached: whether this process's own client compiles, which has long read LIBTPU_INIT_ARGS.

    Raises:
      OptionError: a flag of libtpu for something else, or one that a running libtpu does not read.
      UnknownFlagError: a flag that is newer than libtpu.
    """
    target = None if platform is None else platforms.named(platform)
    for name in options.flags:
        if is_flag_of_libtpu(name):
            _check_libtpu_flag(name, target, is_attached)
        elif target is TPU:
            _check_xla_flag(name)


def target_warnings(options: Options, platform: str) -> tuple[str, ...]:
    """One warning for each flag that a platform's compiler accepts and ignores."""
    target = platforms.named(platform)
    others = {name: flag_targets(name) for name in options.flags}
    found = [
        f"{name} is for XLA's {targets[0].upper()} compiler; compiling for {target.words}, XLA accepts it"
        " and ignores it."
        for name, targets in others.items()
        if target.kind not in targets
    ]
    return (*found, *(_removed_warning(name) for name in options.flags if target is TPU and _is_removed(name)))


def start_flags(options: Options) -> tuple[str, ...]:
    """The words of XLA_FLAGS among options: what XLA reads when a process starts its CPU client.

    Args:
      options: checked.

    Returns:
      Such as ("--xla_cpu_max_isa=AVX2",), by name.
    """
    return tuple(options_text.write({n: v}) for n, v in sorted(options.flags.items()) if n in READ_AT_START)


def start_warnings(options: Options, platform: str) -> tuple[str, ...]:
    """One warning for each of those flags, where a process compiles for the CPU that has started its client."""
    return tuple(
        f"{word.partition('=')[0].removeprefix('--')} is read once, when a process starts its CPU client, and this one"
        f" has: XLA accepts it and ignores it. Leave out the engine, so that a worker starts with it, or set"
        f" XLA_FLAGS={word} before Python starts."
        for word in (start_flags(options) if platform == "cpu" else ())
    )


def _check_libtpu_flag(name: str, target: Platform | None, is_attached: bool) -> None:
    if target is not None and target is not TPU:
        raise OptionError(
            f"{name} is a flag of libtpu, which only TPU targets take; the program is compiled for"
            f" {target.words}. Leave it out, or lower the program for the TPU and compile it for a"
            " target such as 'tpu:v5e:2x2'."
        )
    if is_attached and not flag_type(name).is_per_compile:
        raise OptionError(
            f"{name} is read from LIBTPU_INIT_ARGS when libtpu starts, and here it has started. Set"
            f" LIBTPU_INIT_ARGS=--{name}=... before Python starts, or compile for a target with a process of its own,"
            " such as 'tpu:v5e:2x2'."
        )


def _check_xla_flag(name: str) -> None:
    from inspector.toolchain.libtpu import libtpu_options, libtpu_version

    options = libtpu_options()
    if isinstance(options, Unavailable) or flag_type(name).home != "debug_options" or name in options.xla_flags:
        return
    raise UnknownFlagError(
        f"libtpu {libtpu_version()} has no flag named {name!r}: jaxlib {metadata.version('jaxlib')}, which has it, is"
        " newer. Leave it out for a TPU."
    )


def _is_removed(name: str) -> bool:
    return is_flag_of_libtpu(name) and libtpu_flags()[name].is_removed


def _removed_warning(name: str) -> str:
    return (
        f"{name} was removed from libtpu's compile options; it is still read from LIBTPU_INIT_ARGS and may do nothing."
    )
