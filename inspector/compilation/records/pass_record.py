"""Snapshots and times of one compile -> `Passes`.

XLA writes a snapshot where a pass changed the module, and where a pipeline begins. What timed the
passes (module metadata, or a profile) knows all of them. Both are in the order in which passes ended,
so one walk joins them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from inspector.compilation.records.dump_names import START, SnapshotName, as_in_files
from inspector.compilation.records.pass_counts import count_texts
from inspector.compilation.records.passes import Pass, Passes
from inspector.compilation.records.phases import Phase, Span, own_durations, phases
from inspector.compilation.records.phases import TimedPass as TimedPass
from inspector.compilation.records.texts import Texts
from inspector.errors import Unavailable

_UNTIMED = Unavailable("XLA wrote no time for it, as for steps within a pass")
_BETWEEN = Unavailable("a change between two pipelines, which XLA does not time")


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
) -> Passes:
    """The passes of a compile.

    Args:
      texts: of all snapshots.
      initial: the module before any pass, None where XLA did not write it.
      snapshots: of one module, in any order; its number may have grown.
      timed: every pass in any order, or why passes were not timed: then those that changed nothing are
        not known either.
      span: the whole compile on the passes' clock, None where that is not known.
    """
    ordered = sorted(snapshots, key=lambda s: (s.name.number, s.name.order))
    if initial is None and ordered:
        initial = ordered[0].text
    known = [] if isinstance(timed, Unavailable) else [t for t in timed if t.name != START]
    walk = _Walk(initial or 0, {as_in_files(t.pipeline): t.pipeline for t in known}, known)
    if isinstance(timed, Unavailable):
        for snapshot in ordered:
            walk.step(snapshot, timed)
    else:
        _join(walk, ordered, sorted(known, key=lambda t: t.end_s))
    entries = tuple(
        Pass(i, e.pipeline, e.name, e.before != e.after, e.duration_s, e.before, e.after, texts)
        for i, e in enumerate(walk.entries)
    )
    note = "Passes that changed nothing are not listed." if isinstance(timed, Unavailable) else ""
    counts = count_texts(texts.distinct(), map(texts.order, range(len(texts)))) if entries else ()
    return Passes(entries, note, _rest(known or timed, entries, span), counts)


def _rest(timed: Sequence[TimedPass] | Unavailable, entries: Sequence[Pass], span: Span | None) -> tuple[Phase, ...]:
    return () if span is None or not entries else phases(timed, span)


def _join(walk: _Walk, snapshots: Iterable[Snapshot], queue: Sequence[TimedPass]) -> None:
    position = 0
    for snapshot in snapshots:
        found = next((i for i in range(position, len(queue)) if _is_of(snapshot.name, queue[i])), position)
        for unchanged in queue[position:found]:
            walk.rest(unchanged)
        position = found
        if snapshot.name.after == START:  # before the pass that was found
            walk.step(snapshot, _BETWEEN)
        elif position < len(queue) and _is_of(snapshot.name, queue[position]):
            walk.step(snapshot, queue[position])
            position += 1
        else:
            walk.step(snapshot, _UNTIMED)
    for unchanged in queue[position:]:
        walk.rest(unchanged)


def _is_of(name: SnapshotName, timed: TimedPass) -> bool:
    """Whether a snapshot was written after a pass, or at the start of its pipeline."""
    return name.pipeline == as_in_files(timed.pipeline) and name.after in (START, as_in_files(timed.name))


@dataclasses.dataclass(frozen=True, slots=True)
class _Entry:
    pipeline: str
    name: str
    duration_s: float | Unavailable
    before: int
    after: int
    start_s: float | None


class _Walk:
    """Where the module stands, pass by pass."""

    def __init__(self, text: int, pipelines: Mapping[str, str], timed: Sequence[TimedPass]) -> None:
        """Begins with a text; `pipelines` are names as files have them, with XLA's own."""
        self._own_s = dict(zip(map(id, timed), own_durations(timed), strict=True))
        self.entries: list[_Entry] = []
        self._pipelines = pipelines
        self._text = text

    def step(self, snapshot: Snapshot, timed: TimedPass | Unavailable) -> None:
        """A pass that XLA wrote a snapshot after, or why it was not timed."""
        name, before = snapshot.name, self._text
        self._text = snapshot.text
        if name.after == START and before == snapshot.text:
            return
        if isinstance(timed, Unavailable):
            self._add(self._pipelines.get(name.pipeline, name.pipeline), name.after, timed, before)
        else:
            self._add(timed.pipeline, timed.name, timed, before)

    def rest(self, timed: TimedPass) -> None:
        """A pass without a snapshot: what changed within it has its own entries."""
        self._add(timed.pipeline, timed.name, timed, self._text)

    def _add(self, pipeline: str, name: str, timed: TimedPass | Unavailable, before: int) -> None:
        for inner in reversed(self.entries):
            if not _is_within(inner, name, timed):
                break
            before = inner.before
        if isinstance(timed, Unavailable):
            self.entries.append(_Entry(pipeline, name, timed, before, self._text, None))
        else:
            self.entries.append(_Entry(pipeline, name, self._own_s[id(timed)], before, self._text, timed.start_s))


def _is_within(inner: _Entry, name: str, timed: TimedPass | Unavailable) -> bool:
    """Whether an entry is part of the pass that ended after it: run in its time, or in a pipeline of its name."""
    if isinstance(timed, TimedPass) and inner.start_s is not None:
        return inner.start_s >= timed.start_s
    return as_in_files(inner.pipeline) == as_in_files(name)
