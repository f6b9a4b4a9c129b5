"""Replica groups: the sets of ids that participate together in a collective, in every form that XLA writes.

    groups   := list | iota | mesh
    list     := '{' [ '{' int,.. '}' , .. ] '}'                      {} means all
    iota     := '[' G ',' S ']<=[' dims ']' [ 'T(' perm ')' ]
    mesh     := "mesh[" 'name'=int,.. "]" [", device_ids=(" ids ")"] " {" axisref,.. "}"
              | "single_device[device_id=" int "] {}"
    ids      := int,.. | '[' dims ']' [ 'T(' perm ')' ]
    axisref  := 'name' [ ':(' pre ')' size ]

The forms are `ListGroups`, `IotaGroups` and `MeshGroups`. All can be expanded to numbers and printed back. Many questions
about iota and mesh forms can be answered without expanding them (`hlo/devices/mixed_radix.py`). Text is parsed here, protos
in `hlo/devices/replica_groups_proto.py`. The meaning of the ids (replicas, partitions, devices) depends on the instruction:
see `hlo/devices/group_mode.py`.
"""

from __future__ import annotations

import array
import dataclasses
import functools
import itertools
import math
from collections.abc import Collection, Iterable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from inspector.errors import ModuleError, cut
from inspector.hlo.cursor import Cursor
from inspector.hlo.devices.mixed_radix import Digit, Digits, radices, reshaped
from inspector.support.field_equality import OfFields

Ids: TypeAlias = npt.NDArray[np.int64]

MAX_IDS = 1 << 21
"""Maximum number of ids that are expanded: a pair for each of a million devices. A damaged module may claim any number."""

_MOST_SHOWN = 4096
_LONGEST_QUOTE = 200
_MOST_HASHED = 256  # ids of a value that its hash covers, evenly spaced; equality compares all


def check_count(count: int) -> int:
    """Checks that a number of ids can be expanded, and returns it.

    Raises:
      ModuleError: more than `MAX_IDS`.
    """
    if count > MAX_IDS:
        raise ModuleError(f"Replica groups have {count:,} ids, too many to expand. Expected at most {MAX_IDS:,}.")
    return count


def check_dimensions(sizes: Sequence[int]) -> Sequence[int]:
    """Checks the number of dimensions of an array, and returns its sizes.

    Raises:
      ModuleError: more dimensions than NumPy supports. No real mesh has as many axes.
    """
    if len(sizes) > _MOST_DIMENSIONS:
        raise ModuleError(
            f"Replica groups have {len(sizes)} dimensions, too many to expand. Expected at most {_MOST_DIMENSIONS}."
        )
    return sizes


_MOST_DIMENSIONS = 32


def short_text(groups: object) -> str:
    """Returns the beginning of groups as text, for messages."""
    return cut(str(groups), _LONGEST_QUOTE)


def id_array(ids: Iterable[int], count: int) -> Ids:
    """Converts ids to an array.

    Raises:
      ModuleError: an id of more than 64 bits.
    """
    try:
        if isinstance(ids, tuple):  # takes two thirds of the time
            return np.array(array.array("q", ids), np.int64)
        return np.fromiter(ids, np.int64, count)
    except OverflowError:
        raise ModuleError("Replica groups have an id of more than 64 bits, which is not a valid device id.") from None


class _Form:
    """Base class of the three forms."""

    __slots__ = ()

    def shape(self, id_count: int | None = None) -> tuple[int, int]:
        """Returns the number of groups and the size of the largest: the shape of `expand`, without its limit."""
        raise NotImplementedError

    def largest_id(self, id_count: int | None = None) -> int:
        """Returns the largest id; negative if there is none."""
        raise NotImplementedError

    def member_digits(self, id_count: int | None = None) -> Digits | None:
        """Returns the digits of each group's members, relative to the group's first id.

        Returns None if the groups have no such form, or do not contain each id from 0 on exactly once.
        """
        raise NotImplementedError

    def expand(self, id_count: int | None = None) -> Ids:
        """Returns the groups as a read-only array `[groups, members]`. Short groups are padded with -1.

        Args:
          id_count: the number of ids; needed for `{}` only.

        Raises:
          ModuleError: `{}` without `id_count`, or too many ids.
        """
        check_count(math.prod(self.shape(id_count)))
        return self._expanded(id_count)

    def _expanded(self, id_count: int | None) -> Ids:
        raise NotImplementedError


@dataclasses.dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class ListGroups(_Form):
    """Explicit groups. `ListGroups(())` is XLA's `{}`: one group of all ids.

    Attributes:
      ids: the members of all groups in order.
      lengths: the number of members of each group.
    """

    ids: Ids
    lengths: Ids

    def __init__(self, groups: Sequence[Sequence[int]]) -> None:
        """Builds groups from sequences of ids.

        Raises:
          ModuleError: an id is negative, or has more than 64 bits.
        """
        lengths = np.fromiter(map(len, groups), np.int64, len(groups))
        _fill(self, id_array(itertools.chain.from_iterable(groups), int(lengths.sum())), lengths)

    @classmethod
    def from_arrays(cls, ids: Ids, lengths: Ids) -> ListGroups:
        """Builds groups from arrays, which become read-only.

        Raises:
          ModuleError: an id is negative.
        """
        groups = cls.__new__(cls)
        _fill(groups, ids, lengths)
        return groups

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The ids of each group. Created at each access, which is slow for many ids."""
        ids, ends = self.ids.tolist(), np.cumsum(self.lengths).tolist()
        return tuple(tuple(ids[end - length : end]) for end, length in zip(ends, self.lengths.tolist(), strict=True))

    def shape(self, id_count: int | None = None) -> tuple[int, int]:
        """See `_Form`. For `{}`, one group of `id_count` ids."""
        if len(self.lengths):
            return len(self.lengths), int(self.lengths.max())
        if id_count is None:
            raise ModuleError("Replica groups {} mean all ids. Pass their number (id_count).")
        return 1, id_count

    def largest_id(self, id_count: int | None = None) -> int:
        if not len(self.lengths):
            return self.shape(id_count)[1] - 1
        return int(self.ids.max(initial=-1))

    def member_digits(self, id_count: int | None = None) -> Digits | None:
        """See `_Form`. Available for `{}` only."""
        return None if len(self.lengths) else (Digit(self.shape(id_count)[1], 1),)

    def _expanded(self, id_count: int | None) -> Ids:
        groups, longest = self.shape(id_count)
        if not len(self.lengths):
            return np.arange(longest, dtype=np.int64)[None]
        if len(self.ids) == groups * longest:
            return self.ids.reshape(groups, longest)
        padded = np.full((groups, longest), -1, np.int64)
        padded[np.arange(longest) < self.lengths[:, None]] = self.ids
        return padded

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ListGroups):
            return NotImplemented
        return np.array_equal(self.lengths, other.lengths) and np.array_equal(self.ids, other.ids)

    def __hash__(self) -> int:
        return hash((_hash(self.ids), _hash(self.lengths)))

    def __reduce__(self) -> tuple[object, ...]:
        return ListGroups.from_arrays, (self.ids, self.lengths)

    def __repr__(self) -> str:
        if len(self.ids) <= _MOST_SHOWN:
            return f"ListGroups(groups={self.groups})"
        return f"<ListGroups: {len(self.ids):,} ids in {len(self.lengths):,} groups, {short_text(self)}>"

    def __str__(self) -> str:
        return "{" + ",".join("{" + _commas(group) + "}" for group in self.groups) + "}"


def _hash(ids: Ids) -> int:
    return hash((len(ids), ids[:: 1 + len(ids) // _MOST_HASHED].tobytes()))


def _fill(groups: ListGroups, ids: Ids, lengths: Ids) -> None:
    if ids.min(initial=0) < 0:
        raise ModuleError(f"Replica groups: the id {int(ids.min())} is negative.")
    for name, values in (("ids", ids), ("lengths", lengths)):
        values.setflags(write=False)
        object.__setattr__(groups, name, values)


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class WrittenIds:
    """An explicit list of ids: an array, which becomes read-only, that is compared by its values."""

    ids: Ids

    def __post_init__(self) -> None:
        self.ids.setflags(write=False)

    @classmethod
    def of(cls, ids: Collection[int]) -> WrittenIds:
        """Builds a list from any ids.

        Raises:
          ModuleError: an id of more than 64 bits.
        """
        return cls(id_array(ids, len(ids)))

    def __reduce__(self) -> tuple[object, ...]:
        return WrittenIds, (self.ids,)

    def __eq__(self, other: object) -> bool:
        return np.array_equal(self.ids, other.ids) if isinstance(other, WrittenIds) else NotImplemented

    def __hash__(self) -> int:
        return _hash(self.ids)

    def __repr__(self) -> str:
        return f"<{len(self.ids):,} ids: {short_text(self)}>"

    def __str__(self) -> str:
        return _commas(self.ids.tolist())


@dataclasses.dataclass(frozen=True, slots=True)
class Iota:
    """Ids 0, 1, 2, ... in row-major order of `dims`, transposed by `permutation`, flattened.

    Without a permutation, or with the identity permutation, `dims` are merged into one dimension, the only form that XLA
    reads and writes.
    """

    dims: tuple[int, ...]
    permutation: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if min(self.dims, default=0) < 0:
            raise ModuleError(f"Replica groups: a dimension of [{_commas(self.dims)}] is negative.")
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

    @property
    def digits(self) -> Digits:
        """The digits of the sequence of ids."""
        sizes = radices(self.dims)
        return sizes if self.permutation is None else tuple(sizes[dimension] for dimension in self.permutation)

    def expand(self) -> Ids:
        """Returns the ids as a flat array."""
        ids = np.arange(check_count(self.size), dtype=np.int64)
        if self.permutation is None or not len(ids):
            return ids
        return ids.reshape(check_dimensions(self.dims)).transpose(self.permutation).reshape(-1)

    def __str__(self) -> str:
        return f"[{_commas(self.dims)}]" + _transposed(self.permutation)


@dataclasses.dataclass(frozen=True, slots=True)
class IotaGroups(_Form):
    """`[group_count,group_size]<=ids`: ids split into groups of equal size."""

    group_count: int
    group_size: int
    ids: Iota

    def __post_init__(self) -> None:
        if min(self.group_count, self.group_size) < 0:
            raise ModuleError(f"Replica groups {self}: the number of groups or members is negative.")
        if self.group_count * self.group_size != self.ids.size:
            raise ModuleError(
                f"Replica groups {self}: {self.group_count} groups of {self.group_size} need"
                f" {self.group_count * self.group_size} ids, but [{_commas(self.ids.dims)}] has {self.ids.size}."
            )

    def shape(self, id_count: int | None = None) -> tuple[int, int]:
        """See `_Form`. `id_count` is not needed."""
        del id_count
        return self.group_count, self.group_size

    def largest_id(self, id_count: int | None = None) -> int:
        """See `_Form`. `id_count` is not needed."""
        del id_count
        return self.ids.size - 1

    def member_digits(self, id_count: int | None = None) -> Digits | None:
        """See `_Form`. `id_count` is not needed."""
        dimensions = reshaped(self.ids.digits, self.shape(id_count)) if self.ids.size else None
        return dimensions[1] if dimensions is not None else None

    def _expanded(self, id_count: int | None) -> Ids:
        return self.ids.expand().reshape(self.shape(id_count))

    def __str__(self) -> str:
        return f"[{self.group_count},{self.group_size}]<={self.ids}"


@dataclasses.dataclass(frozen=True, slots=True)
class AxisRef:
    """A mesh axis, or the sub-axis with `size` positions after `pre_size` (major) positions."""

    name: str
    pre_size: int | None = None
    size: int | None = None

    def __str__(self) -> str:
        return _quoted(self.name) + ("" if self.pre_size is None else f":({self.pre_size}){self.size}")


@dataclasses.dataclass(frozen=True)
class MeshGroups(_Form, OfFields):
    """Groups along axes of a mesh.

    Attributes:
      mesh_axes: (name, size) pairs, outermost first; () for a mesh of a single device.
      axes: the grouped axes; members are in row-major order over them (the last axis is fastest).
      device_ids: the id at each mesh position, row-major; None for 0, 1, 2, ...
    """

    mesh_axes: tuple[tuple[str, int], ...]
    axes: tuple[AxisRef, ...]
    device_ids: WrittenIds | Iota | None = None

    def __post_init__(self) -> None:
        sizes = dict(self.mesh_axes)
        if len(sizes) != len(self.mesh_axes):
            raise ModuleError(f"Replica groups {short_text(self)}: a mesh axis name occurs twice.")
        if min(sizes.values(), default=1) < 0:
            raise ModuleError(f"Replica groups {short_text(self)}: the size of a mesh axis is negative.")
        if self.device_ids is not None:
            count = self.device_ids.size if isinstance(self.device_ids, Iota) else len(self.device_ids.ids)
            if count != math.prod(sizes.values()):
                raise ModuleError(
                    f"Replica groups {short_text(self)}: the mesh has {math.prod(sizes.values())} positions,"
                    f" but {count} device ids."
                )
        for name in {axis.name for axis in self.axes}:
            if name not in sizes:
                known = short_text(sorted(sizes))
                raise ModuleError(f"Replica groups {short_text(self)}: the mesh has no axis {name!r}, only {known}.")
            _split(sizes[name], tuple(axis for axis in self.axes if axis.name == name))

    def in_mesh_order(self, device_ids: Ids) -> MeshGroups | None:
        """Replaces explicit device ids by mesh positions.

        Args:
          device_ids: the device ids of the mesh whose positions to use.

        Returns:
          The groups; None if their ids differ from `device_ids`, or are not a permutation of 0, 1, 2, ...
        """
        if not isinstance(self.device_ids, WrittenIds) or not np.array_equal(self.device_ids.ids, device_ids):
            return None
        ids, is_present = device_ids, np.zeros(len(device_ids), np.bool_)
        if ids.min(initial=0) < 0 or ids.max(initial=-1) >= len(is_present):
            return None
        is_present[ids] = True
        return dataclasses.replace(self, device_ids=None) if is_present.all() else None

    @property
    def mesh_ids(self) -> Ids:
        """The id at each mesh position, as a flat row-major array."""
        if self.device_ids is not None:
            return self.device_ids.expand() if isinstance(self.device_ids, Iota) else self.device_ids.ids
        return np.arange(check_count(math.prod(size for _, size in self.mesh_axes)), dtype=np.int64)

    def shape(self, id_count: int | None = None) -> tuple[int, int]:
        """See `_Form`. `id_count` is not needed."""
        del id_count
        sizes, first, last = self._dimensions()
        return math.prod(sizes[dimension] for dimension in first), math.prod(sizes[dimension] for dimension in last)

    def largest_id(self, id_count: int | None = None) -> int:
        """See `_Form`. `id_count` is not needed."""
        if isinstance(self.device_ids, WrittenIds):
            return int(self.device_ids.ids.max(initial=-1))
        return math.prod(self.shape(id_count)) - 1

    def member_digits(self, id_count: int | None = None) -> Digits | None:
        """See `_Form`. `id_count` is not needed."""
        size = math.prod(self.shape(id_count))
        if isinstance(self.device_ids, WrittenIds) or not size:
            return None
        sizes, _, last = self._dimensions()
        ids = self.device_ids.digits if isinstance(self.device_ids, Iota) else (Digit(size, 1),)
        dimensions = reshaped(ids, sizes)
        return None if dimensions is None else tuple(digit for place in last for digit in dimensions[place])

    def _expanded(self, id_count: int | None) -> Ids:
        sizes, first, last = self._dimensions()
        if 0 in sizes:
            return np.empty(self.shape(id_count), np.int64)
        return self.mesh_ids.reshape(check_dimensions(sizes)).transpose(first + last).reshape(self.shape(id_count))

    def _dimensions(self) -> tuple[list[int], list[int], list[int]]:
        """Returns the mesh's sizes, with axes split where only a part is grouped; the other and the grouped dimensions.

        Grouped dimensions are moved to the end, in written order (xla/hlo/ir/replica_group.cc).
        """
        sizes: list[int] = []
        grouped: dict[AxisRef, int] = {}
        for name, size in self.mesh_axes:
            for part_size, axis in _split(size, tuple(axis for axis in self.axes if axis.name == name)):
                if axis is not None:
                    grouped[axis] = len(sizes)
                sizes.append(part_size)
        last = [grouped[axis] for axis in self.axes]
        return sizes, [dimension for dimension in range(len(sizes)) if dimension not in last], last

    def __str__(self) -> str:
        axes = "{" + ",".join(map(str, self.axes)) + "}"
        if not self.mesh_axes and isinstance(self.device_ids, WrittenIds):
            return f"single_device[device_id={self.device_ids}] {axes}"
        mesh = "mesh[" + ",".join(f"{_quoted(name)}={size}" for name, size in self.mesh_axes) + "]"
        if self.device_ids is not None:
            mesh += f", device_ids=({self.device_ids})"
        return f"{mesh} {axes}"


ReplicaGroups: TypeAlias = ListGroups | IotaGroups | MeshGroups


def parse(text: str) -> ReplicaGroups:
    """Parses replica groups from HLO text, in any form.

    Args:
      text: the attribute's value, such as `{{0,1},{2,3}}` or `[2,4]<=[4,2]T(1,0)`.

    Raises:
      ModuleError: the text has none of the forms above, or the groups do not match their mesh. The message states the
        position and the expected token.
    """
    cursor = Cursor(text, "replica groups")
    if cursor.at("{"):
        groups: ReplicaGroups = _list_groups(cursor)
    elif cursor.at("["):
        groups = _iota_groups(cursor)
    elif cursor.at("mesh[") or cursor.at("single_device["):
        groups = _mesh_groups(cursor)
    else:
        raise cursor.error("'{', '[', 'mesh[' or 'single_device['")
    cursor.end()
    return groups


def parse_pairs(text: str) -> tuple[tuple[int, int], ...]:
    """Parses source-target pairs from HLO text, such as `{{0,1},{1,0}}`.

    Raises:
      ModuleError: the text is not a list of pairs.
    """
    cursor = Cursor(text, "source-target pairs")
    lists = _integer_lists(cursor)
    cursor.end()
    pairs = [(pair[0], pair[1]) for pair in lists if len(pair) == 2]
    if len(pairs) != len(lists):
        raise ModuleError(
            f"Cannot read source-target pairs {short_text(repr(text))}: expected two ids in each pair of braces."
        )
    return tuple(pairs)


def _list_groups(cursor: Cursor) -> ListGroups:
    plain = cursor.plain_lists()
    return ListGroups(_integer_lists(cursor)) if plain is None else ListGroups.from_arrays(*plain)


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
        device_ids: WrittenIds | Iota | None = _written(cursor, "]")
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


def _device_ids(cursor: Cursor) -> WrittenIds | Iota:
    cursor.expect("device_ids=(")
    if not cursor.at("["):
        return _written(cursor, ")")
    iota = _iota(cursor)
    cursor.expect(")")
    return iota


def _written(cursor: Cursor, close: str) -> WrittenIds:
    plain = cursor.plain_integers(close)
    return WrittenIds.of(cursor.integers(close)) if plain is None else WrittenIds(plain)


def _axis_ref(cursor: Cursor) -> AxisRef:
    name = cursor.quoted()
    if not cursor.accept(":("):
        return AxisRef(name)
    pre_size = cursor.integer()
    cursor.expect(")")
    return AxisRef(name, pre_size, cursor.integer())


@functools.lru_cache(maxsize=1024)
def _split(axis_size: int, references: tuple[AxisRef, ...]) -> tuple[tuple[int, AxisRef | None], ...]:
    """Splits an axis into parts, major first: (size, the reference that groups the part, or None)."""
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
                f"Replica groups: {axis} does not split the mesh axis {axis.name!r} of size {axis_size}"
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
