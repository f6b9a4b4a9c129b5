"""Reads libtpu's options from its library: names, types, topics, and whether each can be set per compile.

There are two sources. The message `TpuCompilationEnvironment` has a field for each option that can be set per compile;
libtpu sets the field from the text of a flag of the same name. And libtpu registers flags (`absl_flags.py`),
which it reads from LIBTPU_INIT_ARGS when it starts: those of the message and others. libtpu is built
without the flags' descriptions, but the message's fields have topics.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2
from google.protobuf.unknown_fields import UnknownFieldSet

from inspector._jax.libraries.absl_flags import AbslFlag, absl_flags
from inspector._jax.libraries.descriptors import descriptor_set, file_descriptors
from inspector._jax.libraries.elf_strings import UnknownFormatError
from inspector._jax.libraries.libtpu import cached_libtpu
from inspector.errors import MissingPackageError, ModuleError, Unavailable

_ENVIRONMENT_FILE = "platforms/xla/service/jellyfish/tpu_compilation_environment.proto"
_ENVIRONMENT = "TpuCompilationEnvironment"
_XLA_FILE = "third_party/tensorflow/compiler/xla/xla.proto"

# Prefix of the message's flags, and of other flags that concern the compiler; 700 more belong to Google's libraries.
_PREFIX = "xla_"

# xla.jellyfish.TpuCompEnvFieldOptions, an extension of a field's options: its number, and the number of its field `tags`.
_FIELD_OPTIONS, _TAGS = 535801365, 2

_SCALARS = {
    "bool": "bool", "int": "int32", "int32_t": "int32", "int64_t": "int64", "uint32_t": "uint32",
    "uint64_t": "uint64", "size_t": "uint64", "float": "float", "double": "double", "string": "string",
}  # fmt: skip
_LISTS = {"vector<std::string>": "string", "RepeatedStrings": "string", "RepeatedIntegers": "int64"}

# Messages that libtpu does not read from protobuf's text form.
_OWN_FORM = frozenset({"AccumulatorTransformations", "BufferSanitizerConfig", "SparseCoreAssertLevel"})
_AUTO = re.compile(r"(?:.*::)?AutoOr<\s*(.*)>")


@dataclasses.dataclass(frozen=True, slots=True)
class LibtpuFlag:
    """One option of libtpu.

    Attributes:
      name: as the user writes it.
      type: C++ type in libtpu's source.
      kind: "bool", "int32", "int64", "uint32", "uint64", "float", "double", "string", "enum" or "message".
      is_repeated: whether it takes several values, in one text separated by commas.
      is_auto: whether it also accepts "auto".
      message: full name of the message, for the kind "message".
      is_per_compile: whether it can be set per compile; otherwise only in LIBTPU_INIT_ARGS.
      is_removed: whether a compile accepts and ignores it, for compatibility.
      is_deprecated: whether libtpu's schema marks it as deprecated.
      topics: subjects of the option, as words.
      source_file: file in which libtpu defines it.
    """

    name: str
    type: str
    kind: str
    is_repeated: bool = False
    is_auto: bool = False
    message: str = ""
    is_per_compile: bool = False
    is_removed: bool = False
    is_deprecated: bool = False
    topics: tuple[str, ...] = ()
    source_file: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class LibtpuOptions:
    """The options in libtpu's library.

    Attributes:
      flags: options by name.
      xla_flags: flags of XLA itself (fields of `xla.DebugOptions`) that can be set per compile.
      removed: names of options that libtpu has removed.
    """

    flags: Mapping[str, LibtpuFlag]
    xla_flags: frozenset[str]
    removed: frozenset[str]


def libtpu_options() -> LibtpuOptions | Unavailable:
    """Returns the installed libtpu's options, or why they are unknown. Scans the library once for each libtpu."""
    try:
        options = json.loads(cached_libtpu("options", _scan_options))
    except MissingPackageError as e:
        return Unavailable(str(e))
    except (UnknownFormatError, ModuleError, OSError) as e:
        return Unavailable(f"the options of TPUs cannot be read from libtpu's library: {e}")
    flags = (LibtpuFlag(**{**flag, "topics": tuple(flag["topics"])}) for flag in options["flags"])
    return LibtpuOptions(
        {flag.name: flag for flag in flags}, frozenset(options["xla_flags"]), frozenset(options["removed"])
    )


def libtpu_descriptors() -> bytes:
    """Returns the messages of libtpu's options as a serialized `FileDescriptorSet`.

    Raises:
      MissingPackageError: libtpu is not installed.
      ModuleError: the library does not contain them.
    """
    return cached_libtpu("descriptors", _scan_descriptors)


def _scan_descriptors(library: Path) -> bytes:
    files = file_descriptors(library)
    _environment(files)
    return descriptor_set([_ENVIRONMENT_FILE], files)


def _scan_options(library: Path) -> bytes:
    files = file_descriptors(library)
    registered = {flag.name: flag for flag in absl_flags(library)}
    flags = [dataclasses.asdict(flag) for flag in _flags(files, registered)]
    (debug_options,) = (m for m in files[_XLA_FILE].message_type if m.name == "DebugOptions")
    xla_flags = [field.name for field in debug_options.field]
    return json.dumps(
        {"flags": flags, "xla_flags": xla_flags, "removed": [*_environment(files).reserved_name]}
    ).encode()


def _environment(files: Mapping[str, descriptor_pb2.FileDescriptorProto]) -> Any:
    messages = files[_ENVIRONMENT_FILE].message_type if _ENVIRONMENT_FILE in files else ()
    environments = [message for message in messages if message.name == _ENVIRONMENT]
    if not environments or _XLA_FILE not in files:
        raise ModuleError(
            f"libtpu has no {_ENVIRONMENT} in {_ENVIRONMENT_FILE}. Is this a libtpu that inspector supports?"
        )
    return environments[0]


def _flags(
    files: Mapping[str, descriptor_pb2.FileDescriptorProto], registered: Mapping[str, AbslFlag]
) -> Iterator[LibtpuFlag]:
    environment, schema = _environment(files), _Schema(files)
    topics = schema.topics(files[_ENVIRONMENT_FILE])
    fields = {field.name: field for field in environment.field}
    compiling = {name for name in registered if name.startswith(_PREFIX)}
    for name in sorted(fields.keys() | compiling):
        field, flag = fields.get(name), registered.get(name)
        if flag is None:  # without a flag, the field cannot be set
            continue
        yield LibtpuFlag(
            name=name,
            type=flag.type,
            **schema.kind(flag.type),
            is_per_compile=field is not None,
            is_removed=name in environment.reserved_name,
            is_deprecated=bool(field and field.options.deprecated),
            topics=tuple(topics[tag] for tag in _tags(field) if tag in topics) if field else (),
            source_file=flag.source_file,
        )


class _Schema:
    """Names of messages and enums, in C++ and in protobuf."""

    def __init__(self, files: Mapping[str, descriptor_pb2.FileDescriptorProto]) -> None:
        self._messages: set[str] = set()
        self._enums: set[str] = set()
        for file in files.values():
            self._enums.update(f"{file.package}.{enum.name}" for enum in file.enum_type)
            for message in file.message_type:
                self._add(message, file.package)

    def _add(self, message: descriptor_pb2.DescriptorProto, scope: str) -> None:
        name = f"{scope}.{message.name}"
        self._messages.add(name)
        self._enums.update(f"{name}.{enum.name}" for enum in message.enum_type)
        for nested in message.nested_type:
            self._add(nested, name)

    def kind(self, cpp_type: str) -> dict[str, Any]:
        """Returns the fields of `LibtpuFlag` that follow from a C++ type."""
        auto = _AUTO.fullmatch(cpp_type)
        plain = (auto.group(1) if auto else cpp_type).strip().removeprefix("::").removeprefix("std::")
        own = plain.removeprefix("xla::jellyfish::")
        fields: dict[str, Any] = {"is_auto": bool(auto)}
        names = (plain.replace("::", "."), f"xla.jellyfish.{own}".replace("::", "."))
        name = next((name for name in names if name in self._messages | self._enums), "")
        if plain in _SCALARS:
            return {**fields, "kind": _SCALARS[plain]}
        if own in _LISTS:
            return {**fields, "kind": _LISTS[own], "is_repeated": True}
        if name in self._messages and name.startswith("xla.") and own not in _OWN_FORM:
            return {**fields, "kind": "message", "message": name}
        # libtpu's own enums have no namespace; any other type is a text in a special format.
        is_enum = name in self._enums or ("::" not in own and own.isidentifier() and own not in _OWN_FORM)
        return {**fields, "kind": "enum" if is_enum and own != "RangeSpecFlag" else "string"}

    def topics(self, file: descriptor_pb2.FileDescriptorProto) -> dict[int, str]:
        """Returns the topic of each tag number."""
        (options,) = (message for message in file.message_type if message.name == "TpuCompEnvFieldOptions")
        (tags,) = (enum for enum in options.enum_type if enum.name == "Tag")
        return {tag.number: tag.name.replace("_", " ").lower() for tag in tags.value if tag.number}


def _tags(field: Any) -> list[int]:
    numbers: list[int] = []
    for option in _unknown_fields(field.options):
        if option.field_number == _FIELD_OPTIONS:
            # `tags` is packed, and its numbers are below 128: one byte each.
            inner = descriptor_pb2.FieldOptions.FromString(option.data)
            numbers.extend(byte for tags in _unknown_fields(inner) if tags.field_number == _TAGS for byte in tags.data)
    return numbers


def _unknown_fields(message: Any) -> list[Any]:
    fields: Any = UnknownFieldSet(message)
    return list(fields)
