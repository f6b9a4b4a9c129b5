"""The compiler's options: names and types, from the protobuf descriptors of the installed jaxlib.

Three messages hold them: `DebugOptions` (XLA's flags), and around it `ExecutableBuildOptions` and
`CompileOptions`. A name is looked for in all three; to a user each is a flag.

What jaxlib takes as a flag's value per compile (measured on jaxlib 0.10.2 and 0.12.0):

    bool                a Python bool; 1 and 'true' are refused
    int32, int64, ...   an int within the type's range; True is refused
    float, double       a float; an int is refused, and so are nan and infinity
    string              a str
    enum                the value's full name, or its number; jaxlib takes any number, we do not
    repeated enum       such names or numbers with commas between and no spaces, or one number; the
                        '+NAME' of an XLA_FLAGS variable is refused
    repeated string     strings with commas between
    map                 serialized bytes only; we take 'key=value,key=value' as XLA_FLAGS does
    message             serialized bytes only; we take protobuf's text form

The last two, and the fields outside `DebugOptions`, reach the compiler through `options_proto.py`. The schema
is read from the library (most of a second) when a flag is first checked, not before.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import math
from importlib import metadata
from typing import Any, Literal

from inspector.errors import FlagTypeError, OptionError, UnknownFlagError

FlagValue = bool | int | float | str
Home = Literal["debug_options", "executable_build_options", "compile_options"]

_RANGES = {
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint32": (0, 2**32 - 1),
    "uint64": (0, 2**64 - 1),
}
_FLOATS = {"float": 3.4028234663852886e38, "double": 1.7976931348623157e308}

# They hold the others and are no options themselves.
_CONTAINERS = ("executable_build_options", "debug_options", "env_option_overrides")

_LIBTPU = ("xla_tpu_", "xla_jf_", "xla_mosaic_")

OPTION_FIELDS = (
    "num_replicas",
    "num_partitions",
    "device_assignment",
    "use_spmd_partitioning",
    "use_shardy_partitioner",
    "allow_spmd_sharding_propagation_to_parameters",
    "allow_spmd_sharding_propagation_to_output",
    "parameter_is_tupled_arguments",
)
"""Options that `Options` has as attributes of its own; they are given there, not among the flags."""


@dataclasses.dataclass(frozen=True, slots=True)
class FlagType:
    """What a flag takes.

    Attributes:
      kind: "bool", "int32", "int64", "uint32", "uint64", "float", "double", "string", "enum", "map",
        "message", or "bytes", which cannot be written as a flag.
      repeated: takes several values, in one text with commas between.
      choices: an enum's names, by number.
      home: the message that holds it.
    """

    kind: str
    repeated: bool = False
    choices: tuple[tuple[str, int], ...] = ()
    home: Home = "debug_options"

    @property
    def is_opaque(self) -> bool:
        """Whether no text stands for its values: bytes and lists of messages."""
        return self.kind == "bytes" or (self.kind == "message" and self.repeated)

    def __str__(self) -> str:
        return f"list of {self.kind}" if self.repeated else self.kind


def flag_names() -> tuple[str, ...]:
    """Every option of the installed jaxlib, sorted."""
    return tuple(sorted(_fields()))


def flag_type(name: str) -> FlagType:
    """The type of a flag.

    Args:
      name: with or without the leading `--`.

    Raises:
      UnknownFlagError: with the nearest names.
    """
    name = name.removeprefix("--")
    if name not in _fields():
        raise UnknownFlagError(_unknown(name))
    return _types()[name]


def flag_field(name: str) -> Any:
    """The protobuf field descriptor of a flag that there is."""
    return _fields()[name][1]


def flag_number(name: str) -> int:
    """The number of a field, of one that holds options too."""
    if name in _CONTAINERS:
        from inspector.hlo.compiler import options_message

        return int(options_message().DESCRIPTOR.fields_by_name[name].number)
    return int(flag_field(name).number)


def parse_value(name: str, text: str) -> FlagValue:
    """A flag's value from the text of an `XLA_FLAGS` variable.

    Enums are read in any case and with or without the prefix that all of their names share; for a
    list of them, `+NAME` and `-NAME` change XLA's default.

    Raises:
      UnknownFlagError: with the nearest names.
      FlagTypeError: the text is not a value of the flag's type.
    """
    type_, name = flag_type(name), name.removeprefix("--")
    value = _read(name, type_, text)
    if value is None:
        raise _unreadable(name, type_, text)
    check_value(name, value)
    return value


def read_plain(name: str, text: str) -> FlagValue:
    """One bool or number of an option, or of an element of its list, from text.

    Raises:
      FlagTypeError: the text is not one.
    """
    type_ = dataclasses.replace(flag_type(name), repeated=False)
    value = _read_one(type_, text)
    if value is None:
        raise _unreadable(name, type_, text)
    return value


def check_value(name: str, value: object) -> None:
    """Checks that the compiler would take the value.

    Raises:
      UnknownFlagError: with the nearest names.
      FlagTypeError: with what was got, what is expected and an enum's names.
      OptionError: an option that is no flag.
    """
    type_, name = flag_type(name), name.removeprefix("--")
    if name in OPTION_FIELDS:
        raise OptionError(f"{name} is not a flag but a field of its own: write Options({name}={value!r}).")
    if not _is_value(type_, value):
        raise FlagTypeError(
            f"Flag {name}: got {value!r} ({type(value).__name__}), expected {_expected(type_)}.{_hint(type_, value)}"
        )
    if type_.kind in ("map", "message"):
        set_field(_empty(flag_field(name).containing_type), name, value)


def set_field(message: Any, name: str, value: Any) -> None:
    """Sets a flag's field in the message that holds it.

    Raises:
      FlagTypeError: the text of a map or message cannot be read.
    """
    type_ = flag_type(name)
    if type_.kind == "map":
        getattr(message, name).clear()
        getattr(message, name).update(_map(value))
    elif type_.kind == "message":
        message.ClearField(name)
        getattr(message, name).MergeFrom(_message(name, value))
    elif type_.repeated:
        message.ClearField(name)
        getattr(message, name).extend(_elements(type_, value))
    else:
        setattr(message, name, dict(type_.choices).get(value, value) if type_.kind == "enum" else value)


def get_field(message: Any, name: str) -> FlagValue:
    """The inverse of `set_field`: a flag's value as it would be given."""
    type_, value = flag_type(name), getattr(message, name)
    if type_.kind == "map":
        return ",".join(f"{key}={text}" if text else key for key, text in sorted(value.items()))
    if type_.kind == "message":
        from google.protobuf import text_format

        return str(text_format.MessageToString(value, as_one_line=True))
    names = {number: choice for choice, number in type_.choices}
    if type_.repeated:
        return ",".join(_element_text(names.get(v, v)) for v in value)
    plain: FlagValue = names.get(value, value) if type_.kind == "enum" else value
    return plain


@functools.cache
def _fields() -> dict[str, tuple[Home, Any]]:
    """Name to (home, field descriptor). A name in two messages belongs to the inner one."""
    from inspector.hlo.schema import installed_schema

    schema, found = installed_schema(), {}
    homes: tuple[tuple[Home, str], ...] = (
        ("compile_options", "xla.CompileOptionsProto"),
        ("executable_build_options", "xla.ExecutableBuildOptionsProto"),
        ("debug_options", "xla.DebugOptions"),
    )
    for home, message in homes:
        for field in schema.message(message).DESCRIPTOR.fields:
            if field.name not in _CONTAINERS:
                found[field.name] = (home, field)
    return found


@functools.cache
def _types() -> dict[str, FlagType]:
    return {name: _type_of(home, field) for name, (home, field) in _fields().items()}


def _type_of(home: Home, field: Any) -> FlagType:
    from google.protobuf.descriptor import FieldDescriptor as F

    kinds = {
        F.TYPE_BOOL: "bool", F.TYPE_INT32: "int32", F.TYPE_INT64: "int64", F.TYPE_UINT32: "uint32",
        F.TYPE_UINT64: "uint64", F.TYPE_FLOAT: "float", F.TYPE_DOUBLE: "double", F.TYPE_STRING: "string",
        F.TYPE_ENUM: "enum", F.TYPE_BYTES: "bytes",
    }  # fmt: skip
    kind, repeated = kinds.get(field.type, "message"), _is_repeated(field)
    choices = tuple((v.name, v.number) for v in field.enum_type.values) if kind == "enum" else ()
    if kind == "message" and field.message_type.GetOptions().map_entry:
        return FlagType("map", home=home)
    return FlagType(kind, repeated, choices, home)


def _is_repeated(field: Any) -> bool:
    # `label` is being removed from protobuf, `is_repeated` is only in newer ones.
    return bool(field.is_repeated) if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED


def _read(name: str, type_: FlagType, text: str) -> FlagValue | None:
    """None when it cannot be read."""
    if type_.kind == "enum" and type_.repeated:
        return _read_enums(name, type_, text)
    if type_.repeated or type_.kind in ("string", "map", "message", "bytes"):
        return text
    return _read_one(type_, text)


def _read_one(type_: FlagType, text: str) -> FlagValue | None:
    if type_.kind == "enum":
        return _read_enum(type_, text)
    if type_.kind == "string":
        return text
    try:
        if type_.kind == "bool":
            return {"true": True, "1": True, "false": False, "0": False}.get(text.lower())
        return float(text) if type_.kind in _FLOATS else int(text, 0)
    except ValueError:
        return None


def _read_enum(type_: FlagType, text: str) -> FlagValue:
    if text.removeprefix("-").isdigit():
        return int(text)
    names = [choice for choice, _ in type_.choices]
    shared = _shared_prefix(names)
    for candidate in (text.upper(), shared + text.upper()):
        if candidate in names:
            return candidate
    return text


def _read_enums(name: str, type_: FlagType, text: str) -> FlagValue:
    words = text.split(",") if text else []
    changes = [word[:1] in ("+", "-") and not word[1:].isdigit() for word in words]
    values = [str(_read_enum(type_, word[1:] if change else word)) for word, change in zip(words, changes, strict=True)]
    if not any(changes):
        return ",".join(values)
    if not all(changes):
        raise FlagTypeError(f"Flag {name}: {text!r} mixes names with '+NAME' and '-NAME'; XLA takes either.")
    kept = _default_elements(name, text)
    for word, value in zip(words, values, strict=True):
        kept = [k for k in kept if k != value] + ([value] if word[0] == "+" else [])
    return ",".join(kept)


def _default_elements(name: str, text: str) -> list[str]:
    from inspector.errors import Unavailable
    from inspector.hlo.compiler import default_options

    defaults = default_options()
    if isinstance(defaults, Unavailable):
        raise FlagTypeError(f"Flag {name}: {text!r} changes XLA's default, which is {defaults}. List all names.")
    listed = str(get_field(defaults.executable_build_options.debug_options, name))
    return listed.split(",") if listed else []


def _shared_prefix(names: list[str]) -> str:
    """What all of an enum's names begin with, up to an underscore."""
    first, last = min(names), max(names)
    length = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    return first[: first.rfind("_", 0, length) + 1]


def _map(text: str) -> dict[str, str]:
    return {key: value for key, _, value in (part.partition("=") for part in text.split(",") if part)}


def _message(name: str, text: str) -> Any:
    from google.protobuf import text_format

    message = _empty(flag_field(name).message_type)
    try:
        return text_format.Parse(text, message)
    except text_format.ParseError as e:
        fields = ", ".join(field.name for field in message.DESCRIPTOR.fields)
        raise FlagTypeError(
            f"Flag {name}: cannot read {text!r} as a {message.DESCRIPTOR.full_name} in protobuf's text form: {e}."
            f" Its fields: {fields}."
        ) from e


def _unreadable(name: str, type_: FlagType, text: str) -> FlagTypeError:
    return FlagTypeError(f"Flag {name}: cannot read {text!r} as {_expected(type_)}.{_hint(type_, text)}")


def _empty(descriptor: Any) -> Any:
    from google.protobuf import message_factory

    return message_factory.GetMessageClass(descriptor)()


def _elements(type_: FlagType, value: FlagValue) -> list[Any]:
    element, numbers = dataclasses.replace(type_, repeated=False), dict(type_.choices)
    if not isinstance(value, str):
        return [value]
    values = [_read_one(element, part) for part in value.split(",")] if value else []
    return [numbers.get(v, v) if isinstance(v, str) else v for v in values]


def _element_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _is_value(type_: FlagType, value: object) -> bool:
    if type_.is_opaque:
        return False
    if type_.kind in ("map", "message"):
        return isinstance(value, str)
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
    if type_.kind == "enum":
        return all(_is_choice(element, part) for part in text.split(",") if text)
    return all(_is_value(element, _read_one(element, part)) for part in text.split(",") if text)


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
    if type_.kind == "bool" and str(value).lower() in ("true", "1", "false", "0"):
        return f" Write {str(value).lower() in ('true', '1')}."
    if type_.kind == "enum" and isinstance(value, str):
        near = difflib.get_close_matches(value.upper(), [name for name, _ in type_.choices], n=1, cutoff=0.3)
        return f" Did you mean {near[0]!r}?" if near else ""
    return ""


def _unknown(name: str) -> str:
    names = tuple(_fields())
    positive = name.removeprefix("no").removeprefix("_")
    if name.startswith("no") and positive in names and _types()[positive].kind == "bool":
        return f"XLA has no --no form of a flag, got {name!r}. Write --{positive}=false."
    if name.startswith(_LIBTPU):
        return f"jaxlib {metadata.version('jaxlib')} has no flag named {name!r}; it looks like one of libtpu, which has no target here."
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
    hint = f" Did you mean {', '.join(near)}?" if near else " See inspector.option_catalog() for all."
    return f"jaxlib {metadata.version('jaxlib')} has no flag named {name!r}.{hint}"
