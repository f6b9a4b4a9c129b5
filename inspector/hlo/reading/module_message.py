"""Decodes the message of an HLO module from bytes of either of two messages."""

from __future__ import annotations

from typing import Any

from google.protobuf.message import DecodeError

from inspector.errors import ModuleError
from inspector.toolchain.schema import Schema, installed_schema


def decoded(data: bytes, schema: Schema | None = None) -> Any:
    """Returns the `xla.HloModuleProto` in serialized bytes.

    Args:
      data: an `xla.HloModuleProto`, or an `xla.HloProto` that contains one.
      schema: message classes; those of the installed jaxlib by default.

    Raises:
      ModuleError: the bytes are neither, or truncated.
    """
    schema = schema or installed_schema()
    proto = _decode(data, schema.message("xla.HloModuleProto"))
    if proto is None:
        wrapper = _decode(data, schema.message("xla.HloProto"))
        proto = wrapper.hlo_module if wrapper is not None and _is_module(wrapper.hlo_module) else None
    if proto is None:
        raise ModuleError(
            f"Cannot read {len(data)} bytes as an HLO module: expected a serialized xla.HloModuleProto or"
            " xla.HloProto with an entry computation. Such bytes come from"
            " hlo_module.as_serialized_hlo_module_proto() or from a *.hlo.pb dump."
        )
    return proto


def _decode(data: bytes, message: Any) -> Any | None:
    """Decodes a message; None if the bytes are not valid or contain no module."""
    try:
        proto = message.FromString(data)
    except (DecodeError, UnicodeDecodeError, ValueError):
        return None
    return proto if message.DESCRIPTOR.name == "HloProto" or _is_module(proto) else None


def _is_module(proto: Any) -> bool:
    """Reports whether a message has an entry computation. Bytes of an HloProto may also parse as an HloModuleProto."""
    return any(computation.id == proto.entry_computation_id for computation in proto.computations)
