"""The members of a collective's groups, and the data of each before and after the collective.

The table describes the data in words and bytes, following the definitions in XLA's operation semantics
(https://openxla.org/xla/operation_semantics). The tests compare it with real exchanges between devices.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from inspector.analysis.collectives.participation import Groups
from inspector.errors import ModuleError, Unavailable
from inspector.hlo.devices.mesh import Mesh
from inspector.support.tables import Kind, make_table

if TYPE_CHECKING:
    import pandas as pd

    from inspector.analysis.collectives.collective import Collective
    from inspector.hlo.shape import Shape

_KINDS: Mapping[str, Kind] = {
    "group": "int",
    "position": "int",
    "logical_id": "int",
    "replica": "int",
    "partition": "int",
    "device": "int",
    "coordinates": "object",
    "before": "text",
    "before_bytes": "int",
    "after": "text",
    "after_bytes": "int",
    "receives_from": "object",
}

COLUMNS = tuple(_KINDS)
"""Columns of `members()`."""

_MOST_MEMBERS = 1 << 18

_REDUCTIONS = {
    "add": "sum",
    "multiply": "product",
    "maximum": "maximum",
    "minimum": "minimum",
    "and": "logical and",
    "or": "logical or",
    "xor": "exclusive or",
}


@dataclasses.dataclass(frozen=True, slots=True)
class _Member:
    """One member of a group, as described in the table.

    Attributes:
      group: logical ids of its group, in order.
      position: its index in the group.
      collective: the operation.
    """

    group: tuple[int, ...]
    position: int
    collective: Collective

    @property
    def logical_id(self) -> int:
        return self.group[self.position]

    @property
    def operand(self) -> str:
        return _shapes(self.collective.operand_shapes)

    @property
    def result(self) -> str:
        return _shapes(self.collective.result_shapes)


def members(
    collective: Collective, mesh: Mesh | None, num_replicas: int, num_partitions: int, devices: Sequence[int] = ()
) -> pd.DataFrame:
    """Returns a table with one row per group member; for a collective-permute, one row per device.

    Args:
      collective: the operation.
      mesh: the mesh for `coordinates`; None leaves them empty.
      num_replicas: number of replicas of the program.
      num_partitions: number of partitions of the program.
      devices: device ids by logical id; () leaves `device` missing.

    Returns:
      A table with these columns:
        group, position: index of the group, and of the member in it. Missing for a collective-permute, which has pairs
          instead of groups.
        logical_id: `replica * num_partitions + partition`, the index into the program's device assignment:
          `Compiled.devices[logical_id]` is the device there.
        replica, partition: the two parts of `logical_id`.
        device: id of that device.
        coordinates: mesh indices in the order of the mesh's axes; () if the mesh does not contain the id.
        before, after: description of the member's data. *In order* is in the order of the group; `4 x f32[8]` are four
          arrays of the same shape.
        before_bytes, after_bytes: size of that data.
        receives_from: logical ids of the members whose data it ends up with, including its own.

    Raises:
      ModuleError: the groups contain ids that the program does not have, so the members are unknown; or there are
        more members than a table can list.
    """
    groups = _groups(collective, num_replicas * num_partitions)
    coordinates = _coordinates(mesh, num_replicas, num_partitions)
    rows: list[tuple[object, ...]] = []
    listed: list[int] = []
    last: tuple[int, ...] | None = None
    described = _described(collective, groups, num_replicas * num_partitions)
    for group, position, logical_id, before, after, sources in described:
        if sources is not last:  # one list per group: one per member would grow with the square of the group's size
            listed, last = list(sources), sources
        device = devices[logical_id] if logical_id < len(devices) else None
        place = (group, position, logical_id, logical_id // num_partitions, logical_id % num_partitions, device)
        data = (before, collective.operand_bytes, after, collective.result_bytes)
        rows.append((*place, coordinates[logical_id], *data, listed))
    return make_table(_KINDS, rows)


def _groups(collective: Collective, device_count: int) -> Groups:
    """Returns the groups of devices, if a table can list them."""
    devices = collective.who.devices
    count = 0 if isinstance(devices, Unavailable) else max(devices.size, device_count)
    if count > _MOST_MEMBERS:
        raise ModuleError(
            f"Cannot list the members of {collective.name}: there are {count:,}, and a table has at most"
            f" {_MOST_MEMBERS:,} rows. Collective.groups has their ids."
        )
    if isinstance(collective.participants, Unavailable):
        raise ModuleError(f"The members of {collective.name} are unknown: {collective.participants.reason}")
    return collective.participants


_Description: TypeAlias = tuple[int | None, int | None, int, str, str, tuple[int, ...]]


def _described(collective: Collective, groups: Groups, id_count: int) -> Iterator[_Description]:
    """Yields (group, position, logical id, before, after, sources) for every member."""
    if collective.opcode == "collective-permute":
        yield from _permuted(collective, groups, id_count)
        return
    describe = _PHRASES[collective.opcode]
    for index, group in enumerate(groups):
        for position, logical_id in enumerate(group):
            before, after = describe(_Member(group, position, collective))
            sources = group[:1] if collective.opcode == "collective-broadcast" else group
            yield index, position, logical_id, before, after, sources


def _permuted(collective: Collective, pairs: Groups, id_count: int) -> Iterator[_Description]:
    targets: dict[int, list[int]] = {}
    source: dict[int, int] = {}
    for sender, receiver in pairs:
        targets.setdefault(sender, []).append(receiver)
        source[receiver] = sender
    operand, result = _shapes(collective.operand_shapes), _shapes(collective.result_shapes)
    no_sources: tuple[int, ...] = ()
    for logical_id in range(id_count):
        sent = ", ".join(map(str, targets.get(logical_id, ())))
        before = f"own {operand}, " + (f"sent to id {sent}" if sent else "not sent")
        if logical_id in source:
            after = f"{result} of id {source[logical_id]}"
            sources: tuple[int, ...] = (source[logical_id],)
        else:
            after, sources = f"zeros {result} (no pair has it as target)", no_sources
        yield None, None, logical_id, before, after, sources


def _all_reduce(member: _Member) -> tuple[str, str]:
    count = len(member.group)
    return f"own {member.operand}", f"{_reduction(member)} of all {count}: {member.result}, the same on each"


def _all_gather(member: _Member) -> tuple[str, str]:
    count, along = len(member.group), _along(member)
    return (
        f"block {member.position} of {count}{along}: {member.operand}",
        f"all {count} blocks{along}, in order: {member.result}",
    )


def _reduce_scatter(member: _Member) -> tuple[str, str]:
    count, along, blocks = len(member.group), _along(member), member.collective.blocks
    if isinstance(blocks, Unavailable):
        block = f"one of {count} blocks (block number unknown: {blocks.reason})"
    else:
        block = f"block {blocks[member.logical_id % len(blocks)] if blocks else member.position} of {count}"
    return (
        f"own {member.operand}, all {count} blocks{along}",
        f"{block}{along} of the {_reduction(member)} of all {count}: {member.result}",
    )


def _all_to_all(member: _Member) -> tuple[str, str]:
    count = len(member.group)
    if len(member.collective.operand_shapes) == count > 1 and not member.collective.dimensions:
        return (
            f"own {member.operand}, operand j for member j",
            f"operand {member.position} of all {count}, in order: {member.result}",
        )
    along = _along(member)
    return (
        f"own {member.operand}, block j of {count}{along} for member j",
        f"block {member.position} of all {count}{along}, in order: {member.result}",
    )


def _ragged_all_to_all(member: _Member) -> tuple[str, str]:
    count = len(member.group)
    return (
        f"own {member.operand}: slices chosen by its offsets and sizes at run time, one for each of {count} members",
        f"{member.result}: the slices sent to it, at the offsets that the senders chose; its own output operand elsewhere",
    )


def _collective_broadcast(member: _Member) -> tuple[str, str]:
    root = member.group[0]
    before = "sent to all" if member.logical_id == root else "not used"
    return f"own {member.operand}, {before}", f"{member.result} of id {root}, the first of the group"


_PHRASES: dict[str, Callable[[_Member], tuple[str, str]]] = {
    "all-reduce": _all_reduce,
    "all-gather": _all_gather,
    "reduce-scatter": _reduce_scatter,
    "all-to-all": _all_to_all,
    "ragged-all-to-all": _ragged_all_to_all,
    "collective-broadcast": _collective_broadcast,
}


def _reduction(member: _Member) -> str:
    opcode = member.collective.reduction
    return _REDUCTIONS.get(opcode, opcode or "reduction")


def _along(member: _Member) -> str:
    dimensions = member.collective.dimensions
    return f" along dimension {dimensions[0]}" if dimensions else ""


def _shapes(shapes: tuple[Shape, ...]) -> str:
    texts = [str(shape.without_layout()) for shape in shapes]
    if len(texts) > 1 and len(set(texts)) == 1:
        return f"{len(texts)} x {texts[0]}"  # a table cuts the list off
    return texts[0] if len(texts) == 1 else "(" + ", ".join(texts) + ")"


def _coordinates(mesh: Mesh | None, num_replicas: int, num_partitions: int) -> list[tuple[int, ...]]:
    """Returns mesh indices by logical id; all are () if the mesh does not fit the program."""
    count = num_replicas if mesh is None or mesh.kind == "replica" else num_partitions
    if mesh is None or mesh.size != count:
        return [()] * (num_replicas * num_partitions)
    devices = np.arange(num_replicas * num_partitions)
    ids = devices // num_partitions if mesh.kind == "replica" else devices % num_partitions
    indices = mesh.coordinates(mesh.position_of_id[ids])
    return [tuple(int(index) for index in each) for each in zip(*indices, strict=True)]
