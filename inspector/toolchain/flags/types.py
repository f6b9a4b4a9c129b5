"""Names and types of all options, from the installed jaxlib and from libtpu if it is installed.

Three messages of XLA contain options: `DebugOptions` (XLA's flags), and around it `ExecutableBuildOptions` and
`CompileOptions`. Names are looked up in all three; to users, all are flags. libtpu has further options, which it reads by
name. Both are read from the libraries (most of a second) at the first lookup of a flag.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from inspector.errors import OptionError, Unavailable, UnknownFlagError
from inspector.support.notebook import short
from inspector.toolchain.flags.flag_type import FlagType, Home
from inspector.toolchain.flags.messages import unknown_flag

if TYPE_CHECKING:
    from inspector.toolchain.libtpu import LibtpuFlag, LibtpuOptions

# Fields that contain options and are not options themselves.
_CONTAINERS = ("executable_build_options", "debug_options", "env_option_overrides")


def flag_names() -> tuple[str, ...]:
    """Returns the names of all options of the installed jaxlib, and of libtpu if it is installed, sorted."""
    return tuple(sorted({**_fields(), **libtpu_flags()}))


def xla_flag_names() -> tuple[str, ...]:
    """Returns the names of the options in XLA's messages, sorted."""
    return tuple(sorted(_fields()))


def flag_type(name: str) -> FlagType:
    """Returns the type of a flag.

    Args:
      name: the name, with or without the leading `--`.

    Raises:
      UnknownFlagError: an unknown flag. The message suggests the nearest names.
      OptionError: the name is not text.
    """
    text: Any = name  # users may pass any type
    if not isinstance(text, str):
        raise OptionError(
            f"Expected the name of a flag as text, such as 'xla_cpu_enable_fast_math', got {short(text)}."
        )
    name = text.removeprefix("--")
    if name in _fields():
        return _type(name)
    if name in libtpu_flags():
        return _libtpu_type(name)
    raise UnknownFlagError(unknown_flag(name, flag_names(), _libtpu(), _removed_names(), _is_boolean))


def flag_field(name: str) -> Any:
    """Returns the protobuf field descriptor of a flag in XLA's messages."""
    return _fields()[name][1]


def flag_number(name: str) -> int:
    """Returns the field number of an option, or of a field that contains options."""
    if name in _CONTAINERS:
        from inspector.toolchain.xla import options_message

        return int(options_message().DESCRIPTOR.fields_by_name[name].number)
    return int(flag_field(name).number)


@functools.cache
def libtpu_flags() -> Mapping[str, LibtpuFlag]:
    """Returns libtpu's flags by name, except those that XLA has too; none if libtpu is not installed."""
    options = _libtpu()
    if isinstance(options, Unavailable):
        return {}
    return {name: flag for name, flag in options.flags.items() if name not in _fields()}


def is_flag_of_libtpu(name: str) -> bool:
    """Reports whether a flag belongs to libtpu only. Does not read libtpu if XLA has the flag."""
    return name not in _fields() and name in libtpu_flags()


@functools.cache
def _fields() -> dict[str, tuple[Home, Any]]:
    """Returns (home, field descriptor) by name. A name in two messages belongs to the inner one."""
    from inspector.toolchain.schema import installed_schema

    schema, fields = installed_schema(), {}
    homes: tuple[tuple[Home, str], ...] = (
        ("compile_options", "xla.CompileOptionsProto"),
        ("executable_build_options", "xla.ExecutableBuildOptionsProto"),
        ("debug_options", "xla.DebugOptions"),
    )
    for home, message in homes:
        for field in schema.message(message).DESCRIPTOR.fields:
            if field.name not in _CONTAINERS:
                fields[field.name] = (home, field)
    return fields


@functools.cache
def _type(name: str) -> FlagType:
    from google.protobuf.descriptor import FieldDescriptor as F

    kinds = {
        F.TYPE_BOOL: "bool", F.TYPE_INT32: "int32", F.TYPE_INT64: "int64", F.TYPE_UINT32: "uint32",
        F.TYPE_UINT64: "uint64", F.TYPE_FLOAT: "float", F.TYPE_DOUBLE: "double", F.TYPE_STRING: "string",
        F.TYPE_ENUM: "enum", F.TYPE_BYTES: "bytes",
    }  # fmt: skip
    home, field = _fields()[name]
    kind, repeated = kinds.get(field.type, "message"), _is_repeated(field)
    choices = tuple((v.name, v.number) for v in field.enum_type.values) if kind == "enum" else ()
    if kind == "message" and field.message_type.GetOptions().map_entry:
        return FlagType("map", home=home)
    return FlagType(kind, repeated, choices, home)


def _is_repeated(field: Any) -> bool:
    # Newer protobuf versions have `is_repeated` and deprecate `label`.
    return bool(field.is_repeated) if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED


def _is_boolean(name: str) -> bool:
    return flag_type(name).kind == "bool"


@functools.cache
def _removed_names() -> frozenset[str]:
    """Returns the names of removed XLA flags, which XLA reserves."""
    from google.protobuf import descriptor_pb2

    from inspector.toolchain.xla import debug_options_type

    message = descriptor_pb2.DescriptorProto()
    debug_options_type().CopyToProto(message)
    return frozenset(message.reserved_name)


def _libtpu() -> LibtpuOptions | Unavailable:
    from inspector.toolchain.libtpu import libtpu_options

    return libtpu_options()


@functools.cache
def _libtpu_type(name: str) -> FlagType:
    flag = libtpu_flags()[name]
    words = _words(flag) if flag.kind == "enum" else ()
    return FlagType(
        kind="string" if flag.kind == "enum" and not words else flag.kind,  # libtpu itself checks the words
        repeated=flag.is_repeated,
        choices=tuple((word, number) for number, word in enumerate(words)),
        home="libtpu",
        is_auto=flag.is_auto,
        is_per_compile=flag.is_per_compile,
        message=flag.message,
    )


def _words(flag: LibtpuFlag) -> tuple[str, ...]:
    from inspector.toolchain.libtpu import enum_words

    words = enum_words()
    return () if isinstance(words, Unavailable) else tuple(words.get(flag.type, ()))
