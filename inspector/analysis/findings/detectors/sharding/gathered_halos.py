"""`all_gather`s in a `shard_map` of whose result each device only reads a few rows, at a place that follows from its number.

Such as the rows of its neighbors, which `ppermute`s of these rows bring.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from inspector.analysis.collectives.collective import Collective
from inspector.analysis.collectives.sliced_results import sliced_dimension
from inspector.analysis.findings.at_line import Lines, lines_of
from inspector.analysis.findings.before import uses
from inspector.analysis.findings.dataflow import Value
from inspector.analysis.findings.detectors.sharding.own_part import combined_collective, compiled_collectives, peers_of
from inspector.analysis.findings.finding import Finding
from inspector.analysis.findings.subject import Subject
from inspector.hlo.module import Instruction
from inspector.support.units import format_array, format_list

_MOST_PART = 1 / 4  # of what a device has
_MOST_VALUES = 200
_PLACES = frozenset({"partition-id", "replica-id"})
_OF_PLACES = _PLACES | {
    "constant", "convert", "add", "subtract", "multiply", "divide", "remainder", "select", "compare", "clamp", "maximum", "minimum",
    "and", "or", "not", "negate", "sign", "broadcast", "reshape", "dynamic-slice",
}  # fmt: skip
"""Operations from which the place of a device's rows may follow; `axis_index` takes them from the number of the device."""


class _Halos(NamedTuple):
    """An `all_gather` with the slices that are read of it.

    Attributes:
      value: the `all_gather`.
      slices: the slices.
    """

    value: Value
    slices: tuple[Instruction, ...]


def gathered_halos(subject: Subject, kind: str) -> Iterator[Finding]:
    """Yields a finding for the `all_gather`s of each line of whose results each device only reads a few rows.

    Args:
      subject: the program.
      kind: the kind of the findings.
    """
    lines: dict[tuple[str, Lines, int], list[_Halos]] = {}
    for value, name in subject.calls.values(("all-gather",)) if subject.calls is not None else ():
        halos = _halos(value)
        if halos is not None:
            key = name, lines_of(value.instruction.frames), value.instruction.shape.byte_size
            lines.setdefault(key, []).append(halos)
    for several in lines.values():
        compiled = compiled_collectives(subject, several[0].value)
        if not compiled and len(several) > 1:
            values = [each.value for each in several]
            combined = combined_collective(subject, values, peers_of(subject, values[0]))
            compiled = [] if combined is None else [combined]
        if len(compiled) in (1, len(several)):
            yield _finding(subject, kind, several, compiled)


def _finding(subject: Subject, kind: str, several: Sequence[_Halos], compiled: Sequence[Collective]) -> Finding:
    gathered, slices = several[0].value.instruction, several[0].slices
    array = format_array(gathered.operands[0].shape.element_type, gathered.operands[0].shape.dimensions)
    shapes = format_list([format_array(each.shape.element_type, each.shape.dimensions) for each in slices])
    names = {each.name for each in compiled}
    exchanges = [each for each in subject.exchanges if each.collective.name in names]
    # A permute has one hop.
    permutes = len(slices) * len(several) / len(compiled)
    instead_s = sum(permutes * each.latency_s / max(1, each.price.hops) * each.executions for each in exchanges)
    times = f" ({len(several)} times)" if len(several) > 1 else ""
    return subject.finding(
        kind,
        f"The `all_gather`{subject.at_line(gathered.frames)}{times} gathers {array} from each device, but each device only reads {shapes} of the result.",
        "rows = jax.lax.ppermute(rows, axis, pairs)  # one for each slice: only the rows that a device needs, from the device that has them",
        saved=dict.fromkeys(names, 1.0), instead_s=instead_s, frames=gathered.frames,
        gain_bytes=sum((subject.at_peak or {}).get(name, 0) for name in names),
    )  # fmt: skip


def _halos(value: Value) -> _Halos | None:
    """Returns the slices that are read of an `all_gather`'s result, if they are small and their places follow from the device."""
    gathered = value.instruction
    if len(gathered.operands) != 1 or gathered.shape.is_tuple:
        return None
    slices = list[Instruction]()
    for user, _ in uses(value):
        part = None if user is None else user.instruction
        if user is None or part is None or part.opcode != "dynamic-slice":
            return None
        dimension = sliced_dimension(part)
        if dimension is None or [dimension] != [*gathered.dimensions] or not _follows(user, 1 + dimension):
            return None
        slices.append(part)
    read = sum(math.prod(each.shape.dimensions) for each in slices)
    own = math.prod(gathered.operands[0].shape.dimensions)
    return _Halos(value, tuple(slices)) if slices and read <= _MOST_PART * own else None


def _follows(slice_: Value, number: int) -> bool:
    """Reports whether an offset of a slice follows from the number of the device only."""
    waiting, seen = [slice_.operand(number)], set[Value]()
    while waiting:
        value = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        if value.instruction.opcode not in _OF_PLACES or len(seen) > _MOST_VALUES:
            return False
        waiting += value.operands
    return any(value.instruction.opcode in _PLACES for value in seen)
