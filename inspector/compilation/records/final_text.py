"""Adds the optimized HLO as another snapshot, if the compiler changed the module after the last pass that it records.

libtpu assigns memory spaces, and adds copies between them, after its last snapshot. The text of its optimized HLO comes
from the installed jaxlib, which numbers stack frames in another order, and may write elements of tuples differently: newer
snapshots have `%x#1` for a `get-tuple-element` of `%x`. XLA writes the fields of backend configurations in no fixed order.
"""

from __future__ import annotations

import re

from inspector.hlo.frame_tables import read_frames
from inspector.hlo.source import Frame
from inspector.hlo.text import is_header
from inspector.hlo.text_line import parts_of

_FRAME = "stack_frame_id="
_CONFIG = ", backend_config="
_ELEMENT = re.compile(r"[( ]%[^\s,()]+#\d")
_TAKEN = re.compile(r"  %(\S+) = \S.* get-tuple-element\(%([^\s,()]+)\), index=(\d+)")
_NAME = re.compile(r"%([^\s,(){}]+)")


def final_text(hlo: str, last: str) -> str | None:
    """Returns the optimized HLO with the stack frames of the last snapshot; None if no instruction differs.

    Args:
      hlo: text of the optimized HLO.
      last: text of the last snapshot.
    """
    tables, before = _split(last)
    own_tables, after = _split(hlo)
    if any(_ELEMENT.search(line) for line in before):
        after = _with_short_elements(after)
    known = {_without_config(line): line for line in before}
    lines = [known.get(_without_config(line), line) for line in after]
    if {*lines} == {*before}:
        return None
    numbers = _numbers(own_tables, tables)
    return "\n".join(
        [*own_tables[:1], *tables[1:], *(line if line in known else _renumbered(line, numbers) for line in lines)]
    )


def _split(text: str) -> tuple[list[str], list[str]]:
    """Splits a text into the lines before the first computation, and the others."""
    lines = text.split("\n")
    start = next((i for i, line in enumerate(lines) if is_header(line)), len(lines))
    return lines[:start], lines[start:]


def _with_short_elements(lines: list[str]) -> list[str]:
    """Replaces uses of elements of tuples by the short form. Elements that a computation returns stay."""
    taken: dict[str, str] = {}
    rest = []
    for line in lines:
        match = _TAKEN.match(line)
        if match is None:
            rest.append(line)
        else:
            name, whole, index = match.groups()
            taken[name] = f"{taken.get(whole, whole)}#{index}"
    return [
        _NAME.sub(lambda match: f"%{taken.get(match[1], match[1])}", line) if "%" in line else line for line in rest
    ]


def _without_config(line: str) -> str:
    return parts_of(line)[0].partition(_CONFIG)[0]


def _numbers(own_tables: list[str], tables: list[str]) -> dict[str, int]:
    """Maps each number of a stack frame to that of the same stack in other tables."""
    theirs: dict[tuple[Frame, ...], int] = {}
    for number, frames in read_frames(tables).items():
        theirs.setdefault(frames, number)
    own = read_frames(own_tables).items()
    return {str(number): theirs[frames] for number, frames in own if frames in theirs}


def _renumbered(line: str, numbers: dict[str, int]) -> str:
    before, frame, rest = line.partition(_FRAME)
    if not frame:
        return line
    end = next((i for i, c in enumerate(rest) if not c.isdigit()), len(rest))
    number = numbers.get(rest[:end])
    if number is None:
        return before.rstrip() + rest[end:]
    return f"{before}{_FRAME}{number}{rest[end:]}"
