"""Replica groups: which ids take part together in a collective, in every form that XLA writes.

    groups   := list | iota | mesh
    list     := '{' [ '{' int,.. '}' , .. ] '}'                      {} means all
    iota     := '[' G ',' S ']<=[' dims ']' [ 'T(' perm ')' ]
    mesh     := "mesh[" 'name'=int,.. "]" [", device_ids=(" ids ")"] " {" axisref,.. "}"
              | "single_device[device_id=" int "] {}"
    ids      := int,.. | '[' dims ']' [ 'T(' perm ')' ]
    axisref  := 'name' [ ':(' pre ')' size ]

The forms are `ListGroups`, `IotaGroups` and `MeshGroups`; all expand to the same numbers and print
back. They are made from text here and from protos in `hlo/replica_groups_proto.py`; StableHLO's forms
are read in `hlo/stablehlo_groups.py`. What the ids *are* (replicas, partitions, devices) depends on
the instruction: see `hlo/group_mode.py`.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from inspector.errors import ModuleError
from inspector.hlo.cursor import Cursor

Ids: TypeAlias = npt.NDArray[np.int64]

MAX_IDS = 1 << 18
"""Groups with more ids are not written out: no machine has as many devices, and a module may claim any number."""


def check_count(count: int) -> int:
    """How many ids there are, where they can be written out.

    Raises:
      ModuleError: more than `MAX_IDS`.
    """
    if count > MAX_IDS:
        raise ModuleError(f"Groups of {count:,} ids are not written out: expected at most {MAX_IDS:,}.")
    return count


class _Form:
    """What the three forms share."""

    __slots__ = ()

    def expand(self, id_count: int | None = None) -> Ids:
        raise NotImplementedError


@dataclasses.dataclass(frozen=True, slots=True)
class ListGroups(_Form):
    """Groups written out. `groups=()` is XLA's `{}`: one group of all ids."""

    groups: tuple[tuple[int, ...], ...]

    def expand(self, id_count: int | None = None) -> Ids:
        """The groups as an array `[groups, members]`; short groups are padded with -1.

        Args:
          id_count: how many ids there are; needed for `{}` only.

        Raises:
          ModuleError: `{}` without `id_count`, or too many ids.
        """
        if not self.groups:
            if id_count is None:
                raise ModuleError("Replica groups {} mean all ids: say how many there are (id_count).")
            return np.arange(check_count(id_count), dtype=np.int64)[None]
        longest = max(map(len, self.groups))
        check_count(len(self.groups) * longest)
        padded = (group + (-1,) * (longest - len(group)) for group in self.groups)
        return np.array(list(padded), dtype=np.int64).reshape(len(self.groups), longest)

    def __str__(self) -> str:
        return "{" + ",".join("{" + _commas(group) + "}" for group in self.groups) + "}"


@dataclasses.dataclass(frozen=True, slots=True)
class Iota:
    """Ids 0, 1, 2, ... in row-major order of `dims`, transposed by `permutation`, flattened.

    Without a permutation, or with one that moves nothing, `dims` become one dimension: XLA reads and
    writes no other form.
    """

    dims: tuple[int, ...]
    permutation: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.permutation is not None and sorted(self.permutation) != list(range(len(self.dims))):
            raise ModuleError(
                f"Replica groups: T({_commas(self.permutation)}) is not a permutation of the"
                f" {len(self.dims)} dimensions [{_commas(self.dims)}]."
            )
        if self.permutation in (None, tuple(range(len(self.dims)))):
            object.__setattr__(self, "permutation", None)
            object.__setattr__(self, "dims", (math.prod(self.dims),))

    @property
    def size(self) -> int:
        return math.prod(self.dims)

    def expand(self) -> Ids:
        """The ids, flat."""
        ids = np.arange(check_count(self.size), dtype=np.int64).reshape(self.dims)
        return (ids if self.permutation is None else ids.transpose(self.permutation)).reshape(-1)

    def __str__(self) -> str:
        return f"[{_commas(self.dims)}]" + _transposed(self.permutation)


@dataclasses.dataclass(frozen=True, slots=True)
class IotaGroups(_Form):
    """`[group_count,group_size]<=ids`: the ids cut into groups of equal size."""

    group_count: int
    group_size: int
    ids: Iota

    def __post_init__(self) -> None:
        if self.group_count * self.group_size != self.ids.size:
            raise ModuleError(
                f"Replica groups {self}: {self.group_count} groups of {self.group_size} need"
                f" {self.group_count * self.group_size} ids, but [{_commas(self.ids.dims)}] has {self.ids.size}."
            )

    def expand(self, id_count: int | None = None) -> Ids:
        """The groups as an array `[groups, members]`. `id_count` is not needed."""
        del id_count
        return self.ids.expand().reshape(self.group_count, self.group_size)

    def __str__(self) -> str:
        return f"[{self.group_count},{self.group_size}]<={self.ids}"


@dataclasses.dataclass(frozen=True, slots=True)
class AxisRef:
    """A mesh axis, or the part of it with `size` positions after `pre_size` (major) positions."""

    name: str
    pre_size: int | None = None
    size: int | None = None

    def __str__(self) -> str:
        return _quoted(self.name) + ("" if self.pre_size is None else f":({self.pre_size}){self.size}")


@dataclasses.dataclass(frozen=True, slots=True)
class MeshGroups(_Form):
    """Groups along axes of a mesh.

    Attributes:
      mesh_axes: (name, size) pairs, outermost first; () for a mesh of a single device.
      axes: the grouped axes, in the order in which members are counted (last one fastest).
      device_ids: the id at each mesh position, row-major; None for 0, 1, 2, ...
    """

    mesh_axes: tuple[tuple[str, int], ...]
    axes: tuple[AxisRef, ...]
    device_ids: tuple[int, ...] | Iota | None = None

    def __post_init__(self) -> None:
        sizes = dict(self.mesh_axes)
        if len(sizes) != len(self.mesh_axes):
            raise ModuleError(f"Replica groups {self}: a mesh axis name occurs twice.")
        if self.device_ids is not None:
            count = self.device_ids.size if isinstance(self.device_ids, Iota) else len(self.device_ids)
            if count != math.prod(sizes.values()):
                raise ModuleError(
                    f"Replica groups {self}: the mesh has {math.prod(sizes.values())} positions,"
                    f" but {count} device ids."
                )
        for name in {axis.name for axis in self.axes}:
            if name not in sizes:
                raise ModuleError(f"Replica groups {self}: the mesh has no axis {name!r}, only {sorted(sizes)}.")
            _split(sizes[name], tuple(axis for axis in self.axes if axis.name == name))

    @property
    def mesh_ids(self) -> Ids:
        """The id at each mesh position, flat and row-major."""
        if self.device_ids is None:
            return np.arange(check_count(math.prod(size for _, size in self.mesh_axes)), dtype=np.int64)
        if isinstance(self.device_ids, Iota):
            return self.device_ids.expand()
        return np.array(self.device_ids, dtype=np.int64)

    def expand(self, id_count: int | None = None) -> Ids:
        """The groups as an array `[groups, members]`. `id_count` is not needed.

        The mesh, with axes split where only a part is grouped, has its grouped dimensions moved to
        the end in written order and is cut (xla/hlo/ir/replica_group.cc).
        """
        del id_count
        sizes: list[int] = []
        grouped: dict[AxisRef, int] = {}
        for name, size in self.mesh_axes:
            for part_size, axis in _split(size, tuple(axis for axis in self.axes if axis.name == name)):
                if axis is not None:
                    grouped[axis] = len(sizes)
                sizes.append(part_size)
        last = [grouped[axis] for axis in self.axes]
        first = [dimension for dimension in range(len(sizes)) if dimension not in last]
        members = math.prod(sizes[dimension] for dimension in last)
        return self.mesh_ids.reshape(sizes).transpose(first + last).reshape(-1, members)

    def __str__(self) -> str:
        axes = "{" + ",".join(map(str, self.axes)) + "}"
        if not self.mesh_axes and isinstance(self.device_ids, tuple):
            return f"single_device[device_id={_commas(self.device_ids)}] {axes}"
        mesh = "mesh[" + ",".join(f"{_quoted(name)}={size}" for name, size in self.mesh_axes) + "]"
        if self.device_ids is not None:
            ids = str(self.device_ids) if isinstance(self.device_ids, Iota) else _commas(self.device_ids)
            mesh += f", device_ids=({ids})"
        return f"{mesh} {axes}"


ReplicaGroups: TypeAlias = ListGroups | IotaGroups | MeshGroups


def parse(text: str) -> ReplicaGroups:
    """Replica groups from HLO text, in any of its forms.

    Args:
      text: the attribute's value, such as `{{0,1},{2,3}}` or `[2,4]<=[4,2]T(1,0)`.

    Raises:
      ModuleError: not a form above; says where and what was expected. Also for groups that do not
        fit their mesh.
    """
    cursor = Cursor(text, "replica groups")
    if cursor.at("{"):
        groups: ReplicaGroups = ListGroups(_integer_lists(cursor))
    elif cursor.at("["):
        groups = _iota_groups(cursor)
    elif cursor.at("mesh[") or cursor.at("single_device["):
        groups = _mesh_groups(cursor)
    else:
        raise cursor.error("'{', '[', 'mesh[' or 'single_device['")
    cursor.end()
    return groups


def parse_pairs(text: str) -> tuple[tuple[int, int], ...]:
    """Source-target pairs from HLO text, such as `{{0,1},{1,0}}`.

    Raises:
      ModuleError: not a list of pairs.
    """
    cursor = Cursor(text, "source-target pairs")
    lists = _integer_lists(cursor)
    cursor.end()
    pairs = [(pair[0], pair[1]) for pair in lists if len(pair) == 2]
    if len(pairs) != len(lists):
        raise ModuleError(f"Cannot read source-target pairs {text!r}: expected two ids in each of the braces.")
    return tuple(pairs)


def _integer_lists(cursor: Cursor) -> tuple[tuple[int, ...], ...]:
    cursor.expect("{")
    lists: list[tuple[int, ...]] = []
    while not cursor.accept("}"):
        if lists:
            cursor.expect(",")
        cursor.expect("{")
        lists.append(cursor.integers("}"))
    return tuple(lists)


def _iota_groups(cursor: Cursor) -> IotaGroups:
    cursor.expect("[")
    sizes = cursor.integers("]")
    if len(sizes) != 2:
        raise cursor.error(f"two sizes [groups,members], not {len(sizes)}")
    cursor.expect("<=")
    return IotaGroups(sizes[0], sizes[1], _iota(cursor))


def _iota(cursor: Cursor) -> Iota:
    cursor.expect("[")
    dims = cursor.integers("]")
    return Iota(dims, cursor.integers(")") if cursor.accept("T(") else None)


def _mesh_groups(cursor: Cursor) -> MeshGroups:
    if cursor.accept("single_device["):
        cursor.expect("device_id=")
        device_ids: tuple[int, ...] | Iota | None = cursor.integers("]")
        mesh_axes: tuple[tuple[str, int], ...] = ()
    else:
        cursor.expect("mesh[")
        mesh_axes = _mesh_axes(cursor)
        device_ids = _device_ids(cursor) if cursor.accept(",") else None
    cursor.expect("{")
    axes: list[AxisRef] = []
    while not cursor.accept("}"):
        if axes:
            cursor.expect(",")
        axes.append(_axis_ref(cursor))
    return MeshGroups(mesh_axes, tuple(axes), device_ids)


def _mesh_axes(cursor: Cursor) -> tuple[tuple[str, int], ...]:
    axes: list[tuple[str, int]] = []
    while not cursor.accept("]"):
        if axes:
            cursor.expect(",")
        name = cursor.quoted()
        cursor.expect("=")
        axes.append((name, cursor.integer()))
    return tuple(axes)


def _device_ids(cursor: Cursor) -> tuple[int, ...] | Iota:
    cursor.expect("device_ids=(")
    if not cursor.at("["):
        return cursor.integers(")")
    iota = _iota(cursor)
    cursor.expect(")")
    return iota


def _axis_ref(cursor: Cursor) -> AxisRef:
    name = cursor.quoted()
    if not cursor.accept(":("):
        return AxisRef(name)
    pre_size = cursor.integer()
    cursor.expect(")")
    return AxisRef(name, pre_size, cursor.integer())


@functools.lru_cache(maxsize=1024)
def _split(axis_size: int, references: tuple[AxisRef, ...]) -> tuple[tuple[int, AxisRef | None], ...]:
    """An axis cut into parts, major first: (size, the reference that groups it or None)."""
    if not references:
        return ((axis_size, None),)
    if references == (AxisRef(references[0].name),):
        return ((axis_size, references[0]),)
    parts: list[tuple[int, AxisRef | None]] = []
    before = 1
    for axis in sorted(references, key=lambda axis: axis.pre_size or 0):
        pre_size, size = axis.pre_size or 0, axis.size or 0
        if pre_size < before or pre_size % before or size < 1 or axis_size % (pre_size * size):
            raise ModuleError(
                f"Replica groups: {axis} does not cut the mesh axis {axis.name!r} of size {axis_size}"
                f" (parts must divide it and not overlap: {', '.join(map(str, references))})."
            )
        if pre_size > before:
            parts.append((pre_size // before, None))
        parts.append((size, axis))
        before = pre_size * size
    if before < axis_size:
        parts.append((axis_size // before, None))
    return tuple(parts)


def _commas(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers))


def _transposed(permutation: Sequence[int] | None) -> str:
    return "" if permutation is None else f"T({_commas(permutation)})"


def _quoted(name: str) -> str:
    return f'"{name}"' if "'" in name else f"'{name}'"
