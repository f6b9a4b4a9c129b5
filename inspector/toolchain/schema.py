"""`Schema`: protobuf message classes built from descriptors, in a separate pool.

The descriptors come from the installed jaxlib (`_jax/libraries/descriptors.py`), so fields of a new jaxlib are
available without a change here. Without jaxlib (a saved result on another machine), a small set that ships with inspector
is used. The separate pool prevents conflicts with the `xla.*` messages of TensorFlow or xprof in the same process.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from importlib import resources
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import EnumDescriptor
from google.protobuf.message import Message

from inspector._jax.libraries import descriptors
from inspector.errors import MissingPackageError, ModuleError
from inspector.support.varints import write_varint

FALLBACK_FILE = "descriptors.binpb"
"""Name of the file in this folder with the `FileDescriptorSet` for use without jaxlib."""

FALLBACK_ROOTS = ("xla/service/hlo.proto", "xla/pjrt/proto/compile_options.proto")
"""The proto files that the fallback contains, with their imports."""

READ_FIELDS: dict[str, dict[str, int]] = {
    "xla.HloProto": {"hlo_module": 1},
    "xla.BufferAssignmentProto": {"logical_buffers": 1, "buffer_allocations": 3, "heap_simulator_traces": 4},
    "xla.BufferAllocationProto": {
        "index": 1, "size": 2, "is_thread_local": 3, "is_entry_computation_parameter": 5, "maybe_live_out": 7,
        "color": 8, "assigned": 9, "is_constant": 12,
    },
    "xla.BufferAllocationProto.Assigned": {"logical_buffer_id": 1, "offset": 2, "size": 3},
    "xla.LogicalBufferProto": {"id": 1, "defined_at": 3},
    "xla.LogicalBufferProto.Location": {"instruction_name": 2, "shape_index": 3, "instruction_id": 4},
    "xla.HeapSimulatorTrace": {"events": 1},
    "xla.HeapSimulatorTrace.Event": {"kind": 1, "buffer_id": 2, "share_with_canonical_id": 5},
    "xla.HloScheduleProto": {"sequences": 1},
    "xla.HloScheduleProto.InstructionSequence": {"instruction_ids": 1},
    "xla.HloModuleProto": {
        "name": 1, "entry_computation_name": 2, "computations": 3, "host_program_shape": 4, "entry_computation_id": 6,
        "schedule": 7, "stack_frame_index": 17,
    },
    "xla.HloComputationProto": {
        "name": 1, "instructions": 2, "program_shape": 4, "id": 5, "root_id": 6, "is_fusion_computation": 7, "execution_thread": 8,
    },
    "xla.HloInstructionProto": {
        "name": 1, "opcode": 2, "shape": 3, "metadata": 7, "literal": 8, "parameter_number": 9,
        "fusion_kind": 11, "tuple_index": 13, "dimensions": 14, "channel_id": 26, "custom_call_target": 28, "id": 35,
        "operand_ids": 36, "control_predecessor_ids": 37, "called_computation_ids": 38, "sharding": 40, "backend_config": 43, "replica_groups": 49,
        "source_target_pairs": 52, "comparison_direction": 63, "frontend_attributes": 68, "use_global_device_ids": 71,
        "statistics_viz": 82, "original_value": 88,
        "collective_device_list": 87, "iota_collective_device_list": 92, "mesh_axes_replica_group_list": 93,
    },
    "xla.ProgramShapeProto": {"parameters": 1, "result": 2, "parameter_names": 3},
    "xla.LiteralProto": {"s32s": 4, "s64s": 5, "u32s": 6, "u64s": 7},
    "xla.OpMetadata": {"op_name": 2, "source_file": 3, "source_line": 4, "stack_frame_id": 15},
    "xla.StackFrameIndexProto": {"file_names": 1, "function_names": 2, "file_locations": 3, "stack_frames": 4},
    "xla.StackFrameIndexProto.FileLocation": {"file_name_id": 1, "function_name_id": 2, "line": 3},
    "xla.StackFrameIndexProto.StackFrame": {"file_location_id": 1, "parent_frame_id": 2},
    "xla.CollectiveDeviceListProto": {"replica_groups": 1},
    "xla.IotaReplicaGroupListProto": {
        "num_replica_groups": 1, "num_devices_per_group": 2, "iota_reshape_dims": 3, "iota_transpose_perm": 4,
    },
    "xla.MeshAxesReplicaGroupListProto": {"mesh": 1, "axes": 2},
    "xla.MeshProto": {"axes": 1, "device_ids": 2, "iota_transform": 3},
    "xla.MeshProto.IotaTransform": {"reshape_dims": 1, "transpose_perm": 2},
    "xla.MeshProto.MeshAxis": {"name": 1, "size": 2},
    "xla.AxisRefProto": {"mesh_axis_index": 1, "sub_axis_info": 2},
    "xla.AxisRefProto.SubAxis": {"pre_size": 1, "size": 2},
    "xla.ReplicaGroup": {"replica_ids": 1},
    "xla.SourceTarget": {"source": 1, "target": 2},
    "xla.ShapeProto": {
        "element_type": 2, "dimensions": 3, "tuple_shapes": 4, "layout": 5, "is_dynamic_dimension": 6,
    },
    "xla.LayoutProto": {
        "minor_to_major": 1, "tiles": 6, "element_size_in_bits": 7, "memory_space": 8,
        "tail_padding_alignment_in_elements": 16,
    },
    "xla.TileProto": {"dimensions": 1},
    "xla.OpSharding": {
        "type": 1, "tile_assignment_dimensions": 3, "tile_assignment_devices": 4, "tuple_shardings": 5,
        "replicate_on_last_tile_dim": 6, "last_tile_dims": 8, "iota_reshape_dims": 9, "iota_transpose_perm": 10,
    },
}  # fmt: skip
"""Numbers of the HLO fields that inspector reads, by message and field. A test checks them against the installed jaxlib."""


_ITEM = b"\x0a"  # tag of field 1, length-delimited


class Schema:
    """Message classes by full name. Each class and its dependencies are built at first use.

    Attributes:
      source: origin of the descriptors, for error messages.
    """

    def __init__(self, descriptor_set: bytes, source: str) -> None:
        """Reads descriptors.

        Args:
          descriptor_set: a serialized `FileDescriptorSet` that includes all imports of its files.
          source: its origin.

        Raises:
          ModuleError: the bytes are not a descriptor set.
        """
        self.source = source
        self._pool = descriptor_pool.DescriptorPool()
        self._messages: dict[str, type[Message]] = {}
        self._lists: dict[str, Any] = {}
        self._pooled: set[str] = set()
        try:
            files: Any = descriptor_pb2.FileDescriptorSet.FromString(descriptor_set).file
        except Exception as e:  # protobuf's backends raise TypeError or DecodeError
            raise self._unusable(e) from e
        self._files: dict[str, Any] = {file.name: file for file in files}
        self._defining = {
            f"{file.package}.{defined.name}": file.name
            for file in files
            for defined in (*file.message_type, *file.enum_type)
        }

    def message(self, full_name: str) -> type[Message]:
        """Returns a message class by name, such as `"xla.HloModuleProto"`.

        Raises:
          ModuleError: this schema has no such message, or is incomplete.
        """
        if full_name not in self._messages:
            self._define(full_name)
            try:
                descriptor = self._pool.FindMessageTypeByName(full_name)
            except KeyError as e:
                raise ModuleError(f"The protobuf schema of {self.source} has no message {full_name}.") from e
            self._messages[full_name] = message_factory.GetMessageClass(descriptor)
        return self._messages[full_name]

    def messages(self, full_name: str, data: Iterable[bytes]) -> Sequence[Message]:
        """Decodes messages of one type together.

        If they were decoded one by one, each would have a separate memory arena. Whenever ten thousand arenas have been
        freed, protobuf returns all free memory of the process to the system. In a process that has compiled, this takes
        most of a tenth of a second, and reallocation takes as long again.

        Args:
          full_name: the message type, such as `"xla.ShapeProto"`.
          data: the serialized messages.

        Raises:
          ModuleError: see `message`.
          DecodeError: a message cannot be decoded.
        """
        if full_name not in self._lists:
            self._lists[full_name] = self._list_of(self.message(full_name).DESCRIPTOR)
        written = b"".join([part for each in data for part in (_ITEM, write_varint(len(each)), each)])
        items: Sequence[Message] = self._lists[full_name].FromString(written).items
        return items

    def _list_of(self, kind: Any) -> Any:
        """Builds a message class with a list of messages of one type."""
        name = f"ListOf.{kind.full_name}"
        file = descriptor_pb2.FileDescriptorProto(name=name, package=name, syntax="proto3", dependency=[kind.file.name])
        items = file.message_type.add(name="List").field.add(name="items", number=1, label=3, type=11)
        items.type_name = f".{kind.full_name}"
        self._pool.Add(file)
        return message_factory.GetMessageClass(self._pool.FindMessageTypeByName(f"{name}.List"))

    def enum(self, full_name: str) -> EnumDescriptor:
        """Returns an enum by name, such as `"xla.PrimitiveType"`.

        Raises:
          ModuleError: this schema has no such enum, or is incomplete.
        """
        self._define(full_name)
        try:
            enum: EnumDescriptor = self._pool.FindEnumTypeByName(full_name)
        except KeyError as e:
            raise ModuleError(f"The protobuf schema of {self.source} has no enum {full_name}.") from e
        return enum

    def _define(self, full_name: str) -> None:
        """Adds the file that defines a name, or the message that contains it, to the pool."""
        while full_name and full_name not in self._defining:
            full_name = full_name.rpartition(".")[0]
        if full_name:
            try:
                self._put(self._defining[full_name])
            except Exception as e:  # protobuf's backends raise TypeError, our lookups KeyError
                raise self._unusable(e) from e

    def _put(self, file: str) -> None:
        if file in self._pooled:
            return
        for needed in self._files[file].dependency:
            self._put(needed)
        self._pool.Add(self._files[file])
        self._pooled.add(file)

    def _unusable(self, why: Exception) -> ModuleError:
        return ModuleError(f"The protobuf descriptors from {self.source} cannot be used: {why}")


def set_fields(message: Any) -> dict[str, Any]:
    """Returns the fields of a message that are set, by name.

    Reading an unset list would be as expensive as creating a message (see `Schema.messages`).
    """
    return {field.name: value for field, value in message.ListFields()}


@functools.lru_cache(maxsize=1)
def installed_schema() -> Schema:
    """Returns the installed jaxlib's schema, or the fallback if jaxlib is not installed."""
    try:
        return Schema(descriptors.installed_descriptors(), "the installed jaxlib")
    except MissingPackageError:
        return fallback_schema()


@functools.lru_cache(maxsize=1)
def fallback_schema() -> Schema:
    """Returns the schema that ships with inspector: HLO and CompileOptions of one jaxlib."""
    data = resources.files("inspector.toolchain").joinpath(FALLBACK_FILE).read_bytes()
    return Schema(data, "inspector's own copy")
