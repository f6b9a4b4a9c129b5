"""The Collectives pane: collectives and their replica groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal, TypedDict

from inspector.analysis.collectives.collectives import Collectives, collectives
from inspector.analysis.collectives.columns import COLLECTIVE_COLUMNS
from inspector.analysis.collectives.pricing.price import Pricing
from inspector.analysis.collectives.pricing.target_links import links_of
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
from inspector.widgets.described_tables import heads_of
from inspector.widgets.panes.collective_parts.collective_rows import (
    CollectiveMessage,
    MeshMessage,
    mesh_of,
    rows_of,
    without,
)
from inspector.widgets.panes.collective_parts.exchange_messages import ExchangeMessage, exchange_messages
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


class ReshardingMessage(TypedDict):
    """A change of an array's sharding, as `inspector.analysis.sharding.reshardings.Resharding`."""

    name: str
    had: str
    needed: str
    operand_bytes: int | None
    source: messages.SourceLine | None
    advice: str


class CollectivesMessage(TypedDict):
    """The collectives of a variant's program before or after optimization.

    Attributes:
      note: explanation of an empty list.
      columns: headings of the table.
      exchanges: textbook algorithms for the group sizes of the program.
      networks: targets whose links are available for cost estimates; the first fits the program best.
    """

    type: Literal["collectives"]
    variant: int
    program: messages.Stage
    mesh: MeshMessage | None
    note: str
    columns: list[messages.TableHead]
    rows: list[CollectiveMessage]
    exchanges: list[ExchangeMessage]
    networks: list[str]


class FullRematerializations(TypedDict):
    """Arrays of a variant that the partitioner copies whole to every device, from its warnings.

    Attributes:
      unheard: the reason why warnings were not recorded; "" if they were.
    """

    type: Literal["full_rematerializations"]
    variant: int
    unheard: str
    rows: list[ReshardingMessage]


class CollectivesPane(CountedPane):
    """Shows the collectives of a variant's program before and after optimization, their cost, and on request their inputs and outputs."""

    def __init__(self, name: str, context: Context) -> None:
        """Creates the pane; nothing is observed yet."""
        super().__init__(name, context)
        self._observing = Observing(context)
        self._programs: dict[int, PricedProgram] = {}
        self._inside: dict[int, SplitInstructions] = {}

    def answer(self, request: ObserveRequest | PriceRequest) -> None:
        """Estimates the cost of a collective, or runs the function."""
        if request["type"] == "observe":
            self._observing.answer(request)
        else:
            super().answer(request)

    def reply(self, request: PriceRequest) -> Priced:
        """Returns the cost estimate of a collective."""
        return priced(request, self._programs.get(request["variant"]))

    def recordable(self, variant: Variant, *, is_whole: bool) -> Iterator[PriceRequest]:
        """Returns the requests for the costs of the first collectives."""
        program = self._programs.get(variant.number)
        return iter(()) if program is None else recordable(program, variant.number, is_whole=is_whole)

    def cancel(self, variant: Variant) -> None:
        """Stops the variant's observation."""
        self._observing.cancel(variant)

    def forget(self, variant: Variant) -> Callable[[], object]:
        """Drops the variant's observation."""
        self._programs.pop(variant.number, None)
        self._inside.pop(variant.number, None)
        rest, stop = super().forget(variant), self._observing.forget(variant)
        return lambda: (rest(), stop())

    def close(self) -> None:
        """Stops all observations."""
        super().close()
        self._programs.clear()
        self._inside.clear()
        self._observing.close()

    def program(self, variant: Variant, program: Preview | CompiledProgram, module: Module) -> Iterator[Entry]:
        """Returns the collectives of both stages."""
        options = build_options_of(program)
        assert variant.lowered is not None, "a variant with a program was lowered"
        before = variant.lowered.module()
        peak = peak_of(program.target, program.devices)
        read = partial(
            collectives,
            mesh=placed_mesh(program),
            num_replicas=options.num_replicas or 1,
            num_partitions=options.num_partitions or 1,
            devices=device_ids(program.devices),
        )
        known = PricedProgram(read(before), read(module), variant.target)
        with self.context.lock:
            if self.context.holds(variant):
                self._programs[variant.number] = known
        yield _message(variant, "hlo", known, peak)
        yield _message(variant, "optimized", known, peak, WholeArrays(module, shardings(program)))

    def recorded(self, variant: Variant, compiled: CompiledProgram) -> Iterator[Entry]:
        """Returns the reason for each collective that the partitioner inserted, once its input module is recorded."""
        whole = whole_program(compiled)
        if whole is not None:
            with self.context.lock:
                if self.context.holds(variant):
                    self._inside[variant.number] = SplitInstructions(whole, placed_mesh(compiled))
            yield from self._again(variant, compiled)

    def profiled(self, variant: Variant) -> Iterator[Entry]:
        """Returns the measured time of each collective."""
        yield from self._again(variant, variant.compiled_now)

    def _again(self, variant: Variant, compiled: CompiledProgram) -> Iterator[Entry]:
        """Returns the collectives after optimization with everything that is known about them."""
        known = self._programs.get(variant.number)
        if known is not None:
            arrays = WholeArrays(compiled.module(), shardings(compiled))
            peak, inside = peak_of(compiled.target, compiled.devices), self._inside.get(variant.number)
            yield _message(variant, "optimized", known, peak, arrays, inside)

    def compiled(self, variant: Variant, compiled: CompiledProgram) -> Iterator[Entry]:
        """Returns the full rematerializations that XLA warned about."""
        arrays = full_rematerializations(compiled)
        unheard = arrays.reason if isinstance(arrays, Unavailable) else ""
        rows = [] if isinstance(arrays, Unavailable) else [_resharding(each) for each in arrays]
        yield FullRematerializations(type="full_rematerializations", variant=variant.number, unheard=unheard, rows=rows)


def _resharding(each: reshardings.Resharding) -> ReshardingMessage:
    return ReshardingMessage(
        name=each.name,
        had=each.had,
        needed=each.needed,
        operand_bytes=None if isinstance(each.operand_bytes, Unavailable) else each.operand_bytes,
        source=source_line(each.frames),
        advice=each.advice,
    )


def _message(
    variant: Variant,
    stage: messages.Stage,
    program: PricedProgram,
    peak: Peak | Unavailable,
    arrays: WholeArrays | None = None,
    inside: SplitInstructions | None = None,
) -> CollectivesMessage:
    program_collectives, profile = program.stage(stage), variant.profile
    times = profile.execution_times if stage == "optimized" and not isinstance(profile, Unavailable) else None
    pricing = Pricing(program_collectives.devices, links_of(peak, program.target, program.device_count))
    return CollectivesMessage(
        type="collectives",
        variant=variant.number,
        program=stage,
        mesh=mesh_of(program_collectives.mesh),
        note="" if len(program_collectives) else _why_none(program_collectives, stage),
        columns=heads_of(COLLECTIVE_COLUMNS, without(times)),
        rows=rows_of(program_collectives, pricing, arrays, inside, times),
        exchanges=list(_exchanges(program_collectives)),
        networks=list(networks_for(program)) if len(program_collectives) else [],
    )


def _exchanges(program_collectives: Collectives) -> Iterator[ExchangeMessage]:
    """Yields the exchanges for each opcode and group size of the program.

    Collectives with groups of different sizes are skipped.
    """
    kinds = {(one.opcode, one.who.group_sizes) for one in program_collectives if one.form is not None}
    for opcode, (smallest, largest) in sorted(kinds):
        if smallest == largest:
            yield from exchange_messages(opcode, largest)


def _why_none(program_collectives: Collectives, stage: messages.Stage) -> str:
    devices = program_collectives.num_replicas * program_collectives.num_partitions
    if devices == 1:
        return (
            "The program runs on one device, so it has no collectives. Pass an axis environment"
            " (axis_env=[('i', 4)]), or shard the arguments over a mesh."
        )
    if stage == "hlo":
        return (
            f"The program has no collectives before optimization. It runs on {devices:,} devices: the collectives that the"
            " partitioner inserts are in the optimized HLO."
        )
    return f"The program runs on {devices:,} devices and has no collectives."
