"""Reads replica groups from an `xla.HloInstructionProto`, in every form of any proto version."""

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

# Integers before the ids of a serialized group: the group's tag and byte length, the ids' tag and byte length.
_HEAD = 4
_TAG = 1 << 3 | 2  # field 1, length-delimited

_ID_BYTES = 3  # of an id below `MAX_IDS`

_LENGTH = 2  # wire type of length-delimited fields: the low bits of the tag
_DEVICE_IDS = 2 << 3 | _LENGTH  # tag of a mesh's device ids

# Shorter lists are read faster one by one.
_MANY_BYTES = 256


def from_instruction_proto(proto: Any) -> ReplicaGroups:
    """Returns the instruction's groups; `ListGroups(())`, which means all ids, if it has none.

    Args:
      proto: an `xla.HloInstructionProto` of the installed or fallback schema.

    Raises:
      ModuleError: the groups do not match their mesh, or have too many ids.
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
    """Reads groups one by one."""
    check_count(len(groups))
    members = [group.replica_ids for group in groups]
    lengths = id_array(map(len, members), len(members))
    count = check_count(int(lengths.sum()))
    return ListGroups.from_arrays(id_array(itertools.chain.from_iterable(members), count), lengths)


def _mesh_ids(mesh: Any) -> Ids:
    """Returns the device ids of an `xla.MeshProto`. Many ids are parsed from bytes, which is faster than reading objects."""
    count = len(mesh.device_ids)
    packed = _packed(mesh.SerializeToString(), _DEVICE_IDS) if count > _MANY_BYTES else b""
    ends = varint_ends(packed)
    return varints_at(packed, ends) if len(ends) == count else id_array(mesh.device_ids, count)


def _packed(message: bytes, tag: int) -> bytes:
    """Returns the bytes of the first field with a tag in a message of length-delimited fields; b"" if there is none."""
    position = 0
    while position < len(message):
        read_tag, position = read_varint(message, position)
        length, position = read_varint(message, position)
        if read_tag & 7 != _LENGTH:
            break
        if read_tag == tag:
            return message[position : position + length]
        position += length
    return b""


def alike_groups(data: bytes) -> ListGroups | None:
    """Reads many groups of equal length from the bytes of an `xla.CollectiveDeviceListProto`; None for other lists.

    Creating an object per group is slower than reading all ids. The bytes consist of integers only, which are read at once.

    Raises:
      ModuleError: there are too many ids.
    """
    if not _MANY_BYTES < len(data) <= MAX_IDS * (_HEAD + _ID_BYTES):
        return None
    try:
        return _alike_integers(data)
    except ModuleError:
        raise
    except ValueError:  # the bytes contain other data than integers
        return None


def _alike_integers(data: bytes) -> ListGroups | None:
    """Implements `alike_groups`. Raises ValueError if the bytes contain other data than integers."""
    ends = varint_ends(data)
    length = int(
        varints_at(data, ends[1:2])[0]
    )  # byte length of the first group, which determines its number of integers
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
    """Reports whether all groups begin as expected with one byte per integer, as groups of few members do."""
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
            raise ModuleError(f"Replica groups: the mesh has {len(names)} axes, but no axis {axis.mesh_axis_index}.")
        name = names[axis.mesh_axis_index]
        axes.append(AxisRef(name, part.pre_size, part.size) if part else AxisRef(name))
    return MeshGroups(tuple((axis.name, axis.size) for axis in mesh.axes), tuple(axes), device_ids)
