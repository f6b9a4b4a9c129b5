"""Collectives and their replica groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal, TypedDict

from inspector.analysis.collectives.collectives import Collectives as Found
from inspector.analysis.collectives.collectives import collectives
from inspector.analysis.collectives.exchanges.textbook import ALGORITHMS, schedule
from inspector.analysis.cost.peaks import peak_of
from inspector.analysis.sharding import reshardings
from inspector.analysis.sharding.needed_by import SplitInstructions
from inspector.analysis.sharding.program_shardings import shardings
from inspector.analysis.sharding.reshardings import full_rematerializations
from inspector.analysis.sharding.whole_arrays import WholeArrays
from inspector.compilation.compiled import CompiledProgram, build_options_of, placed_mesh
from inspector.compilation.placement import device_ids
from inspector.compilation.preview import Preview
from inspector.errors import Unavailable
from inspector.hlo.module import Module
from inspector.platforms import Peak
from inspector.stages.compiled import whole_program
from inspector.widgets import messages
from inspector.widgets.cells import source_line
from inspector.widgets.panes.collective_parts.collective_rows import Collective, Mesh, mesh_of, rows_of
from inspector.widgets.panes.collective_parts.observed import ObserveRequest
from inspector.widgets.panes.collective_parts.observing import Observing
from inspector.widgets.panes.collective_parts.price import (
    Priced,
    PricedProgram,
    PriceRequest,
    networks_for,
    priced,
    recordable,
)
from inspector.widgets.panes.framework.counted import CountedPane
from inspector.widgets.panes.framework.pane import Context, Entry
from inspector.widgets.variants import Variant

# Members of a group whose blocks can be followed, and of one in which each has another block for each.
_MOST_FOLLOWED = 16
_MOST_SENT = 8


class Resharding(TypedDict):
    """A change of how an array is split, as `inspector.analysis.sharding.reshardings.Resharding`."""

    name: str
    had: str
    needed: str
    operand_bytes: int | None
    source: messages.SourceLine | None
    advice: str


class Transfer(TypedDict):
    """What one member of a group sends to another at once, as `inspector.analysis.collectives.exchanges.textbook.Transfer`."""

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
    """The collectives of a variant's program before optimization or after.

    Attributes:
      note: explains an empty list.
      exchanges: textbooks' algorithms for groups of these sizes.
      networks: targets whose links a collective can be priced on; the first suits the program best.
    """

    type: Literal["collectives"]
    variant: int
    program: messages.Stage
    mesh: Mesh | None
    note: str
    rows: list[Collective]
    exchanges: list[Exchange]
    networks: list[str]


class FullRematerializations(TypedDict):
    """Arrays of a variant that the partitioner copies whole to every device, as it warned; `unheard` if nobody heard it."""

    type: Literal["full_rematerializations"]
    variant: int
    unheard: str
    rows: list[Resharding]


class CollectivesPane(CountedPane):
    """Those of a variant's program before optimization and after, their price, and what they take and give where somebody asks."""

    def __init__(self, name: str, context: Context) -> None:
        """Observes nothing yet."""
        super().__init__(name, context)
        self._observing = Observing(context)
        self._programs: dict[int, PricedProgram] = {}

    def answer(self, request: ObserveRequest | PriceRequest) -> None:
        """Prices one, or runs the function."""
        if request["type"] == "observe":
            self._observing.answer(request)
        else:
            super().answer(request)

    def reply(self, request: PriceRequest) -> Priced:
        """The price of a collective."""
        return priced(request, self._programs.get(request["variant"]))

    def recordable(self, variant: Variant, *, is_whole: bool) -> Iterator[PriceRequest]:
        """Prices of the first collectives."""
        program = self._programs.get(variant.number)
        return iter(()) if program is None else recordable(program, variant.number, is_whole=is_whole)

    def cancel(self, variant: Variant) -> None:
        """Stops what runs of it."""
        self._observing.cancel(variant)

    def forget(self, variant: Variant) -> Callable[[], object]:
        """Drops what runs of it."""
        self._programs.pop(variant.number, None)
        rest, stop = super().forget(variant), self._observing.forget(variant)
        return lambda: (rest(), stop())

    def close(self) -> None:
        """Stops all that runs."""
        super().close()
        self._programs.clear()
        self._observing.close()

    def program(self, variant: Variant, program: Preview | CompiledProgram, module: Module) -> Iterator[Entry]:
        """Both stages."""
        options = build_options_of(program)
        assert variant.lowered is not None, "what has a program was lowered"
        before = variant.lowered.module()
        peak = peak_of(program.target, program.devices)
        found = partial(
            collectives,
            mesh=placed_mesh(program),
            num_replicas=options.num_replicas or 1,
            num_partitions=options.num_partitions or 1,
            devices=device_ids(program.devices),
        )
        known = PricedProgram(found(before), found(module), variant.target)
        with self.context.lock:
            if self.context.holds(variant):
                self._programs[variant.number] = known
        yield _message(variant.number, "hlo", known, peak)
        yield _message(variant.number, "optimized", known, peak, WholeArrays(module, shardings(program)))

    def recorded(self, variant: Variant, compiled: CompiledProgram) -> Iterator[Entry]:
        """What the partitioner inserted each for, once it is known what that took."""
        known, whole = self._programs.get(variant.number), whole_program(compiled)
        if known is not None and whole is not None:
            arrays = WholeArrays(compiled.module(), shardings(compiled))
            inside = SplitInstructions(whole, placed_mesh(compiled))
            yield _message(
                variant.number, "optimized", known, peak_of(compiled.target, compiled.devices), arrays, inside
            )

    def compiled(self, variant: Variant, compiled: CompiledProgram) -> Iterator[Entry]:
        """What XLA warned of."""
        found = full_rematerializations(compiled)
        unheard = found.reason if isinstance(found, Unavailable) else ""
        rows = [] if isinstance(found, Unavailable) else [_resharding(each) for each in found]
        yield FullRematerializations(type="full_rematerializations", variant=variant.number, unheard=unheard, rows=rows)


def _resharding(each: reshardings.Resharding) -> Resharding:
    return Resharding(
        name=each.name,
        had=each.had,
        needed=each.needed,
        operand_bytes=None if isinstance(each.operand_bytes, Unavailable) else each.operand_bytes,
        source=source_line(each.frames),
        advice=each.advice,
    )


def _message(
    variant: int,
    stage: messages.Stage,
    program: PricedProgram,
    peak: Peak | Unavailable,
    arrays: WholeArrays | None = None,
    inside: SplitInstructions | None = None,
) -> Collectives:
    found = program.stage(stage)
    return Collectives(
        type="collectives",
        variant=variant,
        program=stage,
        mesh=mesh_of(found.mesh),
        note="" if len(found) else _why_none(found, stage),
        rows=rows_of(found, peak, arrays, inside),
        exchanges=list(_exchanges(found)),
        networks=list(networks_for(program)) if len(found) else [],
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
