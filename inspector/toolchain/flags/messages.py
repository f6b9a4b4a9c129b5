"""What is said of a flag that does not exist, and of a value that is none of its flag."""

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
"""The least and the greatest integer of a kind."""

FLOATS = {"float": 3.4028234663852886e38, "double": 1.7976931348623157e308}
"""The greatest number of a kind."""

# How the names of libtpu's flags begin that XLA's do not, in the order of how many there are.
_LIBTPU = ("xla_tpu_", "xla_jf_", "xla_sc_", "xla_msa_", "xla_vf_", "xla_gf_", "xla_sparse_core_", "xla_mosaic_")


def unknown_flag(
    name: str,
    names: Collection[str],
    libtpu: LibtpuOptions | Unavailable,
    removed: Collection[str],
    is_boolean: Callable[[str], bool],
) -> str:
    """What is said of a name that no flag has.

    Args:
      name: without dashes.
      names: of all flags that there are.
      libtpu: what is known of libtpu.
      removed: names that XLA once had.
      is_boolean: of a flag that there is.
    """
    jaxlib = f"jaxlib {metadata.version('jaxlib')}"
    positive = name.removeprefix("no").removeprefix("_").removeprefix("-")
    if name.startswith("no") and positive in names and is_boolean(positive):
        return f"XLA has no --no form of a flag, got {name!r}. Write --{positive}=false."
    near = _nearest(name, names)
    hint = f" Did you mean {', '.join(near)}?" if near else " See inspector.option_catalog() for all."
    if name in removed:
        return f"{name!r} was a flag of XLA and was removed: {jaxlib} has it no more. Leave it out.{hint}"
    if isinstance(libtpu, Unavailable):
        if name.startswith(_LIBTPU):
            return f"{jaxlib} has no flag named {name!r}; it looks like one of libtpu, and {_absent(libtpu)}"
        return f"{jaxlib} has no flag named {name!r}.{hint}"
    if name in libtpu.removed:
        return f"{name!r} was a flag of libtpu and was removed. Leave it out.{hint}"
    return f"{jaxlib} and the installed libtpu have no flag named {name!r}.{hint}"


def _nearest(name: str, names: Collection[str]) -> list[str]:
    """What is spelt most alike, of the same part of the compiler if there is any."""
    name = name.lower().replace("-", "_")  # as names are, but for one letter of one
    begin = "_".join(name.split("_")[:2]) + "_"
    alike = difflib.get_close_matches(name, [n for n in names if n.startswith(begin)], n=3, cutoff=0.6)
    return alike or difflib.get_close_matches(name, names, n=3, cutoff=0.6)


def expected(type_: FlagType) -> str:
    """What a flag takes, in words."""
    return f"'auto' or {_expected(type_)}" if type_.is_auto else _expected(type_)


def expected_text(type_: FlagType) -> str:
    """What the text of a flag is, in words."""
    if type_.kind == "bool" and not type_.repeated:
        return "'auto', true or false" if type_.is_auto else "true or false"
    return expected(type_)


def changes_of(type_: FlagType) -> str:
    """What changes a list of enums, in words."""
    return f"'+' or '-' and one of {', '.join(name for name, _ in type_.choices)}"


def hint(type_: FlagType, value: object) -> str:
    """What was probably meant, with a space before; "" where there is no telling."""
    if isinstance(value, str) and any("\ud800" <= letter <= "\udfff" for letter in value):
        return " It holds half of a surrogate pair, which UTF-8 cannot write."
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
        return f"{type_.kind}, which cannot be written as a flag: use Options.from_proto"
    if type_.kind == "map":
        return "a str of key=value pairs with commas and no spaces between"
    if type_.kind == "message":
        return "a str, a message in protobuf's text form"
    if type_.repeated:
        return f"a str of {type_.kind} values with commas and no spaces between" + (
            f", out of {names}" if names else ""
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
