"""Canonical forms of replica groups, source-target pairs and shardings. Different spellings of the same value are equal.

XLA writes the same replica groups as a list, as an iota or as axes of a mesh, and the same sharding as tiles or as named
axes. The form depends on XLA's version, on flags and on the original program. Comparisons of modules use the canonical
forms; a cache keyed by a module's text must not.

Not significant: the order of the groups, the order of the members of an all-reduce, the order of source-target pairs,
the names of mesh axes, and the order of devices that have the same part of an array.
"""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Collection, Hashable, Iterable
from typing import Any

import numpy as np

from inspector.errors import ModuleError
from inspector.hlo.devices.group_mode import GroupMode, id_count
from inspector.hlo.devices.replica_groups import (
    AxisRef,
    Ids,
    Iota,
    MeshGroups,
    ReplicaGroups,
    WrittenIds,
    check_count,
    id_array,
)
from inspector.hlo.module import Instruction, Module
from inspector.hlo.opcodes import COLLECTIVES
from inspector.hlo.reading.field_numbers import COLLECTIVE_DEVICE_LIST, OTHER_DEVICE_LISTS, SHARDING
from inspector.toolchain.schema import READ_FIELDS

_FIELDS = READ_FIELDS["xla.HloInstructionProto"]
_GROUP_FIELDS = (_FIELDS["replica_groups"], COLLECTIVE_DEVICE_LIST, *OTHER_DEVICE_LISTS)

SPELLED = (*_GROUP_FIELDS, _FIELDS["source_target_pairs"], SHARDING)
"""Fields of `xla.HloInstructionProto` that have several spellings."""

_UNORDERED = frozenset({"all-reduce", "all-reduce-start"})
_FIRST_IS_ROOT = frozenset({"collective-broadcast", "collective-broadcast-start"})

_LAST = np.iinfo(np.int64).max


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceCounts:
    """The number of replicas and partitions of a module, which `{}` in replica groups refers to.

    Attributes:
      replicas, partitions: the counts; None if the module does not state them.
    """

    replicas: int | None = None
    partitions: int | None = None

    @classmethod
    def of(cls, module: Module) -> DeviceCounts:
        """Returns the counts of a module, from its device assignment or else from its groups and shardings."""
        if module not in _known_counts:
            _known_counts[module] = cls._read(module)
        return _known_counts[module]

    @classmethod
    def _read(cls, module: Module) -> DeviceCounts:
        proto = module.proto
        if "device_assignment" in proto.DESCRIPTOR.fields_by_name and proto.HasField("device_assignment"):
            return cls(proto.device_assignment.replica_count or 1, proto.device_assignment.computation_count or 1)
        replicas, partitions = 0, 0
        for row in _first_rows(module):
            instruction = module.at(row)
            if instruction.proto.HasField("sharding"):
                partitions = max(partitions, _tile_count(instruction.proto.sharding))
            mode, named = _named_ids(instruction)
            if mode is GroupMode.CROSS_PARTITION:
                partitions = max(partitions, named)
            elif mode is not GroupMode.FLATTENED_ID:
                replicas = max(replicas, named)
        return cls(replicas or None, partitions or None)

    def completed(self, other: DeviceCounts) -> DeviceCounts:
        """Returns the counts, with unknown ones taken from another module."""
        return DeviceCounts(self.replicas or other.replicas, self.partitions or other.partitions)

    def ids(self, mode: GroupMode) -> int | None:
        """Returns the number of ids that groups of a mode can name; None if unknown."""
        needed = {
            GroupMode.CROSS_PARTITION: (self.partitions,),
            GroupMode.FLATTENED_ID: (self.replicas, self.partitions),
        }.get(mode, (self.replicas,))
        return id_count(mode, self.replicas or 1, self.partitions or 1) if all(needed) else None


_known_counts: weakref.WeakKeyDictionary[Module, DeviceCounts] = weakref.WeakKeyDictionary()


def kind_attributes(module: Module, without: Collection[int], counts: DeviceCounts | None = None) -> list[bytes]:
    """Returns `Module.kind_attributes` with the fields `SPELLED` in canonical form.

    Args:
      module: the module.
      without: numbers of fields to omit.
      counts: the device counts; None for the module's own.
    """
    attributes = module.kind_attributes((*without, *SPELLED))
    rows = _first_rows(module)
    if not rows:
        return attributes
    forms = CanonicalForms(DeviceCounts.of(module) if counts is None else counts)
    for row, kind in rows.items():
        attributes[kind] += b"\0" + repr(forms.of(module.at(row))).encode()
    return attributes


def spelled_rows(module: Module) -> list[int]:
    """Returns the rows of instructions that have groups, pairs or a sharding."""
    columns = module.columns
    codes = np.unique(np.concatenate([columns.contents.field(number).rows for number in SPELLED]))
    is_spelled = columns.opcode_is(is_grouped)  # `{}` may leave all fields unset
    if len(codes):
        is_spelled = is_spelled | np.isin(columns.codes, codes)
    rows: list[int] = np.flatnonzero(is_spelled).tolist()
    return rows


def _first_rows(module: Module) -> dict[int, int]:
    """Returns the kind numbers of instructions with groups, pairs or a sharding, by the first row of each kind."""
    rows, first = spelled_rows(module), module.alike.first
    kinds: list[int] = np.unique(module.alike.kinds[rows]).tolist() if rows else []
    return {int(first[kind]): kind for kind in kinds}


class CanonicalForms:
    """Canonical forms of instructions of one module. Equal groups are expanded once."""

    def __init__(self, counts: DeviceCounts) -> None:
        """Stores the counts. Forms are computed on demand."""
        self._counts = counts
        self._known: dict[Hashable, Hashable] = {}

    def of(self, instruction: Instruction) -> tuple[Hashable, Hashable, Hashable]:
        """Returns the forms of an instruction's groups, pairs and sharding."""
        proto = instruction.proto
        sharding = sharding_form(proto.sharding) if proto.HasField("sharding") else None
        pairs = ((pair.source, pair.target) for pair in proto.source_target_pairs)
        return self.groups(instruction), pairs_form(pairs), sharding

    def groups(self, instruction: Instruction) -> Hashable:
        """Returns the form of an instruction's replica groups; None if it has none."""
        columns, row = instruction.module.columns, instruction.row
        fields = [columns.coded(number).at(row) for number in (COLLECTIVE_DEVICE_LIST, *OTHER_DEVICE_LISTS)]
        if not any(fields):  # `{}`, or the list of an old proto
            fields = [bytes(group.SerializeToString()) for group in instruction.proto.replica_groups]
        if not any(fields) and not is_grouped(instruction.opcode):
            return None
        key = (instruction.opcode, instruction.channel_id is None, instruction.use_global_device_ids, *fields)
        if key not in self._known:
            self._known[key] = self._groups(instruction, fields)
        return self._known[key]

    def _groups(self, instruction: Instruction, fields: list[bytes]) -> Hashable:
        try:
            groups, count = instruction.replica_groups, self._counts.ids(instruction.group_mode)
            return groups_form(instruction.opcode, groups, count)
        except ModuleError:
            return ("as written", *fields)


def is_grouped(opcode: str) -> bool:
    """Reports whether instructions of an opcode have replica groups."""
    return opcode.removesuffix("-start") in _GROUPED


_GROUPED = frozenset(COLLECTIVES) - {"collective-permute"}


def groups_form(opcode: str, groups: ReplicaGroups, count: int | None) -> Hashable:
    """Returns the canonical form of replica groups.

    Args:
      opcode: opcode of the collective, which decides whether the order of members is significant.
      groups: the groups as written.
      count: the number of ids; None if unknown, in which case `{}` is not equal to any written groups.

    Raises:
      ModuleError: there are too many ids.
    """
    if count is None and _is_all(groups):
        return "all"
    ids = groups.expand(count)
    if opcode in _UNORDERED:
        ids = _sorted_members(ids)
    elif opcode in _FIRST_IS_ROOT and ids.shape[1]:
        ids = np.concatenate([ids[:, :1], _sorted_members(ids[:, 1:])], axis=1)
    return ids.shape, _in_order(ids).tobytes()


def _is_all(groups: ReplicaGroups) -> bool:
    try:
        groups.shape()
    except ModuleError:
        return True
    return False


def _sorted_members(ids: Ids) -> Ids:
    """Sorts the members of each group, with the padding of short groups last."""
    members: Ids = np.sort(np.where(ids < 0, _LAST, ids), axis=1)
    return np.where(members == _LAST, -1, members)


def _in_order(ids: Ids) -> Ids:
    """Sorts groups by their first members."""
    return ids[np.argsort(ids[:, 0], kind="stable")] if ids.size else ids


def pairs_form(pairs: Iterable[tuple[int, int]]) -> Hashable:
    """Returns the canonical form of source-target pairs."""
    return tuple(sorted(pairs))


def sharding_form(proto: Any) -> Hashable:
    """Returns the canonical form of an `xla.OpSharding`: the part of an array on each device."""
    kind = proto.DESCRIPTOR.fields_by_name["type"].enum_type.values_by_number[proto.type].name
    if kind == "TUPLE":
        return ("TUPLE", *map(sharding_form, proto.tuple_shardings))
    try:
        form = _one_form(proto, kind)
    except (ModuleError, ValueError):  # damaged: its tiles do not match its devices
        return "as written", bytes(proto.SerializeToString(deterministic=True))
    names = proto.DESCRIPTOR.fields_by_name
    if "is_shard_group" in names and proto.is_shard_group:
        return form, proto.shard_group_id, proto.shard_group_type
    return form


def _one_form(proto: Any, kind: str) -> Hashable:
    if "named_sharding" in proto.DESCRIPTOR.fields_by_name and proto.HasField("named_sharding"):
        return _named_form(proto.named_sharding)
    if kind == "MAXIMAL":
        return kind, tuple(proto.tile_assignment_devices)
    if kind != "OTHER":
        return (kind,)
    sizes = list(proto.tile_assignment_dimensions)
    values = proto.DESCRIPTOR.fields_by_name["type"].enum_type.values_by_number
    types = [values[number].name for number in proto.last_tile_dims]
    if proto.replicate_on_last_tile_dim:
        types = ["REPLICATED"]
    if proto.iota_reshape_dims:
        ids = Iota(tuple(proto.iota_reshape_dims), tuple(proto.iota_transpose_perm) or None).expand()
    else:
        devices = proto.tile_assignment_devices
        ids = id_array(devices, check_count(len(devices)))
    if ids.size == 1 and not types:
        return "MAXIMAL", tuple(ids.tolist())
    return _tiled_form(ids.reshape(sizes), types)


def _named_form(proto: Any) -> Hashable:
    sizes = [axis.size for axis in proto.mesh.axes]
    ids: WrittenIds | Iota | None = None
    if proto.mesh.device_ids:
        ids = WrittenIds.of(proto.mesh.device_ids)
    if proto.mesh.HasField("iota_transform"):
        iota = proto.mesh.iota_transform
        ids = Iota(tuple(iota.reshape_dims), tuple(iota.transpose_perm) or None)
    if not sizes and isinstance(ids, WrittenIds):
        return "MAXIMAL", tuple(ids.ids.tolist())
    split = [[_axis(axis) for axis in dimension.axes] for dimension in proto.dim_shardings]
    manual, unreduced, replicated = (
        sorted(map(_axis, axes), key=lambda axis: (int(axis.name), axis.pre_size or 0))
        for axes in (proto.manual_axes, proto.unreduced_axes, proto.replicated_axes)
    )
    mesh = tuple((str(number), size) for number, size in enumerate(sizes))
    grouped = [*split, manual, unreduced]
    groups = MeshGroups(mesh, tuple(axis for axes in grouped for axis in axes), ids)
    counts = [int(np.prod([axis.size or sizes[int(axis.name)] for axis in axes], dtype=np.int64)) for axes in grouped]
    members = groups.expand()
    form = _tiled_form(members.T.reshape(*counts, len(members)), ["MANUAL", "UNREDUCED", "REPLICATED"])
    is_open = tuple(not dimension.is_closed for dimension in proto.dim_shardings)
    if not any(is_open):
        return form
    return form, is_open, tuple((axis.name, axis.pre_size, axis.size) for axis in replicated)  # may be split further


def _axis(proto: Any) -> AxisRef:
    """Returns a mesh axis, named by its number."""
    part = proto.sub_axis_info if proto.HasField("sub_axis_info") else None
    return AxisRef(str(proto.mesh_axis_index), *((part.pre_size, part.size) if part else ()))


def _tiled_form(ids: Ids, types: list[str]) -> Hashable:
    """Returns the form of a tiled assignment of devices.

    Args:
      ids: device ids, with one dimension for each dimension of the array, then one for each of `types`.
      types: `REPLICATED`, `MANUAL` or `UNREDUCED` for each of the last dimensions.
    """
    rank = ids.ndim - len(types)
    data = ids.shape[:rank]
    names = sorted({*types} - {"REPLICATED"})
    dimensions = {
        name: [rank + place for place, each in enumerate(types) if each == name] for name in (*names, "REPLICATED")
    }
    turned = ids.transpose([*range(rank), *(place for places in dimensions.values() for place in places)])
    counts = {name: int(np.prod([ids.shape[p] for p in places], dtype=np.int64)) for name, places in dimensions.items()}
    parts = np.sort(turned.reshape(*data, *counts.values()), axis=-1)
    several = tuple((name, count) for name, count in counts.items() if count > 1)
    while data and data[-1] == 1:
        data = data[:-1]
    if not any(size > 1 for size in data) and len(several) <= 1:
        return (several[0][0] if several else "REPLICATED",)
    return data, several, parts.astype(np.int64).tobytes()


def _tile_count(proto: Any) -> int:
    """Returns the number of devices in a tiled or mesh sharding; 0 for other shardings."""
    if proto.tuple_shardings:
        return max(map(_tile_count, proto.tuple_shardings))
    if "named_sharding" in proto.DESCRIPTOR.fields_by_name and proto.HasField("named_sharding"):
        sizes = [axis.size for axis in proto.named_sharding.mesh.axes]
    else:
        sizes = list(proto.tile_assignment_dimensions)
    return int(np.prod(sizes, dtype=np.int64)) if sizes else 0


def _named_ids(instruction: Instruction) -> tuple[GroupMode, int]:
    """Returns the mode of an instruction's groups and the number of ids that they name, which may be 0."""
    try:
        if is_grouped(instruction.opcode):
            return instruction.group_mode, instruction.replica_groups.largest_id() + 1
    except ModuleError:  # `{}`
        pass
    return GroupMode.CROSS_REPLICA, 0
