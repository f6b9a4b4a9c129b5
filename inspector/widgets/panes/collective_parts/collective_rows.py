"""The rows of the CollectivesMessage pane: a collective, its groups and its members, as the browser draws them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, TypedDict

from inspector.analysis.collectives import collective as analysis
from inspector.analysis.collectives.collectives import Collectives
from inspector.analysis.collectives.columns import COLLECTIVE_COLUMNS, CollectiveRow
from inspector.analysis.collectives.participation import Participation
from inspector.analysis.collectives.pricing.price import Pricing
from inspector.analysis.profile.collective_times import collective_time
from inspector.analysis.sharding import reshardings
from inspector.analysis.sharding.needed_by import SplitInstructions
from inspector.analysis.sharding.whole_arrays import WholeArrays
from inspector.errors import Unavailable
from inspector.hlo.devices import mesh as hlo
from inspector.widgets import messages
from inspector.widgets.cells import source_line
from inspector.widgets.described_tables import cells_of

# Members are drawn individually; a picture with more members is not readable.
_MAX_MEMBERS = 256

_MOST_DRAWN = 4096
"""Maximum number of devices that the browser draws."""

# Maximum number of ids that are drawn as groups. Beyond it, the browser gets the first groups, each with its first ids and its last.
_MAX_IDS = 8192
_MAX_GROUPS = 64
_MAX_OF_GROUP = 8


class MeshMessage(TypedDict):
    """Named axes over devices, as `inspector.hlo.devices.mesh.Mesh`; `physical_ids` are the devices that the program was compiled for."""

    axis_names: list[str]
    axis_sizes: list[int]
    kind: Literal["replica", "partition"]
    device_ids: list[int] | None
    physical_ids: list[int] | None


class Member(TypedDict):
    """The role of one logical id in a collective.

    Attributes:
      group: index of its group; None in a collective-permute, which has pairs.
      position: position in the group.
      logical_id: position in the program's device assignment.
      coordinates: position on each mesh axis; None without a mesh.
      before, after: description of its data.
    """

    group: int | None
    position: int | None
    logical_id: int
    replica: int
    partition: int
    coordinates: list[int] | None
    before: str
    after: str


class SplitChange(TypedDict):
    """The sharding of an array before a collective, the required sharding, and a remedy.

    Attributes:
      arrays: the argument, the result or both that the array is; empty for an intermediate value.
      before, after: sharding of the whole array, "" if unknown.
      needed_by: instructions on whole arrays that may require the change; empty if no passes are recorded.
    """

    had: str
    needed: str
    advice: str
    arrays: list[str]
    before: str
    after: str
    needed_by: list[str]


class CollectiveMessage(TypedDict):
    """A collective instruction.

    Attributes:
      axes: mesh axes that it works over; None if its groups do not match axes, with `axes_reason`.
      groups: lists of ids, or source-target pairs if `is_pairs`.
      groups_cut: whether only the first groups are listed, and of long groups only the first ids and the last.
      group_count: total number of groups.
      group_sizes: number of ids in the smallest and in the largest group.
      executions: number of executions per execution of the program; None if unknown.
      cells: cells of the table, in the order of `CollectivesMessage.columns`.
      phases: parts of a differentiated program that it belongs to.
      source_from: the instruction that `source` was taken from, or the reason why there is none.
      inserted_by: the pass or partitioner that inserted it, "" if it was in the user's program.
      resharding: the change of sharding, if the partitioner inserted it.
      members: members to draw; empty if there are too many.
    """

    name: str
    opcode: str
    computation: str
    context: str
    axes: list[str] | None
    axes_reason: str
    groups: list[list[int]]
    groups_cut: bool
    group_count: int
    group_sizes: tuple[int, int]
    is_pairs: bool
    group_mode: str
    operand_shapes: list[str]
    result_shapes: list[str]
    executions: int | None
    cells: list[messages.TableCell]
    phases: list[str]
    source: messages.SourceLine | None
    source_from: str
    inserted_by: str
    resharding: SplitChange | None
    members: list[Member]


def rows_of(
    program_collectives: Collectives,
    pricing: Pricing,
    arrays: WholeArrays | None = None,
    inside: SplitInstructions | None = None,
    times: Mapping[str, float] | None = None,
) -> list[CollectiveMessage]:
    """Returns all collectives, in order.

    Args:
      program_collectives: the collectives.
      pricing: the prices of these collectives on the target's links.
      arrays: arrays at the ends of the program.
      inside: instructions of the module that the partitioner received.
      times: measured time of each instruction (`Profile.execution_times`); None without a profile.
    """
    groups = {key: _groups(who) for key, who in {id(one.who): one.who for one in program_collectives}.items()}
    changes = [reshardings.resharding(each, arrays, inside) for each in program_collectives]
    return [
        _row(each, groups[id(each.who)], program_collectives, pricing, changed, times)
        for each, changed in zip(program_collectives, changes, strict=True)
    ]


def without(times: Mapping[str, float] | None) -> tuple[str, ...]:
    """Returns the columns that the table leaves out: the measured times without a profile."""
    return ("measured_s",) if times is None else ()


def mesh_of(mesh: hlo.Mesh | None) -> MeshMessage | None:
    """Converts the mesh of a program, if it has one."""
    if mesh is None:
        return None
    return MeshMessage(
        axis_names=list(mesh.axis_names),
        axis_sizes=list(mesh.axis_sizes),
        kind=mesh.kind,
        device_ids=None if mesh.device_ids is None else list(mesh.device_ids),
        physical_ids=None if mesh.physical_ids is None or mesh.size > _MOST_DRAWN else list(mesh.physical_ids),
    )


def _row(
    collective: analysis.Collective,
    groups: list[list[int]],
    program_collectives: Collectives,
    pricing: Pricing,
    changed: reshardings.Resharding | Unavailable,
    times: Mapping[str, float] | None,
) -> CollectiveMessage:
    price, network = pricing.price(collective), pricing.links.network
    axes, inserted_by = collective.axes, collective.inserted_by
    source_from = collective.source_from
    estimated_s = network if isinstance(network, Unavailable) else price.estimated_s
    measured_s = None if times is None else collective_time(collective, times)
    row = CollectiveRow(collective, [], price.sent_bytes, estimated_s, measured_s)
    return CollectiveMessage(
        name=collective.name,
        opcode=collective.opcode,
        computation=collective.computation,
        context=" > ".join(collective.context),
        axes=None if isinstance(axes, Unavailable) else [str(axis) for axis in axes],
        axes_reason=axes.reason if isinstance(axes, Unavailable) else "",
        groups=groups,
        groups_cut=_is_cut(collective.who),
        group_count=collective.who.shape[0],
        group_sizes=collective.who.group_sizes,
        is_pairs=collective.form is None,
        group_mode=str(collective.mode),
        operand_shapes=[str(s.without_layout()) for s in collective.operand_shapes],
        result_shapes=[str(s.without_layout()) for s in collective.result_shapes],
        executions=None if isinstance(collective.executions, Unavailable) else collective.executions,
        cells=cells_of(COLLECTIVE_COLUMNS, row, without(times)),
        phases=list(collective.phases),
        source=source_line(collective.origin.frames),
        source_from=source_from.reason if isinstance(source_from, Unavailable) else source_from,
        inserted_by="" if isinstance(inserted_by, Unavailable) or inserted_by == "user" else inserted_by,
        resharding=None if isinstance(changed, Unavailable) else _split_change(changed),
        members=_members(collective, program_collectives),
    )


def _split_change(changed: reshardings.Resharding) -> SplitChange:
    array = changed.array
    return SplitChange(
        had=changed.had,
        needed=changed.needed,
        advice=changed.advice,
        arrays=[] if array is None else list(array.names),
        before="" if array is None else array.before,
        after="" if array is None else array.after,
        needed_by=[str(each) for each in changed.needed_by],
    )


def _is_cut(who: Participation) -> bool:
    return math.prod(who.shape) > _MAX_IDS


def _groups(who: Participation) -> list[list[int]]:
    if not _is_cut(who):
        return [list(group) for group in who.groups]
    groups = [[member for member in group if member >= 0] for group in who.first_groups(_MAX_GROUPS).tolist()]
    return [group if len(group) <= _MAX_OF_GROUP else [*group[:_MAX_OF_GROUP], group[-1]] for group in groups]


def _members(collective: analysis.Collective, program_collectives: Collectives) -> list[Member]:
    if program_collectives.num_replicas * program_collectives.num_partitions > _MAX_MEMBERS:
        return []
    return [
        Member(
            group=None if collective.form is None else int(row["group"]),
            position=None if collective.form is None else int(row["position"]),
            logical_id=int(row["logical_id"]),
            replica=int(row["replica"]),
            partition=int(row["partition"]),
            coordinates=[int(c) for c in row["coordinates"]] or None,
            before=row["before"],
            after=row["after"],
        )
        for row in program_collectives.members(collective.name).to_dict("records")
    ]
