"""The devices that take part in a collective, and the mesh axes of their groups. Repeated groups are decoded once.

Where the form of the groups allows it, even groups of a million devices are matched with axes without expanding them.
Ids become Python tuples only on access, and lists in a table only up to a limit.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from inspector.analysis.collectives.axes import Axes, axes_of_form, axes_of_groups, axes_of_pairs
from inspector.errors import ModuleError, Unavailable
from inspector.hlo.devices.group_mode import GroupMode, participants, participants_shape
from inspector.hlo.devices.mesh import Mesh
from inspector.hlo.devices.replica_groups import Ids, ListGroups, ReplicaGroups, check_count
from inspector.hlo.module import Instruction
from inspector.support.field_equality import OfFields

Groups: TypeAlias = tuple[tuple[int, ...], ...]

_OF_PAIRS = frozenset({"collective-permute", "send"})

# The order of members does not matter to a reduction. For all others it decides which member has which block.
_UNORDERED = frozenset({"all-reduce", "all-reduce-start"})

# Limit on the ids in all distinct groups of a program: reading them takes some seconds.
_MOST_IDS = 1 << 28

# Limits on the ids in a table's lists: of one collective, and of all distinct groups. An id takes some tens of bytes.
_MOST_LISTED = 1 << 18
_MOST_LISTED_TOGETHER = 1 << 20


@dataclasses.dataclass(frozen=True)
class Participation(OfFields):
    """The participants of a collective.

    Attributes:
      written: the groups as the module has them, or source-target pairs as groups of two.
      is_pairs: whether `written` holds source-target pairs.
      mode: meaning of the ids.
      num_replicas: number of replicas of the program.
      num_partitions: number of partitions of the program.
      axes: as for `Collective`, without axes of size 1.
    """

    written: ReplicaGroups
    is_pairs: bool
    mode: GroupMode
    num_replicas: int
    num_partitions: int
    axes: Axes | Unavailable

    @functools.cached_property
    def groups(self) -> Groups:
        """The ids as the module has them, with `{}` (all) expanded; or (source, target) pairs."""
        return _tuples(self.first_groups(None))

    @functools.cached_property
    def participants(self) -> Groups | Unavailable:
        """The groups as device numbers; Unavailable if they contain ids that the program does not have."""
        devices = self.devices
        if isinstance(devices, Unavailable):
            return devices
        # If the ids are device numbers, both properties share one tuple.
        return self.groups if np.array_equal(self.first_groups(None), devices) else _tuples(devices)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of groups in `written`, and number of members of the largest."""
        if self._is_none:
            return 0, 2
        return self.written.shape(_written_ids(self.mode, self.num_replicas, self.num_partitions))

    @property
    def group_sizes(self) -> tuple[int, int]:
        """Number of ids in the smallest and in the largest group of `written`."""
        if isinstance(self.written, ListGroups) and len(self.written.lengths):
            return int(self.written.lengths.min()), int(self.written.lengths.max())
        return self.shape[1], self.shape[1]

    @property
    def devices(self) -> Ids | Unavailable:
        """Device numbers `[groups, members]`, padded with -1; Unavailable as for `participants`."""
        if self._is_none:
            return np.empty((0, 2), np.int64)
        try:
            return participants(self.written, self.mode, self.num_replicas, self.num_partitions)
        except ModuleError as e:
            return Unavailable(str(e))

    @functools.cached_property
    def most_devices(self) -> int | Unavailable:
        """Number of devices in the largest group; for pairs, 2 if some device sends to another and 1 otherwise."""
        if self.is_pairs:
            devices = self.devices
            return devices if isinstance(devices, Unavailable) else 1 + bool((devices[:, 0] != devices[:, 1]).any())
        try:
            return participants_shape(self.written, self.mode, self.num_replicas, self.num_partitions)[1]
        except ModuleError as e:
            return Unavailable(str(e))

    def leaves(self, linked: int) -> bool:
        """Reports whether a group includes devices that are not linked with each other.

        Args:
          linked: number of consecutive devices that links join, such as those of one host; 0 if links join all.
        """
        if linked not in self._leaving:
            devices = self.devices if linked else Unavailable("all are linked")
            self._leaving[linked] = not isinstance(devices, Unavailable) and _differ(devices // linked, devices >= 0)
        return self._leaving[linked]

    @functools.cached_property
    def _leaving(self) -> dict[int, bool]:
        return {}

    def first_groups(self, most: int | None) -> Ids:
        """Returns up to `most` groups as an array, padded with -1; all groups for None."""
        if self._is_none:
            return np.empty((0, 2), np.int64)
        return self.written.expand(_written_ids(self.mode, self.num_replicas, self.num_partitions))[:most]

    @property
    def _is_none(self) -> bool:
        # An empty list of pairs means no devices. An empty list of groups means all devices.
        return self.is_pairs and self.written == ListGroups(())


class Participations:
    """Decodes the groups of one program's collectives, and caches the results.

    Large modules repeat a few groups thousands of times, and groups of many devices are large.
    """

    def __init__(self, mesh: Mesh | None, num_replicas: int, num_partitions: int) -> None:
        self._program = (mesh, num_replicas, num_partitions)
        self._known: dict[tuple[object, ...], Participation] = {}
        self._ids = 0

    def of(self, operation: Instruction) -> Participation:
        """Returns the participants of a collective.

        Raises:
          ModuleError: the groups contradict themselves, or have too many ids to expand.
        """
        mode = operation.group_mode
        if operation.opcode.removesuffix("-start") in _OF_PAIRS:
            pairs = ListGroups(operation.source_target_pairs)
            return self._cached((pairs, mode, None), lambda: self._pairs(pairs, mode))
        form, ordered = operation.replica_groups, operation.opcode not in _UNORDERED
        return self._cached((form, mode, ordered), lambda: self.groups(form, mode, ordered))

    def _cached(self, key: tuple[object, ...], decode: Callable[[], Participation]) -> Participation:
        if key not in self._known:
            self._known[key] = decode()
        return self._known[key]

    def _pairs(self, pairs: ListGroups, mode: GroupMode) -> Participation:
        self._count(len(pairs.ids))
        who = Participation(pairs, True, mode, *self._program[1:], axes=())
        devices = who.devices
        axes = devices if isinstance(devices, Unavailable) else axes_of_pairs(devices, *self._program)
        return dataclasses.replace(who, axes=axes)

    def groups(self, form: ReplicaGroups, mode: GroupMode, ordered: bool) -> Participation:
        """Returns the participants of a collective with these groups.

        Args:
          form: the groups as the module has them.
          mode: meaning of the ids.
          ordered: whether the order of members matters to the collective.

        Raises:
          ModuleError: these groups have too many ids to expand, or all groups of the program together have too many.
        """
        self._count(check_count(math.prod(form.shape(_written_ids(mode, *self._program[1:])))))
        return Participation(form, False, mode, *self._program[1:], axes=self._axes(form, mode, ordered))

    def _count(self, ids: int) -> None:
        self._ids += ids
        if self._ids > _MOST_IDS:
            raise ModuleError(
                f"The collectives have more than {_MOST_IDS:,} ids in distinct groups, which are too many to analyze."
            )

    def _axes(self, form: ReplicaGroups, mode: GroupMode, ordered: bool) -> Axes | Unavailable:
        try:
            shape = participants_shape(form, mode, *self._program[1:])
        except ModuleError as e:
            return Unavailable(str(e))
        self._count(math.prod(shape))
        axes = axes_of_form(form, mode, *self._program, ordered=ordered)
        if axes is not None:
            return axes
        devices = participants(form, mode, *self._program[1:])
        return axes_of_groups(devices, form, *self._program, ordered=ordered)


def listed(all_of_them: Iterable[Participation]) -> list[list[list[int]] | Unavailable]:
    """Returns the groups of collectives as lists for a table, within limits. Collectives with the same groups share a list."""
    known: dict[int, list[list[int]] | Unavailable] = {}  # by identity: hashing would read all ids
    left = _MOST_LISTED_TOGETHER
    cells = []
    for who in all_of_them:
        if id(who) not in known:
            group_count, longest = who.shape
            count = group_count * longest
            if count > min(_MOST_LISTED, left):
                known[id(who)] = Unavailable(
                    f"{group_count:,} groups of up to {longest:,} ids are too many for a table: Collective.groups has them"
                )
            else:
                left -= count
                known[id(who)] = [list(group) for group in who.groups]
        cells.append(known[id(who)])
    return cells


def _written_ids(mode: GroupMode, num_replicas: int, num_partitions: int) -> int:
    """Returns the number of ids that `{}` (all) stands for."""
    return num_partitions if mode is GroupMode.CROSS_PARTITION else num_replicas


def _differ(values: Ids, counted: npt.NDArray[np.bool_]) -> bool:
    """Reports whether any row has different values among those marked in `counted`."""
    most = np.max(values, axis=1, where=counted, initial=-1)
    least = np.min(values, axis=1, where=counted, initial=np.iinfo(np.int64).max)
    return bool((most > least).any())


def _tuples(ids: Ids) -> Groups:
    """Returns groups as tuples without padding."""
    if not (ids < 0).any():
        return tuple(map(tuple, ids.tolist()))
    return tuple(tuple(member for member in group if member >= 0) for group in ids.tolist())
