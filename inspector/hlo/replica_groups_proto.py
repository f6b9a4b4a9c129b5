"""Replica groups from an `xla.HloInstructionProto`, in every form that protos have had."""

from __future__ import annotations

from typing import Any

from inspector.hlo.replica_groups import AxisRef, Iota, IotaGroups, ListGroups, MeshGroups, ReplicaGroups, check_count


def from_instruction_proto(proto: Any) -> ReplicaGroups:
    """The instruction's groups; `ListGroups(())`, which means all, when it says nothing.

    Args:
      proto: an `xla.HloInstructionProto` of an installed or fallback schema.

    Raises:
      ModuleError: the groups do not fit their mesh, or have too many ids.
    """
    form = proto.WhichOneof("replica_group_list")
    if form == "iota_collective_device_list":
        return _iota_groups(proto.iota_collective_device_list)
    if form == "mesh_axes_replica_group_list":
        return _mesh_groups(proto.mesh_axes_replica_group_list)
    groups = proto.collective_device_list.replica_groups if form else proto.replica_groups
    check_count(len(groups))
    check_count(sum(len(group.replica_ids) for group in groups))
    return ListGroups(tuple(tuple(group.replica_ids) for group in groups))


def _iota_groups(proto: Any) -> IotaGroups:
    ids = _iota(proto.iota_reshape_dims, proto.iota_transpose_perm)
    return IotaGroups(proto.num_replica_groups, proto.num_devices_per_group, ids)


def _iota(dims: Any, permutation: Any) -> Iota:
    return Iota(tuple(dims), tuple(permutation) or None)


def _mesh_groups(proto: Any) -> MeshGroups:
    mesh = proto.mesh
    names = tuple(axis.name for axis in mesh.axes)
    device_ids: tuple[int, ...] | Iota | None = tuple(mesh.device_ids) or None
    if mesh.HasField("iota_transform"):
        device_ids = _iota(mesh.iota_transform.reshape_dims, mesh.iota_transform.transpose_perm)
    axes = []
    for axis in proto.axes:
        part = axis.sub_axis_info if axis.HasField("sub_axis_info") else None
        name = names[axis.mesh_axis_index]
        axes.append(AxisRef(name, part.pre_size, part.size) if part else AxisRef(name))
    return MeshGroups(tuple((axis.name, axis.size) for axis in mesh.axes), tuple(axes), device_ids)
