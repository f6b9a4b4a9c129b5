"""Numbers of the fields of `xla.HloInstructionProto` that are read for all instructions at once."""

from __future__ import annotations

from inspector.toolchain.schema import READ_FIELDS

_FIELDS = READ_FIELDS["xla.HloInstructionProto"]

NAME, OPCODE, SHAPE, METADATA, PARAMETER_NUMBER, TUPLE_INDEX = (
    _FIELDS[name] for name in ("name", "opcode", "shape", "metadata", "parameter_number", "tuple_index")
)
CHANNEL_ID, ID, OPERAND_IDS, CONTROL_PREDECESSOR_IDS, CALLED_COMPUTATION_IDS = (
    _FIELDS[name] for name in ("channel_id", "id", "operand_ids", "control_predecessor_ids", "called_computation_ids")
)
SHARDING, BACKEND_CONFIG, FRONTEND_ATTRIBUTES, STATISTICS_VIZ, ORIGINAL_VALUE = (
    _FIELDS[name] for name in ("sharding", "backend_config", "frontend_attributes", "statistics_viz", "original_value")
)
DIMENSIONS = _FIELDS["dimensions"]
USE_GLOBAL_DEVICE_IDS, COLLECTIVE_DEVICE_LIST, *OTHER_DEVICE_LISTS = (
    _FIELDS[name]
    for name in (
        "use_global_device_ids", "collective_device_list", "iota_collective_device_list", "mesh_axes_replica_group_list",
    )
)  # fmt: skip
