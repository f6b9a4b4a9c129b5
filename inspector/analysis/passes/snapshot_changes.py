"""Describes the changes between two snapshots, in words and line by line."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from inspector.analysis.diff.text_diff import Hunk, line_hunks
from inspector.analysis.passes.follow import History
from inspector.analysis.passes.snapshots import Ints, Snapshots
from inspector.analysis.passes.step_descriptions import Words
from inspector.hlo.listing import Listing
from inspector.hlo.module import Module
from inspector.hlo.source import Origin, Root
from inspector.hlo.text import metadata_field
from inspector.hlo.text_line import parts_of
from inspector.support.tables import Kind, Tabular, make_table

if TYPE_CHECKING:
    import pandas as pd


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class PassChange(Tabular):
    """A module before and after one or several passes.

    Attributes:
      words: the changes of the instructions, in words.
      hunks: differences between the texts without metadata, in the format of `line_hunks`.
      changed: whether anything changed, metadata included.
      old, new: the lines of both modules, as line numbers in `snapshots`.
      snapshots: all snapshots of the compile.
    """

    words: Words
    hunks: tuple[Hunk, ...]
    changed: bool
    old: Ints
    new: Ints
    snapshots: Snapshots

    @property
    def before(self) -> str:
        """Returns the text of the module before, without metadata."""
        return "\n".join(map(self.snapshots.shown, self.old.tolist()))

    @property
    def after(self) -> str:
        """Returns the text of the module after, without metadata."""
        return "\n".join(map(self.snapshots.shown, self.new.tolist()))

    def table(self) -> pd.DataFrame:
        """Returns one row per change: `word, before, after, certainty, note`."""
        rows = [(e.word, list(e.before), list(e.after), str(e.certainty), e.note) for e in self.words.events]
        return make_table(_COLUMNS, rows)

    def removed(self, hunks: Sequence[Hunk]) -> str:
        """Returns the lines that the hunks remove, in order."""
        return "\n".join(self.snapshots.shown(n) for a0, a1, _, _ in hunks for n in self.old[a0:a1].tolist())

    def __str__(self) -> str:
        if text := str(self.words):
            return text
        if self.hunks:
            return "Only module attributes changed"
        return "Only metadata changed" if self.changed else "Nothing changed"

    def __repr__(self) -> str:
        return f"<PassChange: {self}>"


_COLUMNS: Mapping[str, Kind] = {
    "word": "text", "before": "object", "after": "object", "certainty": "text", "note": "text",
}  # fmt: skip


def pass_change(history: History, before: int, after: int) -> PassChange:
    """Compares two snapshots, by their indices (`Pass.before_index`, `Pass.after_index`)."""
    snapshots = history.snapshots
    old, new = snapshots.state(before).numbers, snapshots.state(after).numbers
    _, words = history.compared(before, after)
    return PassChange(words, _hunks(snapshots, before, after), before != after, old, new, snapshots)


def _hunks(snapshots: Snapshots, before: int, after: int) -> tuple[Hunk, ...]:
    old, new = snapshots.state(before).numbers, snapshots.state(after).numbers
    old_places, new_places = snapshots.differing(before, after)
    shown = {snapshots.shown(number): number for number in new[new_places].tolist()}
    old = old.copy()
    for place in old_places.tolist():  # lines that differ only in metadata count as equal
        old[place] = shown.get(snapshots.shown(int(old[place])), old[place])
    first = _common(old, new)
    last = _common(old[first:][::-1], new[first:][::-1])
    a, b = (side[first : len(side) - last].tolist() for side in (old, new))
    return tuple((a0 + first, a1 + first, b0 + first, b1 + first) for a0, a1, b0, b1 in line_hunks(a, b))


def _common(a: Ints, b: Ints) -> int:
    """Counts the equal lines at the beginning of two texts."""
    shorter = min(len(a), len(b))
    different = np.flatnonzero(a[:shorter] != b[:shorter])
    return int(different[0]) if len(different) else shorter


@dataclasses.dataclass(frozen=True, slots=True)
class ChangedLines:
    """The changed lines of a module with some context.

    Attributes:
      places: places of the lines in the module after; `-n` for a line that replaces n omitted lines.
      hunks: as in `PassChange`, but relative to this excerpt.
      whole: the same hunks, relative to the modules.
      left_out: number of hunks beyond the limit.
    """

    places: tuple[int, ...]
    hunks: tuple[Hunk, ...]
    whole: tuple[Hunk, ...]
    left_out: int


def excerpt(change: PassChange, context: int, most_lines: int) -> ChangedLines:
    """Returns the changed lines with their context.

    Args:
      change: the change between two snapshots.
      context: number of lines to keep around each hunk, at least 1.
      most_lines: maximum number of lines in hunks; further ones are omitted.
    """
    whole = _within(change.hunks, most_lines)
    is_shown = np.zeros(len(change.new), np.bool_)
    for _, _, b0, b1 in whole:
        is_shown[max(0, b0 - context) : b1 + context] = True
    places: list[int] = []
    position = {}
    ends = np.flatnonzero(np.diff(is_shown.astype(np.int8), prepend=0, append=0)).tolist()
    shown = 0
    for start, end in zip(ends[::2], ends[1::2], strict=True):
        places += [shown - start] if start > shown else []
        position.update({place: len(places) + i for i, place in enumerate(range(start, end))})
        places += range(start, end)
        shown = end
    position[len(change.new)] = len(places)
    places += [shown - len(change.new)] if len(change.new) > shown else []
    return ChangedLines(tuple(places), _moved(whole, position), whole, len(change.hunks) - len(whole))


def _within(hunks: Sequence[Hunk], most_lines: int) -> tuple[Hunk, ...]:
    """Returns the first hunks, up to a total number of lines; the last one may be cut."""
    excerpt = []
    for a0, a1, b0, b1 in hunks:
        if most_lines <= 0:
            break
        excerpt.append((a0, min(a1, a0 + most_lines), b0, min(b1, b0 + most_lines)))
        most_lines -= a1 - a0 + b1 - b0
    return tuple(excerpt)


def _moved(hunks: Sequence[Hunk], position: Mapping[int, int]) -> tuple[Hunk, ...]:
    """Converts hunks of the modules into hunks of an excerpt."""
    converted = []
    longer = 0
    for a0, a1, b0, b1 in hunks:
        start = position[b0]
        converted.append((start + longer, start + longer + a1 - a0, start, start + b1 - b0))
        longer += (a1 - a0) - (b1 - b0)
    return tuple(converted)


def listing_after(change: PassChange, lowered: Module, root: Root, places: Sequence[int] | None = None) -> Listing:
    """Returns the text after a change, with the origins of its lines.

    Snapshots contain the names of operations; the module before all passes has the source location of each operation.

    Args:
      change: the change between two snapshots.
      lowered: the HLO before all passes.
      root: the frame where the user's program begins; origins end there.
      places: places of the lines to return, as in `ChangedLines`; None for all lines.
    """
    known: dict[str, tuple[Origin, ...]] = {}
    for origin in dict.fromkeys(lowered.origins().values()):
        known[origin.op_name] = (*known.get(origin.op_name, ()), origin)[:_ORIGINS]
    snapshots = change.snapshots
    trimmed: dict[str, tuple[Origin, ...]] = {"": ()}
    lines: list[str] = []
    origins: list[tuple[Origin, ...]] = []
    defining: list[bool] = []
    for place in range(len(change.new)) if places is None else places:
        number = int(change.new[place]) if place >= 0 else -1
        line, metadata = parts_of(snapshots.lines[number]) if place >= 0 else (_gap(-place), "")
        operation = metadata_field(metadata, "op_name")
        if operation not in trimmed:
            # XLA joins the names of merged operations with semicolons.
            trimmed[operation] = root.trim(o for part in operation.split(";") for o in known.get(part, (Origin(part),)))
        lines.append(line)
        origins.append(trimmed[operation])
        defining.append(place >= 0 and snapshots.names[number] is not None)
    labels = () if places is None else [place + 1 if place >= 0 else None for place in places]
    return Listing.of("\n".join(lines), origins, defining, labels)


_ORIGINS = 4  # an operation called from many places is linked to the first few


def _gap(count: int) -> str:
    return f"⋯ {count:,} unchanged {'line' if count == 1 else 'lines'}"
