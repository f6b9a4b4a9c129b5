"""Error messages for unknown flags and invalid values."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection
from importlib import metadata
from typing import TYPE_CHECKING

from inspector.errors import Unavailable
from inspector.support.install_commands import install_command, sentence

if TYPE_CHECKING:
    from inspector.toolchain.flags.flag_type import FlagType
    from inspector.toolchain.libtpu import LibtpuOptions

RANGES = {
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint32": (0, 2**32 - 1),
    "uint64": (0, 2**64 - 1),
}
"""The smallest and largest integer of each kind."""

FLOATS = {"float": 3.4028234663852886e38, "double": 1.7976931348623157e308}
"""The largest number of each kind."""

# Prefixes that only libtpu's flags have, most frequent first.
_LIBTPU = ("xla_tpu_", "xla_jf_", "xla_sc_", "xla_msa_", "xla_vf_", "xla_gf_", "xla_sparse_core_", "xla_mosaic_")


def unknown_flag(
    name: str,
    names: Collection[str],
    libtpu: LibtpuOptions | Unavailable,
    removed: Collection[str],
    is_boolean: Callable[[str], bool],
) -> str:
    """Returns the message for an unknown flag.

    Args:
      name: the name, without dashes.
      names: the names of all flags.
      libtpu: libtpu's options, or why they are unknown.
      removed: names of flags that XLA has removed.
      is_boolean: reports whether a known flag is boolean.
    """
    jaxlib = f"jaxlib {metadata.version('jaxlib')}"
    positive = name.removeprefix("no").removeprefix("_").removeprefix("-")
    if name.startswith("no") and positive in names and is_boolean(positive):
        return f"XLA does not support the --no form of flags, got {name!r}. Write --{positive}=false."
    near = _nearest(name, names)
    hint = f" Did you mean {', '.join(near)}?" if near else " inspector.option_catalog() lists all flags."
    if name in removed:
        return f"{name!r} was a flag of XLA and does not exist in {jaxlib}. Remove it.{hint}"
    if isinstance(libtpu, Unavailable):
        if name.startswith(_LIBTPU):
            return f"{jaxlib} has no flag named {name!r}; it may be a flag of libtpu, but {_absent(libtpu)}"
        return f"{jaxlib} has no flag named {name!r}.{hint}"
    if name in libtpu.removed:
        return f"{name!r} was a flag of libtpu and does not exist in the installed version. Remove it.{hint}"
    return f"{jaxlib} and the installed libtpu have no flag named {name!r}.{hint}"


def _nearest(name: str, names: Collection[str]) -> list[str]:
    """Returns the names with the most similar spelling, if possible of the same part of the compiler."""
    name = name.lower().replace("-", "_")  # all flag names are lowercase, except one letter of one flag
    begin = "_".join(name.split("_")[:2]) + "_"
    alike = difflib.get_close_matches(name, [n for n in names if n.startswith(begin)], n=3, cutoff=0.6)
    return alike or difflib.get_close_matches(name, names, n=3, cutoff=0.6)


def expected(type_: FlagType) -> str:
    """Describes the values of a flag."""
    return f"'auto' or {_expected(type_)}" if type_.is_auto else _expected(type_)


def expected_text(type_: FlagType) -> str:
    """Describes the text of a flag's values."""
    if type_.kind == "bool" and not type_.repeated:
        return "'auto', true or false" if type_.is_auto else "true or false"
    return expected(type_)


def changes_of(type_: FlagType) -> str:
    """Describes the changes of a list of enum values."""
    return f"'+' or '-' and one of {', '.join(name for name, _ in type_.choices)}"


def hint(type_: FlagType, value: object) -> str:
    """Returns a suggestion that begins with a space; "" if there is none."""
    if isinstance(value, str) and any("\ud800" <= letter <= "\udfff" for letter in value):
        return " It contains half of a surrogate pair, which UTF-8 cannot encode."
    if type_.kind in FLOATS and type(value) is int and type_.home != "libtpu":
        return f" Write {value}.0."
    if type_.kind == "bool" and str(value).lower() in ("true", "1", "false", "0"):
        return f" Write {str(value).lower() in ('true', '1')}."
    if type_.kind == "enum" and isinstance(value, str):
        words = {name.upper(): name for name, _ in type_.choices}
        near = difflib.get_close_matches(value.upper(), words, n=1, cutoff=0.3)
        return f" Did you mean {words[near[0]]!r}?" if near else ""
    return ""


def _absent(libtpu: Unavailable) -> str:
    from inspector.toolchain.libtpu import EXTRA

    if "not installed" in libtpu.reason:
        return f"libtpu is not installed, so its flags are unknown. {sentence(install_command(EXTRA))}"
    return f"its flags are unknown: {libtpu.reason}"


def _expected(type_: FlagType) -> str:
    names = ", ".join(name for name, _ in type_.choices)
    if type_.is_opaque:
        return f"{type_.kind}, which cannot be set as a flag: use Options.from_proto"
    if type_.kind == "map":
        return "a str of key=value pairs, separated by commas without spaces"
    if type_.kind == "message":
        return "a str with a message in protobuf's text format"
    if type_.repeated:
        return f"a str of {type_.kind} values, separated by commas without spaces" + (
            f", from {names}" if names else ""
        )
    if type_.kind == "enum":
        return f"one of {names}"
    if type_.kind in RANGES:
        low, high = RANGES[type_.kind]
        return f"an int from {low} to {high} ({type_.kind})"
    return {
        "bool": "True or False (a Python bool)",
        "string": "a str",
        "float": "a finite float (float32)",
        "double": "a finite float (float64)",
    }[type_.kind]
