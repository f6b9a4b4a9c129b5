"""The axes of groups the plain way: from the coordinates of every device, digit by digit."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from inspector.analysis.collectives.axes import Axes, _factorizations, _joined, _part
from inspector.errors import Unavailable
from inspector.hlo.devices.mesh import Mesh
from inspector.hlo.devices.replica_groups import Ids, MeshGroups, ReplicaGroups


def plain_axes(
    devices: Ids, form: ReplicaGroups, mesh: Mesh, num_replicas: int, num_partitions: int, ordered: bool
) -> Axes | Unavailable:
    """Returns the expected result of `axes_of_groups`."""
    if (devices < 0).any():
        return Unavailable("the groups have different sizes, which groups over mesh axes never have")
    ids, others, count = devices // num_partitions, devices % num_partitions, num_replicas
    if mesh.kind == "partition":
        ids, others, count = others, ids, num_partitions
    if (others != others[:, :1]).any():
        return Unavailable(f"the groups combine replicas with partitions, and the mesh names {mesh.kind}s only")
    if count != mesh.size:
        return Unavailable(f"the {mesh} has {mesh.size} positions, but the program has {count} {mesh.kind}s")
    if missing := num_replicas * num_partitions - len(np.unique(devices)):
        return Unavailable(f"the groups leave out {missing} devices")
    if devices.size != np.unique(devices).size:
        return Unavailable("the groups overlap")
    positions = np.empty(mesh.size, np.int64)
    for position, id_there in enumerate(mesh.device_ids or range(mesh.size)):
        positions[id_there] = position
    axes = _matched(positions[ids], mesh, ordered)
    if isinstance(axes, Unavailable) or not isinstance(form, MeshGroups) or not form.mesh_axes:
        return axes
    named = dict(zip(mesh.axis_names, mesh.axis_sizes, strict=True))
    written = tuple(axis.name if axis.pre_size is None else _part(axis) for axis in form.axes)
    large = tuple(axis for axis in written if named.get(axis) != 1)
    return written if dict(form.mesh_axes) == named and axes == large else axes


def _matched(positions: Ids, mesh: Mesh, ordered: bool) -> Axes | Unavailable:
    whole = _digits(positions, mesh.axis_sizes)
    if whole is not None and (whole[1] or not ordered):
        return tuple(mesh.axis_names[digit] for digit in whole[0])
    found: list[Axes] = []
    for factors in itertools.islice(_factorizations(mesh.axis_sizes), 512):
        digits = _digits(positions, tuple(factor.size or 1 for factor in factors))
        if digits is not None and (digits[1] or not ordered):
            found.append(_joined([factors[digit] for digit in digits[0]], mesh))
    if found:
        return min(found, key=len)
    if whole is not None:
        names = ", ".join(mesh.axis_names[digit] for digit in whole[0])
        return Unavailable(f"the groups are those of axes ({names}), but their members are in a different order")
    return Unavailable(_in_words(positions, mesh))


def _digits(positions: Ids, sizes: Sequence[int]) -> tuple[tuple[int, ...], bool] | None:
    """The digits that change in groups, and whether every group counts through them in order."""
    values = np.unravel_index(positions, tuple(sizes))
    changing = [digit for digit, value in enumerate(values) if (value != value[:, :1]).any()]
    if math.prod(sizes[digit] for digit in changing) != positions.shape[1]:
        return None
    first = {digit: values[digit][0] for digit in changing}
    order = tuple(sorted(changing, key=lambda digit: -int(np.argmax(first[digit] != first[digit][0]))))
    counted = np.unravel_index(np.arange(positions.shape[1]), tuple(sizes[digit] for digit in order) or (1,))
    in_order = all((values[digit] == count).all() for digit, count in zip(order, counted, strict=False))
    return (order if in_order else tuple(changing)), in_order


def _in_words(positions: Ids, mesh: Mesh) -> str:
    coordinates = np.unravel_index(positions, mesh.axis_sizes)
    over = [axis for axis, c in enumerate(coordinates) if (c != c[:, :1]).any()]
    groups = list(dict.fromkeys(map(tuple, coordinates[over[0]].tolist())))
    if len(over) > 1 or len(groups) > 8:
        return f"the groups match no axes or parts of axes of the {mesh}"
    written = ", ".join("{" + ",".join(map(str, group)) + "}" for group in groups)
    return (
        f"the groups match no axes: {written} of the {mesh.axis_sizes[over[0]]} positions on"
        f" {mesh.axis_names[over[0]]}, as with axis_index_groups"
    )
