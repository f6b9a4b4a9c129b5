"""The mesh axes that a collective's groups stand for.

Groups are matched by mesh coordinates, whatever form they are written in. The axes are those whose coordinate changes
within a group, and they match only if every group contains all of their positions. If whole axes do not match, parts of
axes are tried: axis sizes split into factors. Groups that match neither are `Unavailable`.

A position is a mixed-radix number with one digit per axis (`hlo/devices/mixed_radix.py`). Members of a group of whole
axes differ in some digits only, so these digits identify the axes. A compact form of groups defines the digits directly.
For groups that are listed id by id, the digits are read from the first group, after checking that all others follow the
same pattern.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from inspector.errors import Unavailable, cut
from inspector.hlo.devices.group_mode import GroupMode
from inspector.hlo.devices.mesh import Mesh
from inspector.hlo.devices.mixed_radix import Digits, digits_of, length, merged, radices
from inspector.hlo.devices.replica_groups import AxisRef, Ids, MeshGroups, ReplicaGroups

# Limit on the ways to split the axes into prime factors that are tried.
_MOST_FACTORIZATIONS = 512
_MOST_IN_WORDS = 8
_LONGEST_WORDS = 4000

Axes = tuple[str, ...]


def axes_of_form(
    form: ReplicaGroups, mode: GroupMode, mesh: Mesh | None, num_replicas: int, num_partitions: int, ordered: bool
) -> Axes | Unavailable | None:
    """Returns the axes of groups from their compact form, without expanding the ids.

    Args:
      form: the groups as the module has them. The program must have all of their ids.
      mode: meaning of the ids.
      mesh: the program's mesh or axis environment.
      num_replicas: number of replicas of the program.
      num_partitions: number of partitions of the program.
      ordered: whether the order of members matters to the collective.

    Returns:
      The result of `axes_of_groups`; None if only the expanded ids can decide.
    """
    if mesh is None:
        return _without_mesh(form)
    if not _names_positions(mode, mesh, num_replicas, num_partitions):
        return None
    if math.prod(form.shape(mesh.size)) != mesh.size:
        return None
    positions: ReplicaGroups | None = form
    if mesh.device_ids is not None:
        positions = form.in_mesh_order(mesh.id_of_position) if isinstance(form, MeshGroups) else None
    counted = None if positions is None else positions.member_digits(mesh.size)
    if counted is None:
        return None
    axes = _matched(merged(counted), _in_mesh_order(counted), mesh, ordered)
    return None if axes is None or isinstance(axes, Unavailable) else _as_written(axes, form, mesh)


def axes_of_groups(
    devices: Ids, form: ReplicaGroups, mesh: Mesh | None, num_replicas: int, num_partitions: int, ordered: bool
) -> Axes | Unavailable:
    """Returns the axes of groups of devices.

    Args:
      devices: participants as flattened ids `[groups, members]`, from `hlo/devices/group_mode.py`.
      form: the groups as the module has them. If the form names mesh axes, these are used when there is no `mesh`, and
        when they match the computed ones, because only they include axes of size 1.
      mesh: the program's mesh or axis environment.
      num_replicas: number of replicas of the program.
      num_partitions: number of partitions of the program.
      ordered: whether the order of members matters to the collective.

    Returns:
      Axis names, slowest-varying first; `"name:(pre)size"` for a part of an axis; () if every
      device is alone. Unavailable if no axes fit.
    """
    if mesh is None:
        return _without_mesh(form)
    positions = mesh_positions(devices, mesh, num_replicas, num_partitions)
    if isinstance(positions, Unavailable):
        return positions
    taking_part = np.zeros(num_replicas * num_partitions, np.bool_)
    taking_part[devices] = True
    present = int(np.count_nonzero(taking_part))
    if missing := len(taking_part) - present:
        return Unavailable(f"the groups leave out {missing} devices")
    if devices.size != present or not present:
        return Unavailable("the groups overlap" if present else "the program has no devices")
    counted = _counted(positions)
    covered = _counted(np.sort(positions, axis=1)) if counted is None else _in_mesh_order(counted)
    axes = _matched(counted, covered, mesh, ordered)
    if axes is None:
        return Unavailable(_in_words(positions, mesh))
    return axes if isinstance(axes, Unavailable) else _as_written(axes, form, mesh)


def axes_of_pairs(pairs: Ids, mesh: Mesh | None, num_replicas: int, num_partitions: int) -> Axes | Unavailable:
    """Returns the axes along which source and target of pairs differ.

    Args:
      pairs: flattened device ids `[pairs, 2]`.
      mesh: the program's mesh or axis environment.
      num_replicas: number of replicas of the program.
      num_partitions: number of partitions of the program.
    """
    if mesh is None:
        return Unavailable("the program has no mesh or axis environment")
    positions = mesh_positions(pairs, mesh, num_replicas, num_partitions)
    if isinstance(positions, Unavailable):
        return positions
    coordinates = mesh.coordinates(positions)
    return tuple(name for name, c in zip(mesh.axis_names, coordinates, strict=True) if (c[:, 0] != c[:, 1]).any())


def with_size_one(axes: Axes, mesh: Mesh, members: int, named: Sequence[Axes]) -> Axes:
    """Adds the axes of size 1, which cannot be seen in groups of ids.

    Args:
      axes: the axes that the groups stand for.
      mesh: the program's mesh or axis environment.
      members: number of members of the largest group.
      named: axes of the user's collectives that this may be one of; () if unknown.

    Returns:
      The axes that the user named, if they are unambiguous and stand for the same groups. Otherwise, if every device is
      alone, all axes of size 1; else `axes`.
    """
    single = tuple(n for n, size in zip(mesh.axis_names, mesh.axis_sizes, strict=True) if size == 1)
    if not single or any(axis in single for axis in axes):
        return axes
    fitting: set[Axes] = set()
    for candidate in named:
        large = tuple(axis for axis in candidate if axis not in single)
        if large == axes:
            fitting.add(candidate)
        elif sorted(large) == sorted(axes):
            fitting.add((*axes, *(axis for axis in candidate if axis in single)))
    if len(fitting) == 1:
        return fitting.pop()
    return single if members == 1 else axes


def mesh_positions(devices: Ids, mesh: Mesh, num_replicas: int, num_partitions: int) -> Ids | Unavailable:
    """Returns row-major mesh positions of groups of devices, in the same shape; Unavailable if the mesh lacks them.

    Args:
      devices: flattened ids `[groups, members]`, padded with -1.
      mesh: the program's mesh or axis environment.
      num_replicas: number of replicas of the program.
      num_partitions: number of partitions of the program.
    """
    if (devices < 0).any():
        return Unavailable("the groups have different sizes, which groups over mesh axes never have")
    count, other_count = (num_partitions, num_replicas) if mesh.kind == "partition" else (num_replicas, num_partitions)
    ids = devices
    if other_count > 1:
        replicas, partitions = np.divmod(devices, num_partitions)
        ids, others = (partitions, replicas) if mesh.kind == "partition" else (replicas, partitions)
        if (others != others[:, :1]).any():
            return Unavailable(f"the groups combine replicas with partitions, and the mesh names {mesh.kind}s only")
    if count != mesh.size:
        return Unavailable(f"the {mesh} has {mesh.size} positions, but the program has {count} {mesh.kind}s")
    return ids if mesh.device_ids is None else mesh.position_of_id[ids]


def _names_positions(mode: GroupMode, mesh: Mesh, num_replicas: int, num_partitions: int) -> bool:
    """Reports whether ids and positions of the mesh correspond one to one, so that groups of ids are groups of positions."""
    own, others = GroupMode.CROSS_PARTITION, num_replicas
    count = num_partitions
    if mesh.kind == "replica":
        own, others, count = GroupMode.CROSS_REPLICA, num_partitions, num_replicas
    return mesh.size == count > 0 and (mode is own or (mode is GroupMode.FLATTENED_ID and others == 1))


def _without_mesh(form: ReplicaGroups) -> Axes | Unavailable:
    written = _written_axes(form)
    return Unavailable("the program has no mesh or axis environment") if written is None else written


def _written_axes(form: ReplicaGroups) -> Axes | None:
    """Returns the axes that a mesh form names; None for other forms."""
    if not isinstance(form, MeshGroups) or not form.mesh_axes:
        return None
    return tuple(axis.name if axis.pre_size is None else _part(axis) for axis in form.axes)


def _as_written(axes: Axes, form: ReplicaGroups, mesh: Mesh) -> Axes:
    """Returns the form's own axes if it has the same mesh and, apart from axes of size 1, the same axes; else `axes`."""
    written = _written_axes(form)
    if written is None or not isinstance(form, MeshGroups):
        return axes
    named = tuple(zip(mesh.axis_names, mesh.axis_sizes, strict=True))
    sizes = dict(named)
    same = form.mesh_axes == named and axes == tuple(axis for axis in written if sizes.get(axis) != 1)
    return written if same else axes


def _counted(positions: Ids) -> Digits | None:
    """Returns the digits through which the members of every group count from its first member; None if they do not.

    If the groups also cover all positions once, each group is a full set of positions that differ in these digits only:
    the lowest position that is not in the earlier groups must begin the next one.
    """
    first = positions[0] - positions[0, 0]
    if ((positions - positions[:, :1]) != first).any():
        return None
    return digits_of(first)


def _in_mesh_order(digits: Digits) -> Digits:
    """Returns the same digits, largest stride first."""
    return merged(sorted(digits, key=lambda digit: -digit.stride))


def _matched(counted: Digits | None, covered: Digits | None, mesh: Mesh, ordered: bool) -> Axes | Unavailable | None:
    """Returns the axes of groups whose members differ only in some digits of their position.

    Args:
      counted: these digits, in the order in which the members count through them; None if they do not.
      covered: the same digits, largest stride first; None if there are none.
      mesh: the program's mesh.
      ordered: whether the order of members matters.

    Returns:
      None if the members are not all positions along axes or parts of axes; Unavailable if they are, but in an order
      that no axes have.
    """
    if covered is None:
        return None
    whole = _digits(counted, covered, mesh.axis_sizes)
    if whole is not None and (whole.in_order or not ordered):
        return tuple(mesh.axis_names[digit] for digit in whole.digits)
    candidates: list[Axes] = []
    for factors in itertools.islice(_factorizations(mesh.axis_sizes), _MOST_FACTORIZATIONS):
        digits = _digits(counted, covered, tuple(factor.size or 1 for factor in factors))
        if digits is not None and (digits.in_order or not ordered):
            candidates.append(_joined([factors[digit] for digit in digits.digits], mesh))
    if candidates:
        return min(candidates, key=len)
    if whole is not None:
        names = ", ".join(mesh.axis_names[digit] for digit in whole.digits)
        return Unavailable(f"the groups are those of axes ({names}), but their members are in a different order")
    return None


def _in_words(positions: Ids, mesh: Mesh) -> str:
    """Describes groups that match no axes; lists positions if they vary along one axis only."""
    coordinates = mesh.coordinates(positions)
    over = [axis for axis, c in enumerate(coordinates) if (c != c[:, :1]).any()]
    groups: dict[bytes, list[int]] = {}
    for group in coordinates[over[0]] if len(over) == 1 else ():
        groups.setdefault(group.tobytes(), group)
        if len(groups) > _MOST_IN_WORDS:
            break
    if not 0 < len(groups) <= _MOST_IN_WORDS:
        return f"the groups match no axes or parts of axes of the {mesh}"
    name, size = mesh.axis_names[over[0]], mesh.axis_sizes[over[0]]
    written = cut(", ".join("{" + ",".join(map(str, group)) + "}" for group in groups.values()), _LONGEST_WORDS)
    return f"the groups match no axes: {written} of the {size} positions on {name}, as with axis_index_groups"


class _Digits:
    """The digits of a mixed-radix number that change within groups, and whether the members count through them in order."""

    def __init__(self, digits: tuple[int, ...], in_order: bool) -> None:
        self.digits = digits
        self.in_order = in_order


def _digits(counted: Digits | None, covered: Digits, sizes: Sequence[int]) -> _Digits | None:
    """Returns the digits of positions that change within groups; None if a group lacks some of their values.

    The digits are ordered slowest-varying first if the members count through them in some order, otherwise as in the mesh.

    Args:
      counted: as for `_matched`.
      covered: as for `_matched`.
      sizes: sizes of the digits of a position, major first.
    """
    places = [(index, digit) for index, digit in enumerate(radices(sizes)) if digit.size > 1]
    changing = [(index, digit) for index, digit in places if any(run.holds(digit) for run in covered)]
    if length(digit for _, digit in changing) != length(covered):
        return None
    in_mesh_order = tuple(index for index, _ in changing)
    if counted is None:
        return _Digits(in_mesh_order, False)
    order = tuple(index for run in counted for index, digit in changing if run.holds(digit))
    return _Digits(order, True) if len(order) == len(changing) else _Digits(in_mesh_order, False)


def _factorizations(sizes: Sequence[int]) -> Iterator[list[AxisRef]]:
    """Yields all ways to split axes into prime factors, as parts of axes named by their index, major first."""
    choices = [_ordered_factors(size) for size in sizes]
    for chosen in itertools.product(*choices):
        parts: list[AxisRef] = []
        for index, factors in enumerate(chosen):
            before = 1
            for factor in factors:
                parts.append(AxisRef(str(index), before, factor))
                before *= factor
        yield parts


@functools.lru_cache(maxsize=256)
def _ordered_factors(size: int) -> tuple[tuple[int, ...], ...]:
    """Returns distinct orders of the prime factors of an axis size, up to the number of orders that are tried."""
    return tuple(itertools.islice(_orders(_prime_factors(size)), _MOST_FACTORIZATIONS))


def _orders(factors: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yields distinct orders of factors, those that begin with a small factor first."""
    if not factors:
        yield ()
    for place, factor in enumerate(factors):
        if factor not in factors[:place]:
            for rest in _orders(factors[:place] + factors[place + 1 :]):
                yield (factor, *rest)


def _prime_factors(number: int) -> tuple[int, ...]:
    """Returns the prime factors of a positive number, smallest first."""
    for divisor in range(2, math.isqrt(number) + 1):
        if number % divisor == 0:
            return (divisor, *_prime_factors(number // divisor))
    return (number,) if number > 1 else ()


def _joined(parts: Sequence[AxisRef], mesh: Mesh) -> Axes:
    """Returns the names of the parts; adjacent parts of one axis that continue each other are joined."""
    joined: list[AxisRef] = []
    for part in parts:
        last = joined[-1] if joined else None
        if last and last.name == part.name and (last.pre_size or 1) * (last.size or 1) == part.pre_size:
            joined[-1] = AxisRef(last.name, last.pre_size, (last.size or 1) * (part.size or 1))
        else:
            joined.append(part)
    return tuple(
        mesh.axis_names[int(part.name)]
        if part.size == mesh.axis_sizes[int(part.name)]
        else _part(AxisRef(mesh.axis_names[int(part.name)], part.pre_size, part.size))
        for part in joined
    )


def _part(axis: AxisRef) -> str:
    return f"{axis.name}:({axis.pre_size}){axis.size}"
