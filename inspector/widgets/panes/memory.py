"""What lies in which memory of a variant, and when: recorded when asked for, and then all in the browser."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Sequence
from typing import Literal, TypedDict

from inspector.analysis.memory.live_ranges import Life
from inspector.analysis.memory.timeline import Timeline
from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.program import Argument
from inspector.errors import CompilationError, ModuleError, Unavailable, WorkerDiedError
from inspector.hlo.source import Origin
from inspector.stages.compiled import as_compiled
from inspector.stages.lowered import timeline_until
from inspector.widgets.cells import display_file
from inspector.widgets.documents import packed
from inspector.widgets.panes.framework.pane import Entry, PackedMessage, Pane
from inspector.widgets.panes.framework.product import sentence
from inspector.widgets.variants import Variant

# The rest of a program's buffers is smaller than what anybody looks for.
_MOST = 20_000


class MemoryRoom(TypedDict):
    """A memory space, in bytes of one device.

    Attributes:
      capacity_bytes: of the whole memory; None where its size is not published.
      alias_bytes: outputs in donated arguments, counted as both.
      live_bytes: the most temporaries that live at one time; `temp_bytes` is what is allocated for them.
      untraced_bytes: of temporaries of which XLA wrote down no step.
      peak: the position in the schedule where `live_bytes` is reached.
      curve: pairs of a position and the most temporaries that live there and until the next pair's.
    """

    name: str
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
    """The buffers as columns of equal length, the largest first, of equal ones the latest; texts are places in `texts`.

    Attributes:
      schedule: the instructions' names in the order in which they run.
      texts: those of the columns, each once.
      name: the instruction, or the argument's path.
      start, end: positions in the schedule, both in the buffer's life.
      room: place in `MemoryTimeline.rooms`.
      allocation, offset: where it lies.
      kind: what the allocation is for.
      line: the innermost line of the user's own code as `file:line`, "" where it is unknown.
      padding: of `bytes`, what no element is in.
      left_out: buffers beyond those that are here, all smaller.
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


class MemoryTimeline(TypedDict):
    """What lies in the memories of a variant. One buffer: gzip of `MemoryBuffers` as JSON.

    Attributes:
      rooms: the memory spaces, that with most temporaries first.
      note: why there are none.
      unused: arguments that were donated and that no output reuses.
    """

    type: Literal["memory"]
    variant: int
    rooms: list[MemoryRoom]
    note: str
    unused: list[str]


_NO_BUFFERS = packed(json.dumps({name: 0 if name == "left_out" else [] for name in MemoryBuffers.__annotations__}))


class MemoryPane(Pane):
    """See the module."""

    def recorded(self, variant: Variant, compiled: CompiledProgram) -> Iterable[Entry]:
        """All of it: what is asked of it is answered in the browser."""
        try:
            found = as_compiled(compiled).timeline()
        except ModuleError as error:
            found = Unavailable(str(error))
        if isinstance(found, Unavailable):
            message = MemoryTimeline(type="memory", variant=variant.number, rooms=[], note=sentence(found), unused=[])
            return [PackedMessage(message, [_NO_BUFFERS])]
        return [_entry(variant, found, compiled.program.arguments)]

    def failed(self, variant: Variant, error: BaseException) -> Iterable[Entry]:
        """What was to lie there, of a program that does not fit or that fails behind the buffer assignment."""
        if variant.lowered is None or not isinstance(error, (CompilationError, WorkerDiedError)):
            return []
        found = timeline_until(variant.lowered, error, variant.target)
        return [] if isinstance(found, Unavailable) else [_entry(variant, found, variant.lowered.program.arguments)]


def _entry(variant: Variant, found: Timeline, arguments: Sequence[Argument]) -> Entry:
    message = MemoryTimeline(
        type="memory", variant=variant.number, rooms=_rooms(found), note="",
        unused=[str(argument) for argument in found.unused_donations(arguments)],
    )  # fmt: skip
    return PackedMessage(message, [packed(json.dumps(_buffers(found, arguments), separators=(",", ":")))])


def _rooms(timeline: Timeline) -> list[MemoryRoom]:
    rooms = [
        MemoryRoom(
            name=name,
            capacity_bytes=None if isinstance(space.capacity_bytes, Unavailable) else space.capacity_bytes,
            argument_bytes=space.argument_bytes,
            output_bytes=space.output_bytes,
            alias_bytes=space.alias_bytes,
            constant_bytes=_told(space.constant_bytes),
            temp_bytes=space.temp_bytes,
            live_bytes=space.live_bytes,
            untraced_bytes=space.untraced_bytes,
            peak=timeline.peak_position(name),
            curve=[*timeline.curves.get(name, ())],
        )
        for name, space in timeline.spaces.items()
    ]
    return sorted(rooms, key=lambda room: -(room["live_bytes"] + room["argument_bytes"] + room["output_bytes"]))


def _told(count: int | Unavailable) -> int:
    """An assignment tells all sums, which other sources of `MemorySpace` do not."""
    assert not isinstance(count, Unavailable), count
    return count


def _buffers(timeline: Timeline, given: Sequence[Argument]) -> MemoryBuffers:
    texts = _Texts()
    lives = sorted(timeline.lives, key=lambda life: (-life.byte_size, -life.start))
    rooms = {room["name"]: place for place, room in enumerate(_rooms(timeline))}
    arguments = {a.parameter: a.path for a in given}
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
    """Texts by number, each once."""

    def __init__(self) -> None:
        self.listed: list[str] = []
        self._known: dict[Hashable, int] = {}

    def of(self, text: str) -> int:
        if text not in self._known:
            self._known[text] = len(self.listed)
            self.listed.append(text)
        return self._known[text]
