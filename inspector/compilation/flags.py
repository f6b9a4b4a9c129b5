"""XLA's flags: their names, types and defaults, from the `DebugOptions` of the installed jaxlib.

What jaxlib takes as a flag's value per compile (measured on jaxlib 0.10.2 and 0.12.0):

    bool                a Python bool; 1 and 'true' are refused
    int32, int64, ...   an int within the type's range; True is refused
    float, double       a float; an int is refused, and so are nan and infinity
    string              a str
    enum                the value's full name, or its number; jaxlib takes any number, we do not
    repeated enum       such names or numbers with commas between and no spaces, or one number; the
                        '+NAME' of an XLA_FLAGS variable is refused
    repeated string     strings with commas between
    message, map        serialized bytes only, which cannot be given here

The schema is read from the library (most of a second) when a flag is first checked, not before.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import math
from importlib import metadata
from typing import TYPE_CHECKING, Any

from inspector.errors import FlagTypeError, UnknownFlagError

if TYPE_CHECKING:
    import pandas as pd

FlagValue = bool | int | float | str

_RANGES = {
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint32": (0, 2**32 - 1),
    "uint64": (0, 2**64 - 1),
}
_FLOATS = {"float": 3.4028234663852886e38, "double": 1.7976931348623157e308}


@dataclasses.dataclass(frozen=True, slots=True)
class FlagType:
    """What a flag takes.

    Attributes:
      kind: "bool", "int32", "int64", "uint32", "uint64", "float", "double", "string", "enum" or "message".
      repeated: takes several values, in one text with commas between.
      choices: an enum's names, by number.
    """

    kind: str
    repeated: bool = False
    choices: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        return f"list of {self.kind}" if self.repeated else self.kind


def flag_names() -> tuple[str, ...]:
    """Every flag of the installed jaxlib, sorted."""
    return tuple(sorted(_flag_types()))


def flag_type(name: str) -> FlagType:
    """The type of a flag.

    Args:
      name: with or without the leading `--`.

    Raises:
      UnknownFlagError: with the nearest names.
    """
    types = _flag_types()
    name = name.removeprefix("--")
    if name not in types:
        raise UnknownFlagError(_unknown(name, tuple(types)))
    return types[name]


def parse_value(name: str, text: str) -> FlagValue:
    """A flag's value from the text of an `XLA_FLAGS` variable.

    Raises:
      UnknownFlagError: with the nearest names.
      FlagTypeError: the text is not a value of the flag's type.
    """
    type_ = flag_type(name)
    value = _read(type_, text)
    if value is None:
        raise FlagTypeError(f"Flag {name}: cannot read {text!r} as {_expected(type_)}.")
    check_value(name, value)
    return value


def check_value(name: str, value: object) -> None:
    """Checks that jaxlib would take the value.

    Raises:
      UnknownFlagError: with the nearest names.
      FlagTypeError: with what was got, what is expected and an enum's names.
    """
    type_ = flag_type(name)
    if not _is_value(type_, value):
        raise FlagTypeError(
            f"Flag {name}: got {value!r} ({type(value).__name__}), expected {_expected(type_)}.{_hint(type_, value)}"
        )


def option_catalog() -> pd.DataFrame:
    """Every flag of the installed jaxlib.

    Returns:
      A table with the columns `name, group, type, default, choices, description, channel,
      deprecated`; a value that this version does not know is an `Unavailable` with the reason.
    """
    import pandas as pd

    from inspector.errors import Unavailable

    no_default = Unavailable("XLA sets defaults in code, which its descriptors do not carry")
    no_text = Unavailable("jaxlib's descriptors carry no comments")
    rows = []
    for field in sorted(_descriptor().fields, key=lambda f: f.name):
        type_ = _type_of(field)
        rows.append(
            {
                "name": field.name,
                "group": _group(field.name),
                "type": str(type_),
                "default": no_default,
                "choices": tuple(choice for choice, _ in type_.choices),
                "description": no_text,
                "channel": Unavailable("a message, which only a file or a proto can give")
                if type_.kind == "message"
                else "compile",
                "deprecated": bool(field.GetOptions().deprecated) or "deprecated" in field.name,
            }
        )
    return pd.DataFrame(rows)


@functools.cache
def _flag_types() -> dict[str, FlagType]:
    return {field.name: _type_of(field) for field in _descriptor().fields}


def _descriptor() -> Any:
    from inspector.hlo.schema import installed_schema

    return installed_schema().message("xla.DebugOptions").DESCRIPTOR


def _type_of(field: Any) -> FlagType:
    from google.protobuf.descriptor import FieldDescriptor as F

    kinds = {
        F.TYPE_BOOL: "bool", F.TYPE_INT32: "int32", F.TYPE_INT64: "int64", F.TYPE_UINT32: "uint32",
        F.TYPE_UINT64: "uint64", F.TYPE_FLOAT: "float", F.TYPE_DOUBLE: "double", F.TYPE_STRING: "string",
        F.TYPE_ENUM: "enum",
    }  # fmt: skip
    kind = kinds.get(field.type, "message")
    choices = tuple((v.name, v.number) for v in field.enum_type.values) if kind == "enum" else ()
    return FlagType(kind, _is_repeated(field), choices)


def _is_repeated(field: Any) -> bool:
    # `label` is being removed from protobuf, `is_repeated` is only in newer ones.
    return bool(field.is_repeated) if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED


def _group(name: str) -> str:
    for prefix in ("cpu", "gpu", "tpu", "dump", "llvm", "hlo"):
        if name.startswith(f"xla_{prefix}_"):
            return prefix
    return "general"


def _read(type_: FlagType, text: str) -> FlagValue | None:
    """None when it cannot be read."""
    if type_.repeated or type_.kind in ("string", "message"):
        return text
    try:
        if type_.kind == "bool":
            return {"true": True, "1": True, "false": False, "0": False}.get(text.lower())
        if type_.kind in _FLOATS:
            return float(text)
        return int(text, 0)
    except ValueError:
        return text if type_.kind == "enum" else None


def _is_value(type_: FlagType, value: object) -> bool:
    if type_.kind == "message":
        return False
    if type_.repeated and isinstance(value, str):
        return type_.kind == "string" or _are_elements(type_, value)
    if type_.repeated:
        return type_.kind == "enum" and _is_choice(type_, value)
    if type_.kind == "bool":
        return type(value) is bool
    if type_.kind == "string":
        return isinstance(value, str)
    if type_.kind == "enum":
        return _is_choice(type_, value)
    if type_.kind in _FLOATS:
        return type(value) is float and math.isfinite(value) and abs(value) <= _FLOATS[type_.kind]
    low, high = _RANGES[type_.kind]
    return type(value) is int and low <= value <= high


def _is_choice(type_: FlagType, value: object) -> bool:
    if type(value) is int:
        return any(value == number for _, number in type_.choices)
    return isinstance(value, str) and any(value in (name, str(number)) for name, number in type_.choices)


def _are_elements(type_: FlagType, text: str) -> bool:
    element = dataclasses.replace(type_, repeated=False)
    return all(_is_value(element, _read(element, part)) for part in text.split(",") if text)


def _expected(type_: FlagType) -> str:
    names = ", ".join(name for name, _ in type_.choices)
    if type_.kind == "message":
        return "a protobuf message, which cannot be given as a flag"
    if type_.repeated:
        return f"a str of {type_.kind} values with commas and no spaces between" + (
            f", out of {names}" if names else ""
        )
    if type_.kind == "enum":
        return f"one of {names}"
    if type_.kind in _RANGES:
        low, high = _RANGES[type_.kind]
        return f"an int from {low} to {high} ({type_.kind})"
    return {
        "bool": "True or False (a Python bool)",
        "string": "a str",
        "float": "a finite float (float32)",
        "double": "a finite float (float64)",
    }[type_.kind]


def _hint(type_: FlagType, value: object) -> str:
    if type_.kind in _FLOATS and type(value) is int:
        return f" Write {value}.0."
    if type_.kind == "bool" and isinstance(value, (str, int)):
        return f" Write {str(value).lower() in ('true', '1')}."
    if type_.kind == "enum" and isinstance(value, str):
        near = difflib.get_close_matches(value.upper(), [name for name, _ in type_.choices], n=1, cutoff=0.3)
        return f" Did you mean {near[0]!r}?" if near else ""
    return ""


def _unknown(name: str, names: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
    hint = f" Did you mean {', '.join(near)}?" if near else " See inspector.option_catalog() for all."
    return f"jaxlib {metadata.version('jaxlib')} has no flag named {name!r}.{hint}"
