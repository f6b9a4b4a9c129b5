"""Collectives and their replica groups."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, TypedDict

from inspector import settings
from inspector.analysis import collective as analysis
from inspector.analysis import resharding
from inspector.analysis.collectives import Collectives as Found
from inspector.analysis.collectives import collectives
from inspector.analysis.communication import communication
from inspector.analysis.device_ids import physical_ids
from inspector.analysis.exchanges.textbook import ALGORITHMS, schedule
from inspector.analysis.participation import Participation
from inspector.analysis.peaks import peak_of
from inspector.analysis.resharding import full_rematerialisations
from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.preview import Preview
from inspector.errors import AtLeast, CancelledError, ParameterError, Unavailable
from inspector.hlo import mesh as hlo
from inspector.hlo.module import Module
from inspector.platforms import Peak
from inspector.stages.lowered import Lowered
from inspector.widgets import messages
from inspector.widgets.cells import display_file
from inspector.widgets.panes.observed import ObserveRequest, observations, observed_message
from inspector.widgets.panes.pane import Context, Entry, Pane
from inspector.widgets.variants import Variant
from inspector.widgets.work import ObserveJob

# Members are drawn one by one; more than this is no picture any more.
_MAX_MEMBERS = 256

# Members of a group whose blocks can be followed, and of one in which each has another block for each.
_MOST_FOLLOWED = 16
_MOST_SENT = 8

_MOST_DRAWN = 4096
"""Devices that the browser draws."""

# Ids that are drawn as groups. Of more, the browser has the first groups, each with its first ids and its last.
_MAX_IDS = 8192
_MAX_GROUPS = 64
_MAX_OF_GROUP = 8


class Mesh(TypedDict):
    """Named axes over devices, as `inspector.hlo.mesh.Mesh`; `physical_ids` also as build options assign them."""

    axis_names: list[str]
    axis_sizes: list[int]
    kind: Literal["replica", "partition"]
    device_ids: list[int] | None
    physical_ids: list[int] | None


class Member(TypedDict):
    """One logical id's part in a collective.

    Attributes:
      group: index of its group, None in a collective-permute, which has pairs.
      position: its place in the group.
      logical_id: its place in the program's device assignment.
      coordinates: its place on each mesh axis, or None without a mesh.
      before, after: what it holds, in words.
    """

    group: int | None
    position: int | None
    logical_id: int
    replica: int
    partition: int
    coordinates: list[int] | None
    before: str
    after: str


class Resharding(TypedDict):
    """A change of how an array is split, as `inspector.analysis.resharding.Resharding`."""

    name: str
    had: str
    needed: str
    operand_bytes: int | None
    source: messages.SourceLine | None
    advice: str


class SplitChange(TypedDict):
    """How an array is split before, and how it is needed; and what helps."""

    had: str
    needed: str
    advice: str


class Collective(TypedDict):
    """A collective instruction.

    Attributes:
      axes: the mesh axes it works over, None when its groups are no axes; then `axes_reason`.
      groups: lists of ids, or source-target pairs when `is_pairs`.
      groups_cut: whether these are only the first groups, and of long ones the first ids and the last.
      group_count: of all groups.
      group_sizes: how many ids the smallest group has, and the largest.
      operand_bytes: bytes of all operands on one device, each time that it runs.
      link_bytes: that one device at least sends each time; None where only a run tells.
      least_s: the time that this takes at the speed of the links; None where that is not known, with `least_reason`, which
        also says what is left out.
      executions: how often it runs in one execution of the program, None when unknown; then `executions_reason`.
      phases: the parts of a differentiated program that it belongs to.
      source_from: which instruction `source` is from, or why there is none.
      inserted_by: the pass or partitioner that made it, "" when the program asked for it.
      resharding: what it changes, where the partitioner inserted it.
      members: at most as many as are worth drawing.
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
    operand_bytes: int
    link_bytes: float | None
    least_s: float | None
    least_reason: str
    executions: int | None
    executions_reason: str
    phases: list[str]
    source: messages.SourceLine | None
    source_from: str
    inserted_by: str
    resharding: SplitChange | None
    members: list[Member]


class Transfer(TypedDict):
    """What one member of a group sends to another at once, as `inspector.analysis.exchanges.textbook.Transfer`."""

    sender: int
    receiver: int
    blocks: list[int]
    adds: bool


class Exchange(TypedDict):
    """How a textbook's algorithm does a collective among so many members, who are positions in a group.

    Attributes:
      parts: of a block that travel apart.
      steps: what happens at once.
    """

    opcode: str
    algorithm: str
    members: int
    parts: int
    steps: list[list[Transfer]]


class Collectives(TypedDict):
    """The collectives of a variant's program before optimization or after; `note` explains an empty list."""

    type: Literal["collectives"]
    variant: int
    program: messages.Stage
    mesh: Mesh | None
    note: str
    rows: list[Collective]
    exchanges: list[Exchange]


class FullRematerialisations(TypedDict):
    """Arrays of a variant that the partitioner copies whole to every device, as it warned; `unheard` if nobody heard it."""

    type: Literal["full_rematerialisations"]
    variant: int
    unheard: str
    rows: list[Resharding]


class CollectivesPane(Pane):
    """Those of a variant's program before optimization and after, and what they take and give where somebody asks."""

    def __init__(self, name: str, context: Context) -> None:
        """Observes nothing yet."""
        super().__init__(name, context)
        self._held: dict[int, ObserveJob] = {}
        self._enter = settings.here()

    def answer(self, request: ObserveRequest) -> None:
        """Lowering runs user code, and so does what follows in another process: as long as it takes."""
        variant = self.context.variant(request["variant"])
        self.context.publish(observed_message(variant.number, "queued"))
        self.context.later(lambda: self._begin(variant, request["apart"]))

    def cancel(self, variant: Variant) -> None:
        """Stops what runs of it."""
        job = self._held.get(variant.number)
        if job is not None:
            job.cancel()

    def forget(self, variant: Variant) -> Callable[[], object]:
        """Drops what runs of it."""
        job = self._held.pop(variant.number, None)
        return super().forget(variant) if job is None else job.cancel

    def close(self) -> None:
        """Stops all that runs."""
        with self.context.lock:
            jobs = tuple(self._held.values())
            self._held.clear()
        for job in jobs:
            job.cancel()

    def _begin(self, variant: Variant, apart: bool) -> None:
        lowered, observe = variant.lowered, self.context.work().observe
        start = time.perf_counter()
        try:
            if lowered is None or observe is None:
                raise ParameterError(_NO_FUNCTION)
            job = observe(lowered, apart)
        except Exception as error:  # user code ran: whatever it is, it belongs in the pane
            self.context.publish(observed_message(variant.number, "failed", error=error))
            return
        with self.context.lock:
            is_held = self.context.holds(variant)
            before = self._held.pop(variant.number, None)
            if is_held:
                self._held[variant.number] = job
        if before is not None:
            before.cancel()
        if not is_held:
            job.cancel()
            return
        self.context.publish(observed_message(variant.number, "running", elapsed_s=time.perf_counter() - start))
        # It waits, so it is no thread of the Explorer's; and none that the interpreter waits for when it ends.
        threading.Thread(target=self._observe, args=(variant, lowered, job, start), daemon=True).start()

    def _observe(self, variant: Variant, lowered: Lowered, job: ObserveJob, start: float) -> None:
        self._enter()
        try:
            found = job.result()
            before, module = lowered.collectives(), self.context.module(variant)
            counts = (before.num_replicas, before.num_partitions)
            after = None if module is None else collectives(module, before.mesh, *counts)
            items = observations(found, before, after)
            took = time.perf_counter() - start
            message = observed_message(
                variant.number, "done", elapsed_s=took, device_kind=found.device_kind, items=items
            )
        except CancelledError:
            message = observed_message(variant.number, "cancelled", elapsed_s=time.perf_counter() - start)
        except Exception as error:  # whatever it is, it belongs in the pane
            took = time.perf_counter() - start
            message = observed_message(variant.number, "failed", elapsed_s=took, error=error)
        with self.context.lock:
            is_held = self._held.get(variant.number) is job
            if is_held:
                del self._held[variant.number]
        if is_held:
            self.context.publish(message)
            self.context.recorded()

    def program(self, variant: Variant, program: Preview | CompiledProgram, module: Module) -> Iterator[Entry]:
        """Both stages."""
        options = program.build_options
        counts = (options.num_replicas or 1, options.num_partitions or 1)
        mesh = program.program.mesh
        assert variant.lowered is not None, "what has a program was lowered"
        before = variant.lowered.module()
        peak = peak_of(program.target, program.devices if isinstance(program, CompiledProgram) else ())
        physical = physical_ids(mesh, options)
        yield _message(variant.number, "hlo", collectives(before, mesh, *counts), peak, physical)
        yield _message(variant.number, "optimized", collectives(module, mesh, *counts), peak, physical)

    def compiled(self, variant: Variant, compiled: CompiledProgram) -> Iterator[Entry]:
        """What XLA warned of."""
        found = full_rematerialisations(compiled)
        unheard = found.reason if isinstance(found, Unavailable) else ""
        rows = [] if isinstance(found, Unavailable) else [_resharding(each) for each in found]
        yield FullRematerialisations(type="full_rematerialisations", variant=variant.number, unheard=unheard, rows=rows)


def _resharding(each: resharding.Resharding) -> Resharding:
    frame = each.frames[0] if each.frames else None
    return Resharding(
        name=each.name,
        had=each.had,
        needed=each.needed,
        operand_bytes=None if isinstance(each.operand_bytes, Unavailable) else each.operand_bytes,
        source=None if frame is None else messages.SourceLine(file=display_file(frame.file), line=frame.line),
        advice=each.advice,
    )


def _message(
    variant: int, stage: messages.Stage, found: Found, peak: Peak | Unavailable, physical: Sequence[int] | None = None
) -> Collectives:
    different = {id(one.who): one.who for one in found}
    groups = {key: _groups(who) for key, who in different.items()}
    return Collectives(
        type="collectives",
        variant=variant,
        program=stage,
        mesh=_mesh(found.mesh, physical),
        note="" if len(found) else _why_none(found, stage),
        rows=[_row(c, groups[id(c.who)], found, peak) for c in found],
        exchanges=list(_exchanges(found)),
    )


def _exchanges(found: Found) -> Iterator[Exchange]:
    """Of each opcode and size of a group that can be followed on a screen; sizes that differ in one collective are not."""
    kinds = {(one.opcode, one.who.group_sizes) for one in found if one.form is not None}
    for opcode, (smallest, largest) in sorted(kinds):
        if smallest != largest or not 1 < largest <= (_MOST_SENT if opcode == "all-to-all" else _MOST_FOLLOWED):
            continue
        for algorithm in ALGORITHMS:
            steps = schedule(opcode, algorithm, largest)
            if isinstance(steps, Unavailable):
                continue
            yield Exchange(
                opcode=opcode,
                algorithm=algorithm,
                members=largest,
                parts=2 if algorithm == "bidirectional ring" else 1,
                steps=[
                    [Transfer(sender=t.sender, receiver=t.receiver, blocks=list(t.blocks), adds=t.adds) for t in step]
                    for step in steps
                ],
            )


def _why_none(found: Found, stage: messages.Stage) -> str:
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


def _mesh(mesh: hlo.Mesh | None, physical: Sequence[int] | None) -> Mesh | None:
    if mesh is None:
        return None
    return Mesh(
        axis_names=list(mesh.axis_names),
        axis_sizes=list(mesh.axis_sizes),
        kind=mesh.kind,
        device_ids=None if mesh.device_ids is None else list(mesh.device_ids),
        physical_ids=None if physical is None or mesh.size > _MOST_DRAWN else list(physical),
    )


def _row(
    collective: analysis.Collective, groups: list[list[int]], found: Found, peak: Peak | Unavailable
) -> Collective:
    exchange = communication(collective, peak)
    axes, inserted_by = collective.axes, collective.inserted_by
    executions, source_from = collective.executions, collective.source_from
    frame, changed = collective.origin.line, resharding.resharding(collective)
    return Collective(
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
        operand_bytes=collective.operand_bytes,
        link_bytes=_known(exchange.link_bytes),
        least_s=_known(exchange.least_s),
        least_reason=peak.reason if isinstance(peak, Unavailable) else _left_out(exchange.least_s),
        executions=None if isinstance(executions, Unavailable) else executions,
        executions_reason=executions.reason if isinstance(executions, Unavailable) else "",
        phases=list(collective.phases),
        source=None if frame is None else messages.SourceLine(file=display_file(frame.file), line=frame.line),
        source_from=source_from.reason if isinstance(source_from, Unavailable) else source_from,
        inserted_by="" if isinstance(inserted_by, Unavailable) or inserted_by == "user" else inserted_by,
        resharding=None
        if isinstance(changed, Unavailable)
        else SplitChange(had=changed.had, needed=changed.needed, advice=changed.advice),
        members=_members(collective, found),
    )


def _known(number: float) -> float | None:
    """The number, or the known part of it where that is anything."""
    return float(number) if number or not isinstance(number, AtLeast) else None


def _left_out(number: float) -> str:
    return number.reason if isinstance(number, AtLeast) else ""


def _is_cut(who: Participation) -> bool:
    return math.prod(who.shape) > _MAX_IDS


def _groups(who: Participation) -> list[list[int]]:
    if not _is_cut(who):
        return [list(group) for group in who.groups]
    groups = [[member for member in group if member >= 0] for group in who.first_groups(_MAX_GROUPS).tolist()]
    return [group if len(group) <= _MAX_OF_GROUP else [*group[:_MAX_OF_GROUP], group[-1]] for group in groups]


def _members(collective: analysis.Collective, found: Found) -> list[Member]:
    if found.num_replicas * found.num_partitions > _MAX_MEMBERS:
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
        for row in found.members(collective.name).to_dict("records")
    ]


_NO_FUNCTION = "This was loaded from a file, without its function, so it cannot run again."
