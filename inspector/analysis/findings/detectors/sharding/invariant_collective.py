"""Collectives in a loop that does not change their operands: every iteration communicates the same data.

They are the user's own, in a `shard_map`, or the partitioner's, which gathers a split weight where a loop's body uses it.
Weights of layers that the loop slices by its counter change from iteration to iteration.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from inspector.analysis.collectives.collective import Collective, axes_text
from inspector.analysis.findings.edits import Edit, GatherFirst, HoistCollectives
from inspector.analysis.findings.exchange_chains import moving_behind
from inspector.analysis.findings.finding import Finding
from inspector.analysis.findings.invariants import Invariant, invariant
from inspector.analysis.findings.spec_code import spec_code
from inspector.analysis.findings.subject import ESTIMATED, Subject
from inspector.analysis.sharding.program_shardings import ArraySharding
from inspector.compilation.program import Argument
from inspector.errors import Unavailable
from inspector.hlo.loops import value_source
from inspector.hlo.module import Instruction
from inspector.hlo.source import merged_names
from inspector.support.units import format_array, format_bytes, format_list

KIND = "invariant-collective"
_MOST_NAMED = 3
_UNKNOWN_LENGTH = Unavailable("the length of the loop is unknown, so the times of both programs cannot be compared")


class _Member(NamedTuple):
    """A collective with the loops that do not change its operands, and the arguments that they are computed from."""

    collective: Collective
    invariant: Invariant
    arguments: tuple[Argument, ...]


def invariant_collective(subject: Subject) -> Iterator[Finding]:
    """Yields a finding for each loop, kind and author of collectives that the loop need not repeat."""
    groups: dict[tuple[str, str, str], list[_Member]] = {}
    for collective in subject.collectives:
        if collective.executions == 1:
            continue
        found = invariant(subject.module.instruction(collective.name))
        if not found.loops or found.trips == 1:
            continue
        arguments = _arguments(subject, found.sources)
        key = found.loops[-1].name, collective.opcode, str(collective.inserted_by)
        groups.setdefault(key, []).append(_Member(collective, found, arguments))
    for members in groups.values():
        yield _finding(subject, members)


def _finding(subject: Subject, members: Sequence[_Member]) -> Finding:
    first = members[0]
    collectives = [each.collective for each in members]
    trips = first.invariant.trips
    size = sum(each.result_bytes for each in collectives)
    grows = size > sum(each.operand_bytes for each in collectives)
    values = list(dict.fromkeys(f"`{argument.path}`" for each in members for argument in each.arguments))
    what = format_list(values, most=_MOST_NAMED) or format_list(_arrays(members), most=_MOST_NAMED)
    where = subject.at_line(first.collective.origin.frames, "around")
    times = "every iteration" if isinstance(trips, Unavailable) else f"each of the {trips} iterations"
    name = f"{axes_text(first.collective.axes)}" if not isinstance(first.collective.axes, Unavailable) else ""
    title = (
        f"The {first.collective.opcode}{f' over {name}' * bool(name)} of {what} ({format_bytes(size)} per device) is repeated"
        f" in {times} of the loop{where}, which does not change {'it' if len(members) == 1 else 'them'}."
    )
    caution = ""
    if grows:
        caution = (
            "It may be gathered in each iteration on purpose to save memory (FSDP): hoisting keeps up to"
            f" {format_bytes(size)} per device in memory during the whole loop."
        )
    is_unknown = isinstance(trips, Unavailable)
    edits: tuple[Edit, ...] | Unavailable | None
    remedy, edits = _manual(collectives) if _is_users(first.collective) else _partitioned(subject, members)
    if is_unknown:
        edits = _UNKNOWN_LENGTH
    moved = dict.fromkeys(_with_moves(subject, collectives), 1.0)
    iteration_s = subject.iteration_s(first.invariant.loops[-1]) if is_unknown else 0.0
    return subject.finding(
        KIND, title, remedy, saved=moved, instead_s=_once_s(subject, moved, trips), frames=first.collective.origin.frames,
        caution=caution, edits=edits,
        gain_source=f"{ESTIMATED}, if the loop runs many times" if is_unknown else "",
        of_iteration_s=0.0 if isinstance(iteration_s, Unavailable) else iteration_s,
    )  # fmt: skip


def _arrays(members: Sequence[_Member]) -> list[str]:
    """Returns the types and shapes of the operands of the collectives."""
    shapes = [shape for each in members for shape in each.collective.operand_shapes]
    return list(dict.fromkeys(format_array(s.element_type, s.dimensions) for s in shapes))


def _with_moves(subject: Subject, collectives: Sequence[Collective]) -> list[str]:
    """Returns the names of collectives, and of the kernels that only move what they received: they move in front of the loop too."""
    names = [each.name for each in collectives]
    instructions = [subject.module.instruction(name) for name in names]
    return [*dict.fromkeys((*names, *(one for each in instructions for one in moving_behind(each))))]


def _once_s(subject: Subject, moved: Mapping[str, float], trips: int | Unavailable) -> float:
    """Returns the seconds of collectives in front of the loop, where no kernel of the loop hides them."""
    if isinstance(trips, Unavailable):
        return 0.0
    seconds = (subject.seconds(moved), subject.seconds_saved(moved))  # the second has those in kernels with other work
    return max((each for each in seconds if not isinstance(each, Unavailable)), default=0.0) / trips


def _is_users(collective: Collective) -> bool:
    return isinstance(collective.inserted_by, str) and collective.inserted_by not in ("partitioner", "compiler")


def _manual(collectives: Sequence[Collective]) -> tuple[str, tuple[Edit, ...]]:
    names = dict.fromkeys(name for each in collectives for name in merged_names(each.origin.op_name))
    calls = format_list(list(dict.fromkeys(f"jax.lax.{name.rpartition('/')[2]}" for name in names)))
    return f"Call {calls} before the loop, and use its result in the body.", (HoistCollectives(tuple(names)),)


def _partitioned(subject: Subject, members: Sequence[_Member]) -> tuple[str, tuple[Edit, ...] | None]:
    shardings = {each.number: each for each in subject.shardings if each.kind == "argument"}
    edits: dict[GatherFirst, None] = {}
    lines: dict[str, None] = {}
    is_complete = all(each.arguments and each.collective.opcode == "all-gather" for each in members)
    for collective, _, arguments in members:
        for argument in arguments:
            array = shardings.get(argument.parameter)
            axes = collective.axes
            if argument.parameter is None or array is None or isinstance(axes, Unavailable):
                is_complete = False
            elif spec := _without(array, tuple(map(str, axes))):
                edits[GatherFirst(argument.parameter, tuple(map(str, axes)))] = None
                name = argument.path
                lines[f"{name} = jax.lax.with_sharding_constraint({name}, NamedSharding(mesh, {spec}))"] = None
    if not is_complete or not lines:
        return (
            "Compute this value before the loop, with the sharding that the body needs (jax.lax.with_sharding_constraint).",
            None,
        )
    return "\n".join(["# before the loop", *lines]), tuple(edits)


def _without(array: ArraySharding, axes: Sequence[str]) -> str:
    """Returns the code of a sharding without axes; "" if it does not have them."""
    if isinstance(array.sharding, Unavailable):
        return ""
    kept = [tuple(axis for axis in each if axis not in axes) for each in array.sharding.axes]
    if kept == [*array.sharding.axes]:
        return ""
    return spec_code(kept)


def _arguments(subject: Subject, sources: Sequence[Instruction]) -> tuple[Argument, ...]:
    """Returns the arguments that values are, or from which they are computed element by element."""
    by_number = {argument.parameter: argument for argument in subject.compiled.program.arguments}
    found = []
    for source in sources:
        value = value_source(source)
        while value.opcode in ("convert", "fusion") and len(value.operands) == 1 and _alike(value, value.operands[0]):
            value = value_source(value.operands[0])
        if value.opcode == "parameter" and value.computation.is_entry and value.parameter_number in by_number:
            found.append(by_number[value.parameter_number])
    return tuple(dict.fromkeys(found)) if len(found) == len(sources) else ()


def _alike(one: Instruction, other: Instruction) -> bool:
    return math.prod(one.shape.dimensions) == math.prod(other.shape.dimensions)
