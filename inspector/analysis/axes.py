"""Which mesh axes a collective's groups mean.

Groups are matched by what they do to mesh coordinates, whatever form they were written in: axes whose
coordinate changes inside of a group are grouped, and only if every group is all of their positions.
Where whole axes do not fit, axes cut into factors are tried. What does not fit is `Unavailable`.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from inspector.errors import Unavailable
from inspector.hlo.mesh import Mesh
from inspector.hlo.replica_groups import AxisRef, Ids, MeshGroups, ReplicaGroups

# Ways to cut the axes into prime factors that are tried before giving up.
_MOST_FACTORIZATIONS = 512
_MOST_IN_WORDS = 8

Axes = tuple[str, ...]


def axes_of_groups(
    devices: Ids, form: ReplicaGroups, mesh: Mesh | None, num_replicas: int, num_partitions: int, ordered: bool
) -> Axes | Unavailable:
    """The axes that groups of devices mean.

    Args:
      devices: participants as flattened ids `[groups, members]`, from `hlo/group_mode.py`.
      form: the groups as written. A mesh form's own axes are used when they say the same, because
        only they tell axes of size 1 apart, and where there is no `mesh`.
      mesh: the program's mesh or axis environment.
      num_replicas: of the program.
      num_partitions: of the program.
      ordered: whether the order of members matters to the collective.

    Returns:
      Axis names, slowest-varying first; `"name:(pre)size"` for a part of an axis; () when every
      device is alone. Unavailable when no axes fit.
    """
    written = _written_axes(form)
    if mesh is None:
        return written if written is not None else Unavailable("the program has no mesh or axis environment")
    positions = mesh_positions(devices, mesh, num_replicas, num_partitions)
    if isinstance(positions, Unavailable):
        return positions
    if (missing := num_replicas * num_partitions - len(np.unique(devices))) or devices.size != np.unique(devices).size:
        return Unavailable(f"the groups leave out {missing} devices" if missing else "the groups overlap")
    axes = _matched(positions, mesh, ordered)
    if not isinstance(axes, Unavailable) and written is not None and _same_axes(axes, written, form, mesh):
        return written
    return axes


def axes_of_pairs(pairs: Ids, mesh: Mesh | None, num_replicas: int, num_partitions: int) -> Axes | Unavailable:
    """The axes along which source-target pairs of devices move.

    Args:
      pairs: flattened device ids `[pairs, 2]`.
      mesh: the program's mesh or axis environment.
      num_replicas: of the program.
      num_partitions: of the program.
    """
    if mesh is None:
        return Unavailable("the program has no mesh or axis environment")
    positions = mesh_positions(pairs, mesh, num_replicas, num_partitions)
    if isinstance(positions, Unavailable):
        return positions
    coordinates = np.unravel_index(positions, mesh.axis_sizes)
    return tuple(name for name, c in zip(mesh.axis_names, coordinates, strict=True) if (c[:, 0] != c[:, 1]).any())


def with_size_one(axes: Axes, mesh: Mesh, members: int, named: Sequence[Axes]) -> Axes:
    """Axes with those of size 1, which leave no trace in groups that are written out.

    Args:
      axes: what the groups mean.
      mesh: the program's mesh or axis environment.
      members: of the largest group.
      named: what the user's collectives that it may be name; () when not known.

    Returns:
      What the user named, if that is one answer and means the same groups. Else, where every device is alone, all
      axes of size 1, because the groups are theirs.
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
    """Row-major mesh positions of groups of devices, same shape; Unavailable when the mesh does not hold them.

    Args:
      devices: flattened ids `[groups, members]`, -1 for padding.
      mesh: the program's mesh or axis environment.
      num_replicas: of the program.
      num_partitions: of the program.
    """
    if (devices < 0).any():
        return Unavailable("the groups have different sizes, which no mesh axes give")
    ids, others = devices // num_partitions, devices % num_partitions
    count = num_replicas
    if mesh.kind == "partition":
        ids, others, count = others, ids, num_partitions
    if (others != others[:, :1]).any():
        return Unavailable(f"the groups combine replicas with partitions, and the mesh names {mesh.kind}s only")
    if count != mesh.size:
        return Unavailable(f"the {mesh} has {mesh.size} positions, but the program has {count} {mesh.kind}s")
    return position_of_id(mesh)[ids]


def position_of_id(mesh: Mesh) -> Ids:
    """Row-major mesh position of each logical id."""
    positions = np.arange(mesh.size, dtype=np.int64)
    if mesh.device_ids is not None:
        positions[np.array(mesh.device_ids, dtype=np.int64)] = np.arange(mesh.size)
    return positions


def _written_axes(form: ReplicaGroups) -> Axes | None:
    """The axes that a mesh form names, None for other forms."""
    if not isinstance(form, MeshGroups) or not form.mesh_axes:
        return None
    return tuple(axis.name if axis.pre_size is None else _part(axis) for axis in form.axes)


def _same_axes(axes: Axes, written: Axes, form: ReplicaGroups, mesh: Mesh) -> bool:
    """Whether the form speaks of the same mesh, and of the same axes but for those of size 1."""
    if not isinstance(form, MeshGroups):
        return False
    named = tuple(zip(mesh.axis_names, mesh.axis_sizes, strict=True))
    sizes = dict(named)
    return form.mesh_axes == named and axes == tuple(axis for axis in written if sizes.get(axis) != 1)


def _matched(positions: Ids, mesh: Mesh, ordered: bool) -> Axes | Unavailable:
    whole = _digits(positions, mesh.axis_sizes)
    if whole is not None and (whole.in_order or not ordered):
        return tuple(mesh.axis_names[digit] for digit in whole.digits)
    found: list[Axes] = []
    for factors in itertools.islice(_factorizations(mesh.axis_sizes), _MOST_FACTORIZATIONS):
        digits = _digits(positions, tuple(factor.size or 1 for factor in factors))
        if digits is not None and (digits.in_order or not ordered):
            found.append(_joined([factors[digit] for digit in digits.digits], mesh))
    if found:
        return min(found, key=len)
    if whole is not None:
        names = ", ".join(mesh.axis_names[digit] for digit in whole.digits)
        return Unavailable(f"the groups are those of axes ({names}), but with members in an order that no axes give")
    return Unavailable(_in_words(positions, mesh))


def _in_words(positions: Ids, mesh: Mesh) -> str:
    """What groups are that are no axes: in numbers, where they stay on one axis."""
    coordinates = np.unravel_index(positions, mesh.axis_sizes)
    over = [axis for axis, c in enumerate(coordinates) if (c != c[:, :1]).any()]
    groups = list(dict.fromkeys(map(tuple, coordinates[over[0]].tolist())))
    if len(over) > 1 or len(groups) > _MOST_IN_WORDS:
        return f"the groups are not those of any axes or parts of axes of the {mesh}"
    name, size = mesh.axis_names[over[0]], mesh.axis_sizes[over[0]]
    written = ", ".join("{" + ",".join(map(str, group)) + "}" for group in groups)
    return f"the groups are no axes: {written} of the {size} positions on {name}, as axis_index_groups makes"


class _Digits:
    """Which digits of a mixed-radix number change inside of groups, and whether they count in order."""

    def __init__(self, digits: tuple[int, ...], in_order: bool) -> None:
        self.digits = digits
        self.in_order = in_order


def _digits(positions: Ids, radices: Sequence[int]) -> _Digits | None:
    """The digits that the groups run over; None when a group is not all values of the ones that change.

    The digits are ordered slowest-varying first if the members count through them in some order, else
    as in the mesh. Positions must be distinct.
    """
    values = np.unravel_index(positions, tuple(radices))
    changing = [digit for digit, value in enumerate(values) if (value != value[:, :1]).any()]
    if math.prod(radices[digit] for digit in changing) != positions.shape[1]:
        return None
    first_group = {digit: values[digit][0] for digit in changing}
    stride = {digit: int(np.argmax(value != value[0])) for digit, value in first_group.items()}
    order = tuple(sorted(changing, key=lambda digit: -stride[digit]))
    counted = np.unravel_index(np.arange(positions.shape[1]), tuple(radices[digit] for digit in order) or (1,))
    in_order = all((values[digit] == count).all() for digit, count in zip(order, counted, strict=False))
    return _Digits(order if in_order else tuple(changing), in_order)


def _factorizations(sizes: Sequence[int]) -> Iterator[list[AxisRef]]:
    """All ways to cut axes into prime factors, as parts of axes named by their index, major first."""
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
    """Distinct orders of the prime factors of an axis size."""
    if size == 1:
        return ((1,),)
    return tuple(
        (prime, *rest)
        for prime in range(2, size + 1)
        if size % prime == 0 and all(prime % divisor for divisor in range(2, math.isqrt(prime) + 1))
        for rest in (((),) if prime == size else _ordered_factors(size // prime))
    )


def _joined(parts: Sequence[AxisRef], mesh: Mesh) -> Axes:
    """Names of the parts, with neighbours of one axis that count on joined."""
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
