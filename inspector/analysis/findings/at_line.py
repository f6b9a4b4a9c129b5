"""The user's line in a finding's sentence, and whether operations are of one line.

Many programs have a function that only calls `with_sharding_constraint`. Its line is the same for all constraints, so the line of
its caller is named.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TypeAlias

from inspector.hlo.source import Frame, own_line
from inspector.support.packages import is_library_file

Lines: TypeAlias = tuple[tuple[str, int], ...]
"""The files and lines of a call stack, innermost first."""


def shared_lines(stacks: Iterable[Sequence[Frame]]) -> frozenset[Frame]:
    """Returns the innermost lines of the user that several other lines call, or that a line in another file calls."""
    callers: dict[Frame, set[Frame]] = {}
    shared = set[Frame]()
    for frames in stacks:
        own = [frame for frame in frames if not is_library_file(frame.file)]
        if len(own) > 1:
            callers.setdefault(own[0], set()).add(own[1])
        if len(own) > 2 and own[1].file != own[0].file:  # the outermost line only calls the whole function
            shared.add(own[0])
    return frozenset(shared.union(line for line, found in callers.items() if len(found) > 1))


def from_caller(frames: Sequence[Frame], shared: Collection[Frame]) -> tuple[Frame, ...]:
    """Returns a call stack without shared lines at its inner end; the whole stack if there is no other line of the user."""
    own = [number for number, frame in enumerate(frames) if not is_library_file(frame.file)]
    first = next((number for number in own if frames[number] not in shared), None)
    return tuple(frames) if first is None or first == own[0] else tuple(frames[first:])


def at_line(frames: Sequence[Frame], preposition: str = "at", shared: Collection[Frame] = ()) -> str:
    """Returns the user's innermost line, such as " at model.py:31"; "" without frames.

    Args:
      frames: the call stack, innermost first.
      preposition: the word in front of the line.
      shared: lines that are only named together with their caller: " at model.py:31 (through sharding.py:12)".
    """
    caller = from_caller(frames, shared)
    line = own_line(caller)
    if not line:
        return ""
    return f" {preposition} {line}" + (f" (through {own_line(frames)})" if len(caller) < len(frames) else "")


def lines_of(frames: Sequence[Frame]) -> Lines:
    """Returns the files and lines of a call stack."""
    return tuple((frame.file, frame.line) for frame in frames)


def is_same_line(one: Sequence[tuple[str, int]], other: Sequence[tuple[str, int]]) -> bool:
    """Reports whether lines are the same as far as both are known: those before optimization begin at their function."""
    known = min(len(one), len(other))
    return one[:known] == other[:known]
