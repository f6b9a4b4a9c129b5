"""A module of which each instruction is its bytes: what protobuf reads of it, and the rest is read in columns."""

from __future__ import annotations

import functools
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from inspector.errors import ModuleError


def outline(data: bytes) -> Any:
    """A module in which each instruction is its bytes.

    Args:
      data: an `xla.HloModuleProto`, or an `xla.HloProto` that holds one.

    Raises:
      ModuleError: neither.
    """
    module = _outlined(data, "Module")
    if module is not None and _is_module(module):
        return module
    wrapper = _outlined(data, "Proto")
    if wrapper is not None and _is_module(wrapper.hlo_module):
        return wrapper.hlo_module
    raise ModuleError(
        f"Cannot read {len(data)} bytes as an HLO module: expected a serialized xla.HloModuleProto or"
        " xla.HloProto with an entry computation. Such bytes come from"
        " hlo_module.as_serialized_hlo_module_proto() or from a *.hlo.pb dump."
    )


def _outlined(data: bytes, message: str) -> Any | None:
    try:
        return _outline_type(message).FromString(data)
    except (DecodeError, UnicodeDecodeError, ValueError):
        return None


def _is_module(outline: Any) -> bool:
    """HloProto and HloModuleProto share field 1, so bytes of one may parse as the other."""
    return any(computation.id == outline.entry_computation_id for computation in outline.computations)


@functools.cache
def _outline_type(message: str) -> Any:
    field = descriptor_pb2.FieldDescriptorProto
    kinds = {"string": field.TYPE_STRING, "bytes": field.TYPE_BYTES, "int64": field.TYPE_INT64}
    file = descriptor_pb2.FileDescriptorProto(name="outline.proto", package="outline", syntax="proto3")
    for name, fields in _OUTLINE.items():
        described = file.message_type.add(name=name)
        for field_name, (number, kind, *repeated) in fields.items():
            added = described.field.add(name=field_name, number=number, label=3 if repeated else 1)
            added.type = kinds.get(kind, field.TYPE_MESSAGE)
            if kind not in kinds:
                added.type_name = f".outline.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"outline.{message}"))


# Numbers are those of xla.HloProto, xla.HloModuleProto and xla.HloComputationProto; the rest stays as it is.
_OUTLINE: dict[str, dict[str, tuple[Any, ...]]] = {
    "Computation": {
        "name": (1, "string"), "instructions": (2, "bytes", "repeated"), "id": (5, "int64"), "root_id": (6, "int64"),
    },
    "Module": {
        "name": (1, "string"), "computations": (3, "Computation", "repeated"), "entry_computation_id": (6, "int64"),
    },
    "Proto": {"hlo_module": (1, "Module")},
}  # fmt: skip
