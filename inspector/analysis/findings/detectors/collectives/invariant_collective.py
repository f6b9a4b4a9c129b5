"""Collectives in a loop that does not change their operands: every iteration communicates the same data.

They are the user's own, in a `shard_map`, or the partitioner's, which gathers a split weight where a loop's body uses it.
Weights of layers that the loop slices by its counter change from iteration to iteration.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from inspector.analysis.collectives.collective import Collective, axes_text
from inspector.analysis.findings.edits import Edit, GatherFirst, HoistCollectives
from inspector.analysis.findings.exchange_chains import moving_behind, readers_of
from inspector.analysis.findings.finding import Finding
from inspector.analysis.findings.hoisted_work import hoisted_products
from inspector.analysis.findings.invariants import Invariant, invariant
from inspector.analysis.findings.spec_code import spec_code
from inspector.analysis.findings.subject import ESTIMATED, Subject
from inspector.analysis.sharding.program_shardings import ArraySharding
from inspector.compilation.program import Argument
from inspector.errors import Unavailable
from inspector.hlo.loops import value_source
from inspector.hlo.module import Instruction
from inspector.hlo.source import merged_names, phases
from inspector.support.units import format_array, format_bytes, format_list

KIND = "invariant-collective"
_MOST_NAMED = 3
_CALLS = frozenset(
    {"psum", "psum_invariant", "pmax", "pmin", "all_gather", "psum_scatter", "reduce_scatter", "ppermute"}
)
_CONCATENATING = frozenset({"parameter", "concatenate", "bitcast", "reshape"})
_UNKNOWN_LENGTH = Unavailable("the length of the loop is unknown, so the times of both programs cannot be compared")


class _Member(NamedTuple):
    """A collective with the loops that do not change its operands, or those of several that XLA combined.

    Attributes:
      collective: the collective.
      invariant: the loops.
      arguments: the arguments that these operands are computed from.
      op_names: JAX's names of the collectives of these operands.
      part: the part of the bytes that these operands have, from 0 to 1.
      joins: the kernels that only put the operands of several collectives together, and that are not needed for the one that is left.
    """

    collective: Collective
    invariant: Invariant
    arguments: tuple[Argument, ...]
    op_names: tuple[str, ...]
    part: float = 1.0
    joins: tuple[str, ...] = ()


def invariant_collective(subject: Subject) -> Iterator[Finding]:
    """Yields a finding for each loop, kind and author of collectives that the loop need not repeat."""
    groups: dict[tuple[str, str, str], list[_Member]] = {}
    for collective in subject.collectives:
        if collective.executions == 1:
            continue
        member = _member(subject, collective)
        if member is not None and member.invariant.trips != 1:
            key = member.invariant.loops[-1].name, collective.opcode, str(collective.inserted_by)
            groups.setdefault(key, []).append(member)
    for members in groups.values():
        yield _finding(subject, members)


def _member(subject: Subject, collective: Collective) -> _Member | None:
    """Returns a collective with the operands that a loop does not change; None if there are none."""
    instruction = subject.module.instruction(collective.name)
    found = invariant(instruction)
    if found.loops:
        return _Member(
            collective, found, _arguments(subject, found.sources), tuple(merged_names(collective.origin.op_name))
        )
    combined = _combined(instruction)
    unchanged = [each for each in combined if invariant(instruction, [each]).loops]
    calls = (_calls_behind(instruction) or _named_calls(merged_names(collective.origin.op_name))) if unchanged else ()
    if not calls:
        return None
    found = invariant(instruction, unchanged)
    part = sum(each.shape.byte_size for each in unchanged) / sum(each.shape.byte_size for each in combined)
    joins: tuple[str, ...] = ()
    if len(combined) == len(unchanged) + 1 and len(instruction.operands) == 1:
        joins = (instruction.operands[0].name, *moving_behind(instruction))
    elif len(instruction.operands) > 1:
        behind = moving_behind(instruction)
        joins = tuple(name for name in behind if invariant(subject.module.instruction(name)).loops)
    return _Member(collective, found, _arguments(subject, found.sources), calls, part, joins)


def _calls_behind(collective: Instruction) -> tuple[str, ...]:
    """Returns JAX's names of collectives that XLA combined into one: those of the parts of its result."""
    parts = [each for reader in readers_of(collective) for each in (reader, *_inside(reader), *reader.users)]
    return _named_calls(name for each in parts for name in merged_names(each.op_name))


def _named_calls(names: Iterable[str]) -> tuple[str, ...]:
    """Returns those of JAX's names that are collectives."""
    return tuple(name for name in dict.fromkeys(names) if name.rpartition("/")[2] in _CALLS)


def _inside(kernel: Instruction) -> Sequence[Instruction]:
    """Returns the slices in a kernel."""
    return [each for called in kernel.called_computations for each in called.instructions if each.opcode == "slice"]


def _combined(collective: Instruction) -> Sequence[Instruction]:
    """Returns the operands of several collectives that XLA combined into one, concatenated or not."""
    if len(collective.operands) > 1:
        return collective.operands
    (operand,) = collective.operands
    inside = operand.called_computations[0].instructions if operand.opcode == "fusion" else (operand,)
    is_concatenated = sum(each.opcode == "concatenate" for each in inside) == 1
    return operand.operands if is_concatenated and all(each.opcode in _CONCATENATING for each in inside) else ()


def _finding(subject: Subject, members: Sequence[_Member]) -> Finding:
    first = members[0]
    trips = first.invariant.trips
    size = sum(round(each.part * each.collective.result_bytes) for each in members)
    grows = size > sum(each.part * each.collective.operand_bytes for each in members)
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
    is_users = _is_users(first.collective) or first.part < 1
    remedy, edits = _manual(members) if is_users else _partitioned(subject, members)
    if is_unknown:
        edits = _UNKNOWN_LENGTH
    moved = {name: part for each in members for name, part in _moved(subject, each)}
    moved |= hoisted_products(subject, [each.collective for each in members], first.invariant.loops[0])
    summed = {} if is_users else dict.fromkeys(_summed(subject, members), 1.0)
    moved |= summed
    iteration_s = subject.iteration_s(first.invariant.loops[-1]) if is_unknown else 0.0
    return subject.finding(
        KIND, title, remedy, saved=moved, instead_s=_once_s(subject, moved, trips), frames=first.collective.origin.frames,
        caution=caution, edits=edits, is_upper_bound=bool(summed),
        gain_source=f"{ESTIMATED}, if the loop runs many times" if is_unknown else "",
        of_iteration_s=0.0 if isinstance(iteration_s, Unavailable) else iteration_s,
    )  # fmt: skip


def _summed(subject: Subject, members: Sequence[_Member]) -> Iterator[str]:
    """Yields the reduce-scatters of the gradients of weights in the loop of the backward pass that gathers the weights.

    If the weights are gathered before the loop, their gradients are added up whole and exchanged after it.
    """
    gathered = {
        (str(each.collective.axes), math.prod(shape.dimensions), each.invariant.trips)
        for each in members
        for shape in each.collective.result_shapes
        if each.collective.opcode == "all-gather"
    }
    bodies = {subject.module.instruction(each.collective.name).computation for each in members}
    for exchange in subject.exchanges:
        collective = exchange.collective
        if exchange.operation.holder.computation not in bodies:
            continue
        if collective.opcode == "reduce-scatter" and "backward" in phases(collective.origin.op_name):
            for shape in collective.operand_shapes:
                if (str(collective.axes), math.prod(shape.dimensions), collective.executions) in gathered:
                    yield collective.name


def _arrays(members: Sequence[_Member]) -> list[str]:
    """Returns the types and shapes of what the collectives make."""
    shapes = [shape for each in members for shape in each.collective.result_shapes]
    return list(dict.fromkeys(format_array(s.element_type, s.dimensions) for s in shapes))


def _moved(subject: Subject, member: _Member) -> Iterator[tuple[str, float]]:
    """Yields a collective, and the kernels that only move what it received, with the part of their time that leaves the loop.

    The latency stays if other operands are sent with them.
    """
    name, part = member.collective.name, member.part
    if part < 1:
        exchange = next((each for each in subject.exchanges if each.collective.name == name), None)
        part *= 1.0 if exchange is None else 1 - exchange.latency_s / exchange.price.known_s
    yield name, part
    behind = moving_behind(subject.module.instruction(name))
    yield from ((each, member.part) for each in behind if each not in member.joins)
    yield from ((each, 1.0) for each in member.joins)


def _once_s(subject: Subject, moved: Mapping[str, float], trips: int | Unavailable) -> float:
    """Returns the seconds of collectives in front of the loop, where no kernel of the loop hides them."""
    if isinstance(trips, Unavailable):
        return 0.0
    known = [part * s for name, part in moved.items() if not isinstance(s := subject.seconds([name]), Unavailable)]
    saved_s = subject.seconds_saved(moved)  # has those in kernels with other work too
    return max(sum(known), 0.0 if isinstance(saved_s, Unavailable) else saved_s) / trips


def _is_users(collective: Collective) -> bool:
    return isinstance(collective.inserted_by, str) and collective.inserted_by not in ("partitioner", "compiler")


def _manual(members: Sequence[_Member]) -> tuple[str, tuple[Edit, ...]]:
    names = dict.fromkeys(name for each in members for name in each.op_names)
    calls = format_list(list(dict.fromkeys(f"jax.lax.{name.rpartition('/')[2]}" for name in names)))
    return f"Call {calls} before the loop, and use its result in the body.", (HoistCollectives(tuple(names)),)


def _partitioned(subject: Subject, members: Sequence[_Member]) -> tuple[str, tuple[Edit, ...] | None]:
    shardings = {each.number: each for each in subject.shardings if each.kind == "argument"}
    edits: dict[GatherFirst, None] = {}
    lines: dict[str, None] = {}
    is_complete = all(each.arguments and each.collective.opcode == "all-gather" for each in members)
    for member in members:
        for argument in member.arguments:
            array = shardings.get(argument.parameter)
            axes = member.collective.axes
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
