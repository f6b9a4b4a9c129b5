"""Who takes part in a collective, and which axes that means: decoded once for groups that come again.

Groups of a million devices are named without being written out where their form allows it; their ids become Python's
tuples only when somebody asks for them, and lists in a table only up to a limit.
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

# Members of a reduction may come in any order; for the others it decides which block is whose.
_UNORDERED = frozenset({"all-reduce", "all-reduce-start"})

# Ids of all groups of a program that differ: to look at each takes some seconds.
_MOST_IDS = 1 << 28

# Ids that a table has in lists: of one collective, and of all whose groups differ. Each is some tens of bytes.
_MOST_LISTED = 1 << 18
_MOST_LISTED_TOGETHER = 1 << 20


@dataclasses.dataclass(frozen=True)
class Participation(OfFields):
    """Who takes part in a collective of a program.

    Attributes:
      written: the groups as the module has them, or the pairs as groups of two.
      is_pairs: whether it is pairs.
      mode: what the ids are.
      num_replicas: of the program.
      num_partitions: of the program.
      axes: as of `Collective`, but for axes of size 1.
    """

    written: ReplicaGroups
    is_pairs: bool
    mode: GroupMode
    num_replicas: int
    num_partitions: int
    axes: Axes | Unavailable

    @functools.cached_property
    def groups(self) -> Groups:
        """The ids as written, `{}` (all) written out; (source, target) pairs."""
        return _tuples(self.first_groups(None))

    @functools.cached_property
    def participants(self) -> Groups | Unavailable:
        """The same as devices; Unavailable when they name ids that the program does not have."""
        devices = self.devices
        if isinstance(devices, Unavailable):
            return devices
        # One tuple for both where ids are devices.
        return self.groups if np.array_equal(self.first_groups(None), devices) else _tuples(devices)

    @property
    def shape(self) -> tuple[int, int]:
        """How many groups there are as written, and the members of the largest."""
        if self._is_none:
            return 0, 2
        return self.written.shape(_written_ids(self.mode, self.num_replicas, self.num_partitions))

    @property
    def group_sizes(self) -> tuple[int, int]:
        """How many ids the smallest group has as written, and the largest."""
        if isinstance(self.written, ListGroups) and len(self.written.lengths):
            return int(self.written.lengths.min()), int(self.written.lengths.max())
        return self.shape[1], self.shape[1]

    @property
    def devices(self) -> Ids | Unavailable:
        """The devices of each group `[groups, members]`, padded with -1; Unavailable as `participants`."""
        if self._is_none:
            return np.empty((0, 2), np.int64)
        try:
            return participants(self.written, self.mode, self.num_replicas, self.num_partitions)
        except ModuleError as e:
            return Unavailable(str(e))

    @functools.cached_property
    def most_devices(self) -> int | Unavailable:
        """How many devices the largest group has; of pairs 2 where some device sends to another, else 1."""
        if self.is_pairs:
            devices = self.devices
            return devices if isinstance(devices, Unavailable) else 1 + bool((devices[:, 0] != devices[:, 1]).any())
        try:
            return participants_shape(self.written, self.mode, self.num_replicas, self.num_partitions)[1]
        except ModuleError as e:
            return Unavailable(str(e))

    def leaves(self, linked: int) -> bool:
        """Whether a group has devices that no link of a kind joins which joins so many in a row; 0 for all."""
        if linked not in self._leaving:
            devices = self.devices if linked else Unavailable("all are linked")
            self._leaving[linked] = not isinstance(devices, Unavailable) and _differ(devices // linked, devices >= 0)
        return self._leaving[linked]

    @functools.cached_property
    def _leaving(self) -> dict[int, bool]:
        return {}

    def first_groups(self, most: int | None) -> Ids:
        """The first groups as an array, padded with -1: as many as are asked for, all of them for None."""
        if self._is_none:
            return np.empty((0, 2), np.int64)
        return self.written.expand(_written_ids(self.mode, self.num_replicas, self.num_partitions))[:most]

    @property
    def _is_none(self) -> bool:
        # No pairs are none, where groups {} are all.
        return self.is_pairs and self.written == ListGroups(())


class Participations:
    """Decodes the groups of one program's collectives.

    Large modules repeat a few groups thousands of times, and those of many devices are large.
    """

    def __init__(self, mesh: Mesh | None, num_replicas: int, num_partitions: int) -> None:
        self._program = (mesh, num_replicas, num_partitions)
        self._known: dict[tuple[object, ...], Participation] = {}
        self._ids = 0

    def of(self, operation: Instruction) -> Participation:
        """Who takes part in `operation`, a collective.

        Raises:
          ModuleError: groups that contradict themselves, or have more ids than are written out.
        """
        mode = operation.group_mode
        if operation.opcode.removesuffix("-start") in _OF_PAIRS:
            pairs = ListGroups(operation.source_target_pairs)
            return self._kept((pairs, mode, None), lambda: self._pairs(pairs, mode))
        form, ordered = operation.replica_groups, operation.opcode not in _UNORDERED
        return self._kept((form, mode, ordered), lambda: self.groups(form, mode, ordered))

    def _kept(self, key: tuple[object, ...], decode: Callable[[], Participation]) -> Participation:
        if key not in self._known:
            self._known[key] = decode()
        return self._known[key]

    def _pairs(self, pairs: ListGroups, mode: GroupMode) -> Participation:
        self._count(len(pairs.ids))
        who = Participation(pairs, True, mode, *self._program[1:], axes=())
        devices = who.devices
        found = devices if isinstance(devices, Unavailable) else axes_of_pairs(devices, *self._program)
        return dataclasses.replace(who, axes=found)

    def groups(self, form: ReplicaGroups, mode: GroupMode, ordered: bool) -> Participation:
        """Who takes part in a collective with these groups.

        Args:
          form: as written.
          mode: what their ids are.
          ordered: whether the order of members matters to the collective.

        Raises:
          ModuleError: they have more ids than are written out, or all that were asked for have too many.
        """
        self._count(check_count(math.prod(form.shape(_written_ids(mode, *self._program[1:])))))
        return Participation(form, False, mode, *self._program[1:], axes=self._axes(form, mode, ordered))

    def _count(self, ids: int) -> None:
        self._ids += ids
        if self._ids > _MOST_IDS:
            raise ModuleError(
                f"The collectives have more than {_MOST_IDS:,} ids in groups that differ from each other, which are too"
                " many to look at."
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
    """The groups of collectives as a table's lists, in limits; those whose groups are the same share theirs."""
    known: dict[int, list[list[int]] | Unavailable] = {}  # by identity: a hash takes all ids
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
    """How many ids `{}` stands for where it is written out."""
    return num_partitions if mode is GroupMode.CROSS_PARTITION else num_replicas


def _differ(values: Ids, counted: npt.NDArray[np.bool_]) -> bool:
    """Whether those that count in a row are not all the same."""
    most = np.max(values, axis=1, where=counted, initial=-1)
    least = np.min(values, axis=1, where=counted, initial=np.iinfo(np.int64).max)
    return bool((most > least).any())


def _tuples(ids: Ids) -> Groups:
    """Groups without padding."""
    if not (ids < 0).any():
        return tuple(map(tuple, ids.tolist()))
    return tuple(tuple(member for member in group if member >= 0) for group in ids.tolist())
