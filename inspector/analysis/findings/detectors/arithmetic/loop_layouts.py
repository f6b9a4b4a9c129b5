"""Arguments that are copied to another layout before a loop, and back after it.

Libtpu gives an array of which a loop writes slices one layout for the whole loop. If the program takes and returns the array in another one,
each execution copies all of it twice, also if it is donated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from inspector.analysis.findings.finding import Finding
from inspector.analysis.findings.subject import Subject
from inspector.hlo.loops import trip_count
from inspector.hlo.module import Instruction
from inspector.support.units import format_bytes, format_list

_LEAST_SHARE = 0.03  # less may be lost again, because libtpu chooses other layouts for other arrays then
_LANES = 128  # the longer side of a tile
_PASSING = frozenset({"bitcast", "copy-start", "copy-done"})
_MOST_NAMED = 3
_MOST_ITERATIONS = 64
"""A longer loop is not to be unrolled."""


class _Copied(NamedTuple):
    """An argument that is copied before a loop and after it.

    Attributes:
      parameter: the parameter.
      before, after: the copies.
      loop: the loop.
    """

    parameter: Instruction
    before: Instruction
    after: Instruction
    loop: Instruction


def loop_layouts(subject: Subject, kind: str) -> Iterator[Finding]:
    """Yields a finding for each loop with such arguments."""
    if subject.compiled.program.platform != "tpu":
        return
    loops: dict[Instruction, list[_Copied]] = {}
    for parameter in subject.module.entry.parameters:
        found = _copied(parameter)
        if found is not None and {found.before.name, found.after.name} <= {*subject.points}:
            loops.setdefault(found.loop, []).append(found)
    for members in loops.values():
        finding = _finding(subject, kind, members)
        if finding.share >= _LEAST_SHARE:
            yield finding


def _copied(parameter: Instruction) -> _Copied | None:
    """Returns the copies of an argument before and after a loop; None without both."""
    for before in _readers(parameter):
        if before.opcode != "copy" or _order(before) == _order(parameter):
            continue
        for whole in before.users:
            for loop in whole.users if whole.opcode == "tuple" else ():
                number = whole.positions_of(before)[0]
                for element in loop.users if loop.opcode == "while" and _writes_slices(loop, number) else ():
                    for after in _readers(element) if element.tuple_index == number else ():
                        if after.opcode == "copy" and _order(after) == _order(parameter):
                            return _Copied(parameter, before, after, loop)
    return None


def _writes_slices(loop: Instruction, number: int) -> bool:
    """Reports whether an iteration writes slices of an element of a loop. For others, such as operands of Pallas kernels, the layout is given."""
    root = loop.called_computations[0].root
    ended = root.operands[number] if root.opcode == "tuple" else root
    while ended.opcode in ("bitcast", "get-tuple-element"):
        ended = ended.operands[0]
    inside = ended.called_computations[0].instructions if ended.opcode == "fusion" else (ended,)
    return any(each.opcode == "dynamic-update-slice" for each in inside)


def _readers(value: Instruction) -> Iterator[Instruction]:
    """Yields the users of an array, followed through its copies to another memory."""
    waiting = [value]
    while waiting:
        for user in waiting.pop().users:
            if user.opcode in _PASSING:
                waiting.append(user)
            else:
                yield user


def _order(value: Instruction) -> tuple[int, ...]:
    """Returns the dimensions of an array in the order of its layout, the innermost first; () if it is unknown."""
    layout = value.shape.layout
    return () if layout is None else tuple(layout.minor_to_major)


def _finding(subject: Subject, kind: str, members: Sequence[_Copied]) -> Finding:
    paths = {a.parameter: a.path for a in subject.compiled.program.arguments}
    names = [f"`{paths.get(each.parameter.parameter_number, each.parameter.name)}`" for each in members]
    size = sum(each.parameter.shape.byte_size for each in members)
    padded = sum(each.before.shape.padded_byte_size for each in members)
    loop = members[0].loop
    takes = f" ({format_bytes(padded)})" if padded > 1.05 * size else ""
    title = (
        f"Each execution copies {format_list(names, most=_MOST_NAMED)} ({format_bytes(size)}) to another layout{takes} before the"
        f" loop{subject.at_line(loop.frames)}, and back after it."
    )
    shape = members[0].parameter.shape.dimensions
    choices = []
    trips = trip_count(loop)
    if isinstance(trips, int) and trips <= _MOST_ITERATIONS:
        choices.append(f"write the loop as a Python loop of {trips} iterations, which needs no common layout")
    if shape[-1] < _LANES and (merged := _merged(shape)):
        choices.append(
            f"take the array as {merged}, whose last dimension fills the {_LANES} lanes of a tile, and reshape slices of it"
        )
    remedy = "# " + "\n# or ".join(choices or ["try another order of the array's dimensions"])
    at_peak = subject.at_peak or {}
    return subject.finding(
        kind, title, remedy, saved={copy.name: 1.0 for each in members for copy in (each.before, each.after)},
        frames=loop.frames, is_upper_bound=True, gain_bytes=sum(at_peak.get(each.before.name, 0) for each in members),
        caution="Libtpu chooses the layouts: compile both to see what it gains. A Python loop compiles longer.",
    )  # fmt: skip


def _merged(shape: Sequence[int]) -> tuple[int, ...]:
    """Returns a shape with the smallest other dimension merged into the last one, so that it fills the lanes; () if none does."""
    others = [d for d in range(1, len(shape) - 1) if shape[d] * shape[-1] % _LANES == 0]
    if not others:
        return ()
    merged = min(others, key=lambda d: shape[d])
    return (*(size for d, size in enumerate(shape[:-1]) if d != merged), math.prod((shape[merged], shape[-1])))
