"""Creates `Passes` from the snapshots and times of one compile.

XLA writes a snapshot if a pass changed the module, and when a pipeline begins. The source of times
(module metadata, or a profile) has all passes. Both are in the order in which passes ended,
so a single pass over both joins them.

A pass may run a pipeline in addition to its own work, as the partitioner does with its cleanup. Its own changes first show
in a snapshot of that pipeline, but belong to the pass.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from inspector.compilation.records.dump_names import (
    BETWEEN,
    SCHEDULING,
    START,
    UNRECORDED,
    SnapshotName,
    as_in_files,
)
from inspector.compilation.records.pass_counts import count_texts
from inspector.compilation.records.pass_order import PassBoundary, events
from inspector.compilation.records.passes import Pass, Passes
from inspector.compilation.records.phases import Phase, Span, own_durations, phases
from inspector.compilation.records.phases import TimedPass as TimedPass
from inspector.compilation.records.texts import Texts
from inspector.errors import Unavailable

_UNTIMED = Unavailable("XLA did not write its time")
_PART = Unavailable("a step within a pass, which XLA does not time")
_BETWEEN = Unavailable("a change between two pipelines, which XLA does not time")
_LATER = Unavailable("the compiler does not record later passes")


@dataclasses.dataclass(frozen=True, slots=True)
class Snapshot:
    """The module's text after a pass, as an index into `Texts`."""

    name: SnapshotName
    text: int


def record_passes(
    texts: Texts,
    initial: int | None,
    snapshots: Sequence[Snapshot],
    timed: Sequence[TimedPass] | Unavailable,
    span: Span | None = None,
    final: int | None = None,
) -> Passes:
    """Returns the passes of a compile.

    Args:
      texts: texts of all snapshots.
      initial: the module before any pass, None if XLA did not write it.
      snapshots: snapshots of one module, in any order; its number may have increased.
      timed: every pass in the order in which they started, or why passes were not timed: then passes without changes
        are unknown too.
      span: the whole compile on the passes' clock, None if it is unknown.
      final: the optimized HLO, None if it equals the last snapshot.
    """
    ordered = sorted(snapshots, key=lambda s: (s.name.number, s.name.order))
    if initial is None and ordered:
        initial = ordered[0].text
    known = [] if isinstance(timed, Unavailable) else list(timed)
    walk = _Walk(initial or 0, texts, known, timed if isinstance(timed, Unavailable) else _UNTIMED)
    _join(walk, ordered, events(known))
    if final is not None and ordered:
        walk.end(final)
    entries = tuple(
        Pass(i, e.pipeline, e.name, e.before != e.after, e.duration_s, e.before, e.after, texts, e.inner, e.is_part)
        for i, e in enumerate(walk.entries)
    )
    note = "Passes that changed nothing are not listed." if isinstance(timed, Unavailable) else ""
    counts = count_texts(texts.distinct(), map(texts.order, range(len(texts)))) if entries else ()
    passes = [t for t in known if t.name != START]
    return Passes(entries, note, _rest(passes or timed, entries, span), counts)


def _rest(timed: Sequence[TimedPass] | Unavailable, entries: Sequence[Pass], span: Span | None) -> tuple[Phase, ...]:
    return () if span is None or not entries else phases(timed, span)


def _join(walk: _Walk, snapshots: Sequence[Snapshot], queue: Sequence[PassBoundary]) -> None:
    position = 0
    for number, snapshot in enumerate(snapshots):
        name = snapshot.name
        if _is_part(name):
            index = _owner(snapshots[number:], queue, position)
            end = position
            while index is not None and end < index and queue[end].timed.end_s <= queue[index].timed.start_s:
                end += 1
        else:
            index = _event(name, queue, position)
            end = position if index is None else index
        for event in queue[position:end]:
            walk.rest(event)
        position = end
        if _is_part(name) or index is None or queue[index].is_start != (name.after == START):
            walk.step(snapshot, None, _is_in_pass(snapshots, number))
        else:
            walk.step(snapshot, queue[index], queue[index].is_in_pass)
            position += 1
    for event in queue[position:]:
        walk.rest(event)


def _is_part(name: SnapshotName) -> bool:
    return not name.before


def _owner(snapshots: Sequence[Snapshot], queue: Sequence[PassBoundary], position: int) -> int | None:
    """Returns the end of the pass whose step the first snapshot is: that of the next snapshot after a pass."""
    following = next((s.name for s in snapshots if not _is_part(s.name)), None)
    return None if following is None or following.after == START else _event(following, queue, position)


def _event(name: SnapshotName, queue: Sequence[PassBoundary], position: int) -> int | None:
    """Returns the first event from a position on at which a snapshot was written."""
    has_starts = any(event.is_start for event in queue)
    return next((i for i in range(position, len(queue)) if _is_of(name, queue[i], has_starts)), None)


def _is_of(name: SnapshotName, event: PassBoundary, has_starts: bool) -> bool:
    """Reports whether a snapshot was written at an event, or before a pass if starts of pipelines were not timed."""
    if name.pipeline != as_in_files(event.timed.pipeline):
        return False
    if name.after == START:
        return event.is_start or not has_starts
    return name.after == as_in_files(event.timed.name)


def _is_in_pass(snapshots: Sequence[Snapshot], number: int) -> bool:
    """Reports, by names alone, whether a pass that also does other work runs the pipeline of a snapshot.

    The pass's own pipeline has begun before and continues later, with that pass.
    """
    pipeline = snapshots[number].name.pipeline
    begun = {s.name.pipeline for s in snapshots[:number]} - {pipeline}
    for later in snapshots[number + 1 :]:
        name = later.name
        if name.pipeline in begun and name.after not in (START, pipeline):
            return True
        if name.pipeline in begun:  # another run of this pipeline, or a pass that is a pipeline
            begun.remove(name.pipeline)
            pipeline = pipeline if name.after == START else name.pipeline
    return False


@dataclasses.dataclass(frozen=True, slots=True)
class _Entry:
    pipeline: str
    name: str
    duration_s: float | Unavailable
    before: int
    after: int
    inner: int = 0
    is_part: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class _Place:
    """The state at the last entry of a pipeline: the module's text, and the number of entries."""

    text: int
    count: int


class _Walk:
    """Builds the entries, with the module's text before and after each pass."""

    def __init__(self, text: int, texts: Texts, timed: Sequence[TimedPass], untimed: Unavailable) -> None:
        """Begins with a text; `untimed` is the reason for a pass without a time."""
        passes = [t for t in timed if t.name != START]
        self._own_s = dict(zip(map(id, passes), own_durations(passes), strict=True))
        self._names = {as_in_files(t.pipeline): t.pipeline for t in timed}  # file names to XLA's own names
        self._untimed = untimed
        self._texts = texts
        self._text = text
        self._places: dict[str, _Place] = {}
        self.entries: list[_Entry] = []

    def step(self, snapshot: Snapshot, event: PassBoundary | None, is_in_pass: bool) -> None:
        """Adds a snapshot.

        Args:
          snapshot: the next snapshot.
          event: the event at which XLA wrote it; None if it was not timed.
          is_in_pass: for the start of a pipeline, True if a pass that also does other work runs it.
        """
        name, before = snapshot.name, self._text
        self._text = snapshot.text
        pipeline = self._names.get(name.pipeline, name.pipeline)
        if name.after == START:
            if before != self._text and not is_in_pass:
                self.entries.append(_Entry(pipeline, self._between(before), _BETWEEN, before, self._text))
            self._places[name.pipeline] = self._place
        elif _is_part(name):
            self.entries.append(_Entry(pipeline, name.after, _PART, before, self._text, is_part=True))
        elif event is None:
            self._add(name.pipeline, pipeline, name.after, self._untimed, before)
        else:
            self._add(name.pipeline, pipeline, event.timed.name, self._own_s[id(event.timed)], before)

    def rest(self, event: PassBoundary) -> None:
        """Adds an event without a snapshot."""
        timed, pipeline = event.timed, as_in_files(event.timed.pipeline)
        if event.is_start:
            self._places[pipeline] = self._place
        else:
            self._add(pipeline, timed.pipeline, timed.name, self._own_s[id(timed)], self._text)

    def end(self, final: int) -> None:
        """Adds the optimized HLO."""
        if final != self._text:
            self.entries.append(_Entry("unrecorded pipelines", UNRECORDED, _LATER, self._text, final))
            self._text = final

    def _add(self, place: str, pipeline: str, name: str, duration_s: float | Unavailable, before: int) -> None:
        """Adds a pass. All entries since the last one of its pipeline ran within the pass."""
        since = self._places.get(place, _Place(before, len(self.entries)))
        inner = len(self.entries) - since.count
        self.entries.append(_Entry(pipeline, name, duration_s, since.text, self._text, inner))
        self._places[place] = self._place

    @property
    def _place(self) -> _Place:
        return _Place(self._text, len(self.entries))

    def _between(self, before: int) -> str:
        """Names a change between two pipelines, as far as the texts show it."""
        was, now = (_is_scheduled(self._texts, text) for text in (before, self._text))
        return SCHEDULING if now and not was else BETWEEN


def _is_scheduled(texts: Texts, text: int) -> bool:
    return "is_scheduled=true" in texts[text].partition("\n")[0]
