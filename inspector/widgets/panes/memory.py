"""The Memory pane: the contents of a variant's memory spaces over time, recorded on request and analyzed in the browser."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Literal, TypedDict

from inspector.analysis.memory.donations import DONATION_COLUMNS, Donation
from inspector.analysis.memory.live_ranges import Life
from inspector.analysis.memory.timeline import Timeline
from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.memory import space_name
from inspector.compilation.program import Argument, Program
from inspector.errors import CompilationError, ModuleError, Unavailable, WorkerDiedError
from inspector.hlo.source import Origin
from inspector.stages.compiled import as_compiled
from inspector.stages.lowered import timeline_until
from inspector.support.units import format_bytes
from inspector.widgets import messages
from inspector.widgets.cells import display_file
from inspector.widgets.described_tables import cells_of, heads_of
from inspector.widgets.documents import packed
from inspector.widgets.panes.framework.pane import Entry, Excerpt, PackedMessage
from inspector.widgets.panes.framework.product import ProductPane, sentence
from inspector.widgets.variants import Variant

# The remaining buffers of a program are too small to be of interest.
_MOST = 20_000
_EXCERPTED = 20


class MemoryRoom(TypedDict):
    """A memory space, in bytes of one device.

    Attributes:
      is_main: whether it is the device's main memory: RAM, or HBM of an accelerator.
      capacity_bytes: size of the memory; None if it is not published.
      alias_bytes: outputs in donated arguments, counted in both.
      live_bytes: peak memory of temporaries; `temp_bytes` is the memory allocated for them.
      untraced_bytes: temporaries for which XLA recorded no step.
      peak: position in the schedule where `live_bytes` is reached.
      curve: pairs of a position and the largest size of live temporaries from there to the next pair's position.
    """

    name: str
    is_main: bool
    capacity_bytes: int | None
    argument_bytes: int
    output_bytes: int
    alias_bytes: int
    constant_bytes: int
    temp_bytes: int
    live_bytes: int
    untraced_bytes: int
    peak: int
    curve: list[tuple[int, int]]


class MemoryBuffers(TypedDict):
    """The buffers as columns of equal length, the largest first, and the latest first among equal ones. Texts are indices into `texts`.

    Attributes:
      schedule: names of the instructions in execution order.
      texts: distinct texts of the columns.
      name: the instruction, or the argument's path.
      start, end: first and last position in the schedule where the buffer is live.
      room: index into `MemoryTimeline.rooms`.
      allocation, offset: location of the buffer.
      kind: purpose of the allocation.
      line: innermost line of the user's own code as `file:line`, "" if unknown.
      padding: part of `bytes` that contains no element.
      left_out: number of further buffers, all smaller.
    """

    schedule: list[str]
    texts: list[str]
    name: list[int]
    instruction: list[int]
    bytes: list[int]
    start: list[int]
    end: list[int]
    room: list[int]
    allocation: list[int]
    offset: list[int]
    kind: list[int]
    scope: list[int]
    line: list[int]
    phase: list[int]
    padding: list[int]
    left_out: int


class DonationRow(TypedDict):
    """One argument."""

    cells: list[messages.TableCell]


class MemoryTimeline(TypedDict):
    """The contents of a variant's memory spaces. One buffer: `MemoryBuffers` as gzip-compressed JSON.

    Attributes:
      rooms: the memory spaces, the largest first.
      note: the reason why there are none.
      is_estimated: whether the live ranges follow from the schedule alone, without a buffer assignment.
      unused: donated arguments that no output reuses.
      donation_columns, donations: every argument with the output that reuses its buffer, or the reason why none does. Empty
        for a program that failed to compile.
    """

    type: Literal["memory"]
    variant: int
    rooms: list[MemoryRoom]
    note: str
    is_estimated: bool
    unused: list[str]
    donation_columns: list[messages.TableHead]
    donations: list[DonationRow]


_NO_BUFFERS = packed(json.dumps({name: 0 if name == "left_out" else [] for name in MemoryBuffers.__annotations__}))


class MemoryPane(ProductPane[Excerpt]):
    """Sends the buffers of each variant, and stores their excerpt."""

    def recorded(self, variant: Variant, compiled: CompiledProgram) -> Iterable[Entry]:
        """Returns all buffers; the browser answers every question about them."""
        donations: Iterable[Donation] = ()
        try:
            donations = as_compiled(compiled).donations()
            timeline = as_compiled(compiled).timeline()
        except ModuleError as error:
            timeline = Unavailable(str(error))
        if isinstance(timeline, Unavailable):
            return [PackedMessage(_message(variant, [], donations, note=sentence(timeline)), [_NO_BUFFERS])]
        self.store(variant, _excerpt(timeline, compiled.program))
        return [_entry(variant, timeline, compiled.program, donations)]

    def excerpts(self, variant: Variant) -> Iterator[Excerpt]:
        """Yields the peak of the main memory, with its largest buffers."""
        excerpt = self.find(variant.number)
        if excerpt is not None:
            yield excerpt

    def failed(self, variant: Variant, error: BaseException) -> Iterable[Entry]:
        """Returns the planned buffers of a program that does not fit into memory or that failed after buffer assignment."""
        if variant.lowered is None or not isinstance(error, (CompilationError, WorkerDiedError)):
            return []
        timeline = timeline_until(variant.lowered, error, variant.target)
        return [] if isinstance(timeline, Unavailable) else [_entry(variant, timeline, variant.lowered.program)]


def _message(
    variant: Variant, rooms: list[MemoryRoom], donations: Iterable[Donation], unused: Iterable[str] = (), note: str = "",
    *, is_estimated: bool = False,
) -> MemoryTimeline:  # fmt: skip
    rows = [*donations]
    return MemoryTimeline(
        type="memory", variant=variant.number, rooms=rooms, note=note, is_estimated=is_estimated,
        unused=[*unused],
        donation_columns=heads_of(DONATION_COLUMNS),
        donations=[DonationRow(cells=cells_of(DONATION_COLUMNS, row)) for row in rows[:_MOST]],
    )  # fmt: skip


def _entry(variant: Variant, timeline: Timeline, program: Program, donations: Iterable[Donation] = ()) -> Entry:
    unused = [str(argument) for argument in timeline.unused_donations(program.arguments)]
    rooms = _rooms(timeline, program.platform)
    message = _message(variant, rooms, donations, unused, is_estimated=timeline.is_estimated)
    buffers = _buffers(timeline, program.arguments, [room["name"] for room in rooms])
    return PackedMessage(message, [packed(json.dumps(buffers, separators=(",", ":")))])


def _excerpt(timeline: Timeline, program: Program) -> Excerpt:
    main = space_name(program.platform, 0)
    name = main if main in timeline.spaces else next(iter(timeline.spaces), "")
    if not name:
        return Excerpt("Memory: no buffers")
    space, position = timeline.spaces[name], timeline.peak_position(name)
    arguments = {a.parameter: a.path for a in program.arguments}
    lines = [
        f"{format_bytes(life.byte_size):>10}  {life.kind:<9}  {_name(life, arguments)}  {_line(timeline.origin(life))}".rstrip()
        for life in timeline.alive(name)[:_EXCERPTED]
    ]
    at = f"position {position:,} of {len(timeline.schedule):,}"
    source = " (estimated from the schedule)" if timeline.is_estimated else ""
    return Excerpt(
        f"Memory{source}: {format_bytes(space.allocated_bytes)} of {name}, at the peak {format_bytes(space.live_bytes)} of live"
        f" temporaries ({at}); the largest buffers there",
        "\n".join(lines),
    )


def _rooms(timeline: Timeline, platform: str) -> list[MemoryRoom]:
    rooms = [
        MemoryRoom(
            name=name,
            is_main=name == space_name(platform, 0),
            capacity_bytes=None if isinstance(space.capacity_bytes, Unavailable) else space.capacity_bytes,
            argument_bytes=space.argument_bytes,
            output_bytes=space.output_bytes,
            alias_bytes=space.alias_bytes,
            constant_bytes=_known_bytes(space.constant_bytes),
            temp_bytes=space.temp_bytes,
            live_bytes=space.live_bytes,
            untraced_bytes=space.untraced_bytes,
            peak=timeline.peak_position(name),
            curve=[*timeline.curves.get(name, ())],
        )
        for name, space in timeline.spaces.items()
    ]
    return sorted(rooms, key=lambda room: -(room["live_bytes"] + room["argument_bytes"] + room["output_bytes"]))


def _known_bytes(count: int | Unavailable) -> int:
    """Returns a sum, which a buffer assignment always has, unlike other sources of `MemorySpace`."""
    assert not isinstance(count, Unavailable), count
    return count


def _buffers(timeline: Timeline, program_arguments: Sequence[Argument], spaces: Sequence[str]) -> MemoryBuffers:
    texts = _Texts()
    lives = sorted(timeline.lives, key=lambda life: (-life.byte_size, -life.start))
    rooms = {name: place for place, name in enumerate(spaces)}
    arguments = {a.parameter: a.path for a in program_arguments}
    shown = lives[:_MOST]
    origins = [timeline.origin(life) for life in shown]
    return MemoryBuffers(
        schedule=[*timeline.schedule],
        texts=texts.listed,
        name=[texts.of(_name(life, arguments)) for life in shown],
        instruction=[texts.of(life.instruction) for life in shown],
        bytes=[life.byte_size for life in shown],
        start=[life.start for life in shown],
        end=[life.end for life in shown],
        room=[rooms[life.space] for life in shown],
        allocation=[life.allocation for life in shown],
        offset=[life.offset for life in shown],
        kind=[texts.of(life.kind) for life in shown],
        scope=[texts.of(o.scope) for o in origins],
        line=[texts.of(_line(o)) for o in origins],
        phase=[texts.of(timeline.phase(life) or "") for life in shown],
        padding=[life.padding_bytes for life in shown],
        left_out=len(lives) - len(shown),
    )


def _line(origin: Origin) -> str:
    return f"{display_file(origin.line.file)}:{origin.line.line}" if origin.line else ""


def _name(life: Life, arguments: dict[int | None, str]) -> str:
    return arguments.get(life.parameter, life.instruction) if life.parameter is not None else life.value


class _Texts:
    """Assigns numbers to distinct texts."""

    def __init__(self) -> None:
        self.listed: list[str] = []
        self._known: dict[Hashable, int] = {}

    def of(self, text: str) -> int:
        if text not in self._known:
            self._known[text] = len(self.listed)
            self.listed.append(text)
        return self._known[text]
