"""Who takes part in a collective, and which axes that means: decoded once for groups that come again."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from inspector.analysis.axes import Axes, axes_of_groups, axes_of_pairs
from inspector.errors import ModuleError, Unavailable
from inspector.hlo.group_mode import GroupMode, participants
from inspector.hlo.mesh import Mesh
from inspector.hlo.module import Instruction
from inspector.hlo.replica_groups import MAX_IDS, Ids, ListGroups, ReplicaGroups

Groups: TypeAlias = tuple[tuple[int, ...], ...]

_OF_PAIRS = frozenset({"collective-permute", "send"})

# Members of a reduction may come in any order; for the others it decides which block is whose.
_UNORDERED = frozenset({"all-reduce", "all-reduce-start"})

# Of all groups of a program; each is some tens of bytes.
_MOST_WRITTEN = 4 * MAX_IDS


@dataclasses.dataclass(frozen=True, slots=True)
class Participation:
    """Groups, decoded. The attributes are those of `Collective`."""

    groups: Groups
    form: ReplicaGroups | None
    mode: GroupMode
    participants: Groups | Unavailable
    axes: Axes | Unavailable


class Participations:
    """Decodes the groups of one program's collectives.

    Large modules repeat a few groups thousands of times, and those of many devices are large.
    """

    def __init__(self, mesh: Mesh | None, num_replicas: int, num_partitions: int) -> None:
        self._program = (mesh, num_replicas, num_partitions)
        self._known: dict[tuple[object, ...], Participation] = {}
        self._written = 0

    def of(self, operation: Instruction) -> Participation:
        """Who takes part in `operation`, a collective.

        Raises:
          ModuleError: groups that contradict themselves, or more of them than are written out.
        """
        mode = operation.group_mode
        if operation.opcode.removesuffix("-start") in _OF_PAIRS:
            pairs = operation.source_target_pairs
            return self._kept((pairs, mode), lambda: self._pairs(pairs, mode))
        form, ordered = operation.replica_groups, operation.opcode not in _UNORDERED
        return self._kept((form, mode, ordered), lambda: self._groups(form, mode, ordered))

    def _kept(self, key: tuple[object, ...], decode: Callable[[], Participation]) -> Participation:
        if key not in self._known:
            self._known[key] = decode()
        return self._known[key]

    def _pairs(self, pairs: tuple[tuple[int, int], ...], mode: GroupMode) -> Participation:
        # No pairs are none, where groups {} would be all.
        devices = self._devices(ListGroups(pairs), mode) if pairs else np.empty((0, 2), np.int64)
        if isinstance(devices, Unavailable):
            return Participation(pairs, None, mode, devices, devices)
        return Participation(pairs, None, mode, self._tuples(devices), axes_of_pairs(devices, *self._program))

    def _groups(self, form: ReplicaGroups, mode: GroupMode, ordered: bool) -> Participation:
        _, num_replicas, num_partitions = self._program
        ids = form.expand(num_partitions if mode is GroupMode.CROSS_PARTITION else num_replicas)
        devices = self._devices(form, mode)
        if isinstance(devices, Unavailable):
            return Participation(self._tuples(ids), form, mode, devices, devices)
        axes, groups = axes_of_groups(devices, form, *self._program, ordered=ordered), self._tuples(ids)
        # One tuple for both where ids are devices.
        taking_part = groups if np.array_equal(ids, devices) else self._tuples(devices)
        return Participation(groups, form, mode, taking_part, axes)

    def _devices(self, form: ReplicaGroups, mode: GroupMode) -> Ids | Unavailable:
        try:
            return participants(form, mode, *self._program[1:])
        except ModuleError as e:
            return Unavailable(str(e))

    def _tuples(self, ids: Ids) -> Groups:
        self._written += ids.size + len(ids)
        if self._written > _MOST_WRITTEN:
            raise ModuleError(
                f"The collectives have more than {_MOST_WRITTEN:,} ids in groups that differ from each other, which are"
                " not written out."
            )
        return _tuples(ids)


def _tuples(ids: Ids) -> Groups:
    """Groups without padding."""
    if not (ids < 0).any():
        return tuple(map(tuple, ids.tolist()))
    return tuple(tuple(member for member in group if member >= 0) for group in ids.tolist())
