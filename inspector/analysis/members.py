"""Who holds what: every member of a collective's groups, before and after.

A table in words and bytes, from the definitions of the collectives in XLA's operation semantics
(https://openxla.org/xla/operation_semantics); the tests hold it to what devices really exchanged.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from inspector.analysis.axes import position_of_id
from inspector.analysis.participation import Groups
from inspector.errors import ModuleError, Unavailable
from inspector.hlo.mesh import Mesh

if TYPE_CHECKING:
    import pandas as pd

    from inspector.analysis.collectives import Collective
    from inspector.hlo.shape import Shape

COLUMNS = (
    "group",
    "position",
    "device",
    "replica",
    "partition",
    "coordinates",
    "before",
    "before_bytes",
    "after",
    "after_bytes",
    "receives_from",
)
"""Columns of `members()`."""

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
    """One member as the phrases see it.

    Attributes:
      group: the devices of its group, in order.
      position: its index in the group.
      collective: the operation.
    """

    group: tuple[int, ...]
    position: int
    collective: Collective

    @property
    def device(self) -> int:
        return self.group[self.position]

    @property
    def operand(self) -> str:
        return _shapes(self.collective.operand_shapes)

    @property
    def result(self) -> str:
        return _shapes(self.collective.result_shapes)


def members(collective: Collective, mesh: Mesh | None, num_replicas: int, num_partitions: int) -> pd.DataFrame:
    """One row a member of every group; of a collective-permute, one row a device.

    Args:
      collective: which.
      mesh: for `coordinates`; None leaves them empty.
      num_replicas: of the program.
      num_partitions: of the program.

    Returns:
      Columns: `group` and `position` in it (of a collective-permute, group 0 holds all devices); `device`
      is `replica * num_partitions + partition`; `coordinates` are mesh indices in the order of the
      mesh's axes, or () where the mesh does not hold the device; `before` and `after` say what the
      device holds, `before_bytes` and `after_bytes` how much; `receives_from` lists the devices whose
      data it ends up with, itself included.

    Raises:
      ModuleError: the groups name ids that the program does not have, so its members are not known.
    """
    import pandas as pd

    if isinstance(collective.participants, Unavailable):
        raise ModuleError(f"The members of {collective.name} are not known: {collective.participants.reason}")

    coordinates = _coordinates(mesh, num_replicas, num_partitions)
    rows = []
    for group, position, device, before, after, sources in _described(
        collective, collective.participants, num_replicas * num_partitions
    ):
        rows.append(
            {
                "group": group,
                "position": position,
                "device": device,
                "replica": device // num_partitions,
                "partition": device % num_partitions,
                "coordinates": coordinates[device],
                "before": before,
                "before_bytes": collective.operand_bytes,
                "after": after,
                "after_bytes": collective.result_bytes,
                "receives_from": list(sources),
            }
        )
    return pd.DataFrame(rows, columns=list(COLUMNS))


_Description: TypeAlias = tuple[int, int, int, str, str, tuple[int, ...]]


def _described(collective: Collective, groups: Groups, device_count: int) -> Iterator[_Description]:
    """(group, position, device, before, after, sources) of every member."""
    if collective.opcode == "collective-permute":
        yield from _permuted(collective, groups, device_count)
        return
    describe = _PHRASES[collective.opcode]
    for index, group in enumerate(groups):
        for position, device in enumerate(group):
            before, after = describe(_Member(group, position, collective))
            sources = group[:1] if collective.opcode == "collective-broadcast" else group
            yield index, position, device, before, after, sources


def _permuted(collective: Collective, pairs: Groups, device_count: int) -> Iterator[_Description]:
    targets: dict[int, list[int]] = {}
    source: dict[int, int] = {}
    for sender, receiver in pairs:
        targets.setdefault(sender, []).append(receiver)
        source[receiver] = sender
    operand, result = _shapes(collective.operand_shapes), _shapes(collective.result_shapes)
    no_one: tuple[int, ...] = ()
    for device in range(device_count):
        sent = ", ".join(map(str, targets.get(device, ())))
        before = f"own {operand}, " + (f"sent to device {sent}" if sent else "sent to no one")
        if device in source:
            after = f"{result} of device {source[device]}"
            sources: tuple[int, ...] = (source[device],)
        else:
            after, sources = f"zeros {result} (no pair has it as target)", no_one
        yield 0, device, device, before, after, sources


def _all_reduce(member: _Member) -> tuple[str, str]:
    count = len(member.group)
    return f"own {member.operand}", f"{_reduction(member)} of all {count}: {member.result}, the same on each"


def _all_gather(member: _Member) -> tuple[str, str]:
    count, along = len(member.group), _along(member)
    return (
        f"block {member.position} of {count}{along}: {member.operand}",
        f"all {count} blocks{along}, in the order of the group: {member.result}",
    )


def _reduce_scatter(member: _Member) -> tuple[str, str]:
    count, along = len(member.group), _along(member)
    return (
        f"own {member.operand}, all {count} blocks{along}",
        f"block {member.position} of {count}{along} of the {_reduction(member)} of all {count}: {member.result}",
    )


def _all_to_all(member: _Member) -> tuple[str, str]:
    count = len(member.group)
    if len(member.collective.operand_shapes) == count > 1 and not member.collective.dimensions:
        return (
            f"own {member.operand}: operand j goes to member j",
            f"operand {member.position} of each of the {count} members, in their order: {member.result}",
        )
    along = _along(member)
    return (
        f"own {member.operand}: block j of {count}{along} goes to member j",
        f"block {member.position} of each of the {count} members{along}, in their order: {member.result}",
    )


def _ragged_all_to_all(member: _Member) -> tuple[str, str]:
    count = len(member.group)
    return (
        f"own {member.operand}: slices chosen by its offsets and sizes at run time, one for each of {count} members",
        f"{member.result}: the slices sent to it, at the offsets their senders chose; elsewhere its own output operand",
    )


def _collective_broadcast(member: _Member) -> tuple[str, str]:
    root = member.group[0]
    before = "the one that is sent" if member.device == root else "not used"
    return f"own {member.operand}, {before}", f"{member.result} of device {root}, the first of the group"


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
    return texts[0] if len(texts) == 1 else "(" + ", ".join(texts) + ")"


def _coordinates(mesh: Mesh | None, num_replicas: int, num_partitions: int) -> list[tuple[int, ...]]:
    """Mesh indices of every device, by flattened id; () each where the mesh does not hold the program."""
    count = num_replicas if mesh is None or mesh.kind == "replica" else num_partitions
    if mesh is None or mesh.size != count:
        return [()] * (num_replicas * num_partitions)
    devices = np.arange(num_replicas * num_partitions)
    ids = devices // num_partitions if mesh.kind == "replica" else devices % num_partitions
    indices = np.unravel_index(position_of_id(mesh)[ids], mesh.axis_sizes)
    return [tuple(int(index) for index in each) for each in zip(*indices, strict=True)]
