"""Replica groups from an `xla.HloInstructionProto`, in every form that protos have had."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from inspector.errors import ModuleError
from inspector.hlo.devices.replica_groups import (
    MAX_IDS,
    AxisRef,
    Ids,
    Iota,
    IotaGroups,
    ListGroups,
    MeshGroups,
    ReplicaGroups,
    WrittenIds,
    check_count,
    id_array,
)
from inspector.hlo.reading.varint_arrays import varint_ends, varints_at
from inspector.support.varints import read_varint

# As a message of groups that hold ids is serialized: the tag of a group and its bytes, the tag of its ids and theirs.
_HEAD = 4
_TAG = 1 << 3 | 2  # field 1, bytes that say how many they are

_ID_BYTES = 3  # of the ids below `MAX_IDS`

_LENGTH = 2  # how such a field is written: the low bits of its tag
_DEVICE_IDS = 2 << 3 | _LENGTH  # of a mesh

# Of fewer bytes, and so integers, they are read sooner one by one.
_MANY_BYTES = 256


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
    if form == "collective_device_list":
        return _list_groups(proto.collective_device_list.replica_groups)
    return _list_groups(proto.replica_groups)


def _list_groups(groups: Sequence[Any]) -> ListGroups:
    """One by one."""
    check_count(len(groups))
    members = [group.replica_ids for group in groups]
    lengths = id_array(map(len, members), len(members))
    count = check_count(int(lengths.sum()))
    return ListGroups.from_arrays(id_array(itertools.chain.from_iterable(members), count), lengths)


def _mesh_ids(mesh: Any) -> Ids:
    """Those of a `xla.MeshProto`: of many, the integers that they are serialized to, as each costs more as an object."""
    count = len(mesh.device_ids)
    packed = _packed(mesh.SerializeToString(), _DEVICE_IDS) if count > _MANY_BYTES else b""
    ends = varint_ends(packed)
    return varints_at(packed, ends) if len(ends) == count else id_array(mesh.device_ids, count)


def _packed(message: bytes, tag: int) -> bytes:
    """The bytes of the first field with a tag, of a message whose fields all tell how many bytes they have; b"" else."""
    position = 0
    while position < len(message):
        found, position = read_varint(message, position)
        length, position = read_varint(message, position)
        if found & 7 != _LENGTH:
            break
        if found == tag:
            return message[position : position + length]
        position += length
    return b""


def alike_groups(data: bytes) -> ListGroups | None:
    """Many groups of the same length, from the bytes of a `xla.CollectiveDeviceListProto`; None for any others.

    A view of each group costs more than all of its ids: the bytes are integers only, which are read at once.

    Raises:
      ModuleError: there are too many ids.
    """
    if not _MANY_BYTES < len(data) <= MAX_IDS * (_HEAD + _ID_BYTES):
        return None
    try:
        return _alike_integers(data)
    except ModuleError:
        raise
    except ValueError:  # what is beside the groups is no integer
        return None


def _alike_integers(data: bytes) -> ListGroups | None:
    """The same. Raises ValueError where the bytes are no integers."""
    ends = varint_ends(data)
    length = int(varints_at(data, ends[1:2])[0])  # of the first group's bytes, which tell how many integers it has
    width = int(np.searchsorted(ends, ends[1] + length, "right"))
    count = len(ends) // width
    if width <= _HEAD or width * count != len(ends):
        return None
    check_count(count * (width - _HEAD))
    ends = ends.reshape(count, width)
    last = ends[:, -1]
    if not _have_short_heads(data, ends, last):
        expected = (_TAG, last - ends[:, 1], _TAG, last - ends[:, 3])
        if any((varints_at(data, ends[:, place]) != value).any() for place, value in enumerate(expected)):
            return None
    return ListGroups.from_arrays(varints_at(data, ends[:, _HEAD:]).reshape(-1), np.full(count, width - _HEAD))


def _have_short_heads(data: bytes, ends: Ids, last: Ids) -> bool:
    """Whether all groups begin as expected, with a byte an integer, as those of few members do."""
    first = ends[:, 0]
    if (ends[:, _HEAD - 1] - first != _HEAD - 1).any():
        return False
    heads = np.lib.stride_tricks.sliding_window_view(np.frombuffer(data, np.uint8), _HEAD)[first]
    expected = (_TAG, last - first - 1, _TAG, last - first - _HEAD + 1)
    return all((heads[:, place] == value).all() for place, value in enumerate(expected))


def _iota_groups(proto: Any) -> IotaGroups:
    ids = _iota(proto.iota_reshape_dims, proto.iota_transpose_perm)
    return IotaGroups(proto.num_replica_groups, proto.num_devices_per_group, ids)


def _iota(dims: Any, permutation: Any) -> Iota:
    return Iota(tuple(dims), tuple(permutation) or None)


def _mesh_groups(proto: Any) -> MeshGroups:
    mesh = proto.mesh
    names = tuple(axis.name for axis in mesh.axes)
    device_ids: WrittenIds | Iota | None = WrittenIds(_mesh_ids(mesh)) if mesh.device_ids else None
    if mesh.HasField("iota_transform"):
        device_ids = _iota(mesh.iota_transform.reshape_dims, mesh.iota_transform.transpose_perm)
    axes = []
    for axis in proto.axes:
        part = axis.sub_axis_info if axis.HasField("sub_axis_info") else None
        if not 0 <= axis.mesh_axis_index < len(names):
            raise ModuleError(
                f"Replica groups: the mesh has {len(names)} axes and none of number {axis.mesh_axis_index}."
            )
        name = names[axis.mesh_axis_index]
        axes.append(AxisRef(name, part.pre_size, part.size) if part else AxisRef(name))
    return MeshGroups(tuple((axis.name, axis.size) for axis in mesh.axes), tuple(axes), device_ids)
