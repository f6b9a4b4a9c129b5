"""Converts `Options` to and from `xla.CompileOptionsProto`, XLA's form of compile options.

JAX passes flags to XLA as `env_option_overrides`, by name and with values of four types. This module sets other values
(maps, messages, fields of the build options) in the message itself.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from google.protobuf.message import DecodeError

from inspector.errors import OptionError, Unavailable
from inspector.support.varints import write_varint
from inspector.toolchain import flags
from inspector.toolchain.flags import libtpu
from inspector.toolchain.xla import jax_options, options_message

# JAX sets this flag in the message, depending on the size of the module.
_SET_BY_JAX = frozenset({"xla_detailed_logging"})
_OVERRIDES = {bool: "bool_field", int: "int_field", float: "double_field", str: "string_field"}
_BUILD_FIELDS = ("num_replicas", "num_partitions", "use_spmd_partitioning", "use_shardy_partitioner")
_LISTS = ("allow_spmd_sharding_propagation_to_parameters", "allow_spmd_sharding_propagation_to_output")
_VARINT, _FIXED_32, _FIXED_64, _LENGTH_DELIMITED = 0, 5, 1, 2


def to_proto(fields: Mapping[str, Any]) -> bytes:
    """Serializes options. Unset options have JAX's values.

    Args:
      fields: fields of `Options`, by name.

    Raises:
      OptionError: JAX is not installed.
    """
    message = jax_options()
    _set_fields(message, fields)
    for name, value in overrides(fields["flags"]).items():
        setattr(message.env_option_overrides[name], _OVERRIDES[type(value)], value)
    for name, value in _in_message(fields["flags"]).items():
        flags.set_field(flags.holder(message, flags.flag_type(name).home), name, value)
    _merge(message, fields["extra_proto"])
    return bytes(message.SerializeToString(deterministic=True))


def from_proto(data: bytes) -> dict[str, Any]:
    """Reads the fields of `Options`.

    Raises:
      OptionError: not a serialized `xla.CompileOptionsProto`, or JAX is not installed.
    """
    message, default = options_message(), jax_options()
    _merge(message, data)
    fields = _get_fields(message, default)
    fields["flags"] = _changed_flags(message, default) | {
        name: _override(value) for name, value in message.env_option_overrides.items()
    }
    fields["extra_proto"] = _rest(message, default)
    return fields


def overrides(values: Mapping[str, flags.FlagValue]) -> dict[str, flags.FlagValue]:
    """Returns the flags that JAX's overrides can carry, with values in the form that compilers accept."""
    return {name: flags.sent_value(name, value) for name, value in values.items() if _is_override(name)}


def additions(values: Mapping[str, flags.FlagValue], extra_proto: bytes = b"") -> bytes:
    """Returns the other flags as a serialized `xla.CompileOptionsProto` to append to JAX's own.

    Appending protobuf messages merges them. Protobuf does not write zeros, which must also override values,
    so this function writes them itself.
    """
    fields = _in_message(values)
    if not fields:  # most compiles do not need the schema
        return extra_proto
    message = options_message()
    for name, value in fields.items():
        flags.set_field(flags.holder(message, flags.flag_type(name).home), name, value)
    inner = _zeros(fields, message, "executable_build_options")
    if inner:
        inner = (
            _tag(flags.flag_number("executable_build_options"), _LENGTH_DELIMITED) + write_varint(len(inner)) + inner
        )
    return bytes(message.SerializeToString()) + _zeros(fields, message, "compile_options") + inner + extra_proto


def unsaid_value(name: str) -> flags.FlagValue | Unavailable:
    """Returns the value of a flag that is not set: JAX's value for XLA's flags, libtpu's default for its own flags."""
    type_ = flags.flag_type(name)
    if type_.home == "libtpu":
        return libtpu.default(name, type_)
    return flags.get_field(flags.holder(jax_options(), type_.home), name)


def _in_message(values: Mapping[str, flags.FlagValue]) -> dict[str, flags.FlagValue]:
    """Returns the flags that are set in the message itself, without those of LIBTPU_INIT_ARGS."""
    return {
        name: value
        for name, value in values.items()
        if not _is_override(name) and flags.flag_type(name).home != "libtpu"
    }


def _is_override(name: str) -> bool:
    type_ = flags.flag_type(name)
    if type_.home == "libtpu":
        return type_.is_per_compile
    return type_.home == "debug_options" and type_.kind not in ("map", "message") and name not in _SET_BY_JAX


def _set_fields(message: Any, fields: Mapping[str, Any]) -> None:
    build = message.executable_build_options
    for name in _BUILD_FIELDS:
        if fields[name] is not None:
            setattr(build, name, fields[name])
    for name in _LISTS:
        if fields[name] is not None:
            build.ClearField(name)
            getattr(build, name).extend(fields[name])
    if fields["parameter_is_tupled_arguments"] is not None:
        message.parameter_is_tupled_arguments = fields["parameter_is_tupled_arguments"]
    if fields["device_assignment"] is not None:
        assignment = build.device_assignment
        assignment.replica_count = len(fields["device_assignment"])
        assignment.computation_count = len(fields["device_assignment"][0]) if fields["device_assignment"] else 0
        for devices in zip(*fields["device_assignment"], strict=True):
            assignment.computation_devices.add(replica_device_ids=devices)


def _get_fields(message: Any, defaults: Any) -> dict[str, Any]:
    build, default = message.executable_build_options, defaults.executable_build_options
    # A message always has values for these two, so 0 stands for an unset value.
    fields: dict[str, Any] = {
        "num_replicas": build.num_replicas or None,
        "num_partitions": build.num_partitions or None,
    }
    for name in _BUILD_FIELDS[2:]:
        if getattr(build, name) != getattr(default, name):
            fields[name] = getattr(build, name)
    for name in _LISTS:
        if list(getattr(build, name)) != list(getattr(default, name)):
            fields[name] = tuple(getattr(build, name))
    if message.parameter_is_tupled_arguments != defaults.parameter_is_tupled_arguments:
        fields["parameter_is_tupled_arguments"] = message.parameter_is_tupled_arguments
    if build.HasField("device_assignment"):
        columns = [computation.replica_device_ids for computation in build.device_assignment.computation_devices]
        fields["device_assignment"] = tuple(zip(*columns, strict=True))
    return fields


def _changed_flags(message: Any, defaults: Any) -> dict[str, flags.FlagValue]:
    changed = {}
    for name in flags.xla_flag_names():
        type_ = flags.flag_type(name)
        if name in flags.OPTION_FIELDS or type_.is_opaque or type_.kind == "message":
            continue
        ours, default = flags.holder(message, type_.home), flags.holder(defaults, type_.home)
        value = flags.get_field(ours, name)
        # As texts, because a field of -0.0 is written though -0.0 == 0.0.
        if repr(value) != repr(flags.get_field(default, name)) or _is_given(ours, name) != _is_given(default, name):
            changed[name] = value
    return changed


def _is_given(message: Any, name: str) -> bool:
    """Reports whether a field is set explicitly, even to its default value."""
    return bool(flags.flag_field(name).has_presence and message.HasField(name))


def _override(value: Any) -> flags.FlagValue:
    which: flags.FlagValue = getattr(value, value.WhichOneof("value"))
    return which


def _rest(message: Any, defaults: Any) -> bytes:
    """Returns a message of the opaque fields and messages that differ from the defaults."""
    rest = options_message()
    for name in flags.xla_flag_names():
        type_ = flags.flag_type(name)
        if name in flags.OPTION_FIELDS or not (type_.is_opaque or type_.kind == "message"):
            continue
        ours, default = flags.holder(message, type_.home), flags.holder(defaults, type_.home)
        if getattr(ours, name) == getattr(default, name):
            continue
        target = flags.holder(rest, type_.home)
        if type_.kind == "bytes":
            setattr(target, name, getattr(ours, name))
        elif type_.repeated:
            getattr(target, name).extend(getattr(ours, name))
        else:
            getattr(target, name).CopyFrom(getattr(ours, name))
    return bytes(rest.SerializeToString(deterministic=True))


def _merge(message: Any, data: bytes) -> None:
    try:
        message.MergeFromString(data)
    except (DecodeError, TypeError) as e:
        raise OptionError(
            f"Not a serialized xla.CompileOptionsProto ({_extent(data)}): {e}. Expected the result of"
            " CompileOptions.SerializeAsString() or Options.to_proto()."
        ) from e


def _extent(data: object) -> str:
    return f"{len(data)} bytes" if isinstance(data, bytes) else type(data).__name__


def _zeros(values: Mapping[str, flags.FlagValue], message: Any, home: flags.Home) -> bytes:
    """Encodes the flags of a home whose value is zero."""
    types = {name: flags.flag_type(name) for name in values}
    return b"".join(
        _zero(name, type_)
        for name, type_ in types.items()
        if type_.home == home
        and not (type_.repeated or type_.kind in ("map", "message"))
        and not getattr(flags.holder(message, home), name)
    )


def _zero(name: str, type_: flags.FlagType) -> bytes:
    """Encodes field `name` with the value zero."""
    number = flags.flag_number(name)
    if type_.kind == "string":
        return _tag(number, _LENGTH_DELIMITED) + b"\0"
    if type_.kind in ("float", "double"):
        is_double = type_.kind == "double"
        return _tag(number, _FIXED_64 if is_double else _FIXED_32) + struct.pack("<d" if is_double else "<f", 0.0)
    return _tag(number, _VARINT) + b"\0"


def _tag(number: int, wire_type: int) -> bytes:
    return write_varint(number << 3 | wire_type)
