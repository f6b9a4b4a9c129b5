"""Collectives and their replica groups, for the Collectives pane."""

from __future__ import annotations

from inspector.analysis.collective import Collective
from inspector.analysis.collectives import Collectives
from inspector.errors import Unavailable
from inspector.hlo.mesh import Mesh
from inspector.widgets import messages
from inspector.widgets.cells import display_file

# Members are drawn one by one; more than this is no picture any more.
_MAX_MEMBERS = 256
_MAX_GROUPS = 1024


def collectives_message(variant: int, stage: messages.Stage, found: Collectives) -> messages.Collectives:
    """What the pane shows of one stage of a variant."""
    return messages.Collectives(
        type="collectives",
        variant=variant,
        stage=stage,
        mesh=_mesh(found.mesh),
        note="" if len(found) else _why_none(found, stage),
        rows=[_row(c, found) for c in found],
    )


def _why_none(found: Collectives, stage: messages.Stage) -> str:
    devices = found.num_replicas * found.num_partitions
    if devices == 1:
        return (
            "The program runs on one device, so nothing is exchanged. Give it an axis environment"
            " (axis_env=[('i', 4)]), or shard it over a mesh."
        )
    if stage == "hlo":
        return (
            f"The program has no collective before optimization. It runs on {devices:,} devices: what the partitioner"
            " adds stands in the optimized HLO."
        )
    return f"The program runs on {devices:,} devices that exchange nothing."


def _mesh(mesh: Mesh | None) -> messages.Mesh | None:
    if mesh is None:
        return None
    return messages.Mesh(
        axis_names=list(mesh.axis_names),
        axis_sizes=list(mesh.axis_sizes),
        kind=mesh.kind,
        device_ids=None if mesh.device_ids is None else list(mesh.device_ids),
    )


def _row(collective: Collective, found: Collectives) -> messages.Collective:
    axes, inserted_by = collective.axes, collective.inserted_by
    executions, source_from = collective.executions, collective.source_from
    frame = collective.origin.frames[0] if collective.origin.frames else None
    return messages.Collective(
        name=collective.name,
        opcode=collective.opcode,
        computation=collective.computation,
        context=" > ".join(collective.context),
        axes=None if isinstance(axes, Unavailable) else [str(axis) for axis in axes],
        axes_reason=axes.reason if isinstance(axes, Unavailable) else "",
        groups=[list(group) for group in collective.groups[:_MAX_GROUPS]],
        is_pairs=collective.form is None,
        group_mode=str(collective.mode),
        operand_shapes=[str(s.without_layout()) for s in collective.operand_shapes],
        result_shapes=[str(s.without_layout()) for s in collective.result_shapes],
        operand_bytes=collective.operand_bytes,
        executions=None if isinstance(executions, Unavailable) else executions,
        executions_reason=executions.reason if isinstance(executions, Unavailable) else "",
        phases=list(collective.phases),
        source=None if frame is None else messages.SourceLine(file=display_file(frame.file), line=frame.line),
        source_from=source_from.reason if isinstance(source_from, Unavailable) else source_from,
        inserted_by="" if isinstance(inserted_by, Unavailable) or inserted_by == "user" else inserted_by,
        members=_members(collective, found),
    )


def _members(collective: Collective, found: Collectives) -> list[messages.Member]:
    if found.num_replicas * found.num_partitions > _MAX_MEMBERS:
        return []
    return [
        messages.Member(
            group=None if collective.form is None else int(row["group"]),
            position=None if collective.form is None else int(row["position"]),
            logical_id=int(row["logical_id"]),
            replica=int(row["replica"]),
            partition=int(row["partition"]),
            coordinates=[int(c) for c in row["coordinates"]] or None,
            before=row["before"],
            after=row["after"],
        )
        for row in found.members(collective.name).to_dict("records")
    ]
