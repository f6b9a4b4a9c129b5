"""Collectives in a `shard_map` of which each device only takes its own part again.

An `all_gather` whose own part is taken is the value before it, or an `all_to_all` if the part is along another dimension, and a `psum` is a
`psum_scatter`, also if values are computed for each row in between.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from inspector.analysis.collectives.collective import Collective
from inspector.analysis.collectives.participation import Groups
from inspector.analysis.collectives.sliced_results import by_partition, sliced_dimension
from inspector.analysis.findings.at_line import Lines, is_same_line, lines_of
from inspector.analysis.findings.before import full_name, uses
from inspector.analysis.findings.dataflow import Value
from inspector.analysis.findings.detectors.sharding.row_dimensions import dimension_after
from inspector.analysis.findings.edits import KeepOwnParts, stacks_of
from inspector.analysis.findings.exchange_chains import (
    has_product,
    is_by_element,
    makers_of,
    moving_behind,
    only_moves,
    readers_of,
)
from inspector.analysis.findings.exchanges import pricing_of
from inspector.analysis.findings.finding import Finding
from inspector.analysis.findings.subject import Subject
from inspector.hlo.module import Instruction
from inspector.hlo.shape import Shape
from inspector.hlo.source import merged_names
from inspector.support.units import format_array

_CALLS = {"all-gather": "all_gather", "all-reduce": "psum"}
_MOST_VALUES = 200
_MOST_COMBINED = 1.05
"""Largest size of a combined sum, relative to those of which each device takes its part."""


class _OwnPart(NamedTuple):
    """A collective of whose result each device takes the part at its place in the group.

    Attributes:
      value: the collective.
      dimension: the dimension of the parts.
      devices: the number of parts.
      between: the operations on the whole array before its part is taken.
    """

    value: Value
    dimension: int
    devices: int
    between: tuple[Value, ...] = ()


def own_parts(subject: Subject, kind: str) -> Iterator[Finding]:
    """Yields a finding for the collectives of a line of whose results each device only takes its own parts.

    Args:
      subject: the program.
      kind: the kind of the findings.
    """
    if subject.calls is None:
        return
    groups: dict[tuple[str, Lines, int, int], list[_OwnPart]] = {}
    for value, name in subject.calls.values(_CALLS):
        found = _own_part(value, subject.collectives.num_partitions)
        if found is not None:
            key = name, lines_of(value.instruction.frames), value.instruction.shape.byte_size, found.dimension
            groups.setdefault(key, []).append(found)
    left: dict[tuple[str, Groups], list[_OwnPart]] = {}  # sums by name and devices
    for owns in groups.values():
        collectives = compiled_collectives(subject, owns[0].value)
        if len(collectives) == len(owns):
            yield from _finding(subject, kind, owns, collectives)
        elif not collectives and owns[0].value.instruction.opcode == "all-reduce":
            left.setdefault((full_name(owns[0].value), peers_of(subject, owns[0].value)), []).extend(owns)
    for (_, peers), owns in left.items():
        combined = combined_collective(subject, [each.value for each in owns], peers)
        if combined is not None:
            yield from _finding(subject, kind, owns, [combined])


def _groups(collective: Instruction, num_partitions: int) -> list[list[int]]:
    return [list(map(int, group)) for group in collective.replica_groups.expand(num_partitions).tolist()]


def peers_of(subject: Subject, value: Value) -> Groups:
    """Returns the groups of devices of a collective."""
    return tuple(map(tuple, _groups(value.instruction, subject.collectives.num_partitions)))


def combined_collective(subject: Subject, values: Sequence[Value], peers: Groups) -> Collective | None:
    """Returns the collective into which XLA combined others, and maybe smaller ones; None if there is none.

    Its name and lines are those of one of them.
    """
    size, opcode = sum(each.instruction.shape.byte_size for each in values), values[0].instruction.opcode
    found = [
        each
        for each in subject.collectives
        if each.opcode == opcode and size <= each.result_bytes <= _MOST_COMBINED * size and each.participants == peers
    ]
    return found[0] if len(found) == 1 else None


def _own_part(value: Value, num_partitions: int) -> _OwnPart | None:
    """Returns the part that each device takes of a collective's result; None if a device needs more, or another part."""
    collective = value.instruction
    if len(collective.operands) != 1 or collective.shape.is_tuple or not _is_sum_or_gather(collective):
        return None
    groups = _groups(collective, num_partitions)
    places = {number: place for group in groups for place, number in enumerate(group) if number >= 0}
    count = len(groups[0])
    if {*places} != {*range(num_partitions)} or count < 2 or len(places) != count * len(groups):
        return None
    gathered = [*collective.dimensions] if collective.opcode == "all-gather" else []
    others = [d for d, size in enumerate(collective.shape.dimensions) if size % count == 0 and d not in gathered]
    parts = (_part_of_rows(value, dimension, places, count) for dimension in (*gathered, *others))
    return next((part for part in parts if part is not None), None)


def _sliced(user: Instruction, places: Mapping[int, int], count: int) -> int | None:
    """Returns the dimension along which a slice takes the own part of each device; None for other operations."""
    dimension = sliced_dimension(user) if user.opcode == "dynamic-slice" else None
    if dimension is None or user.operands[0].shape.dimensions[dimension] != count * user.shape.dimensions[dimension]:
        return None
    offsets, size = by_partition(user.operands[1 + dimension], len(places)), user.shape.dimensions[dimension]
    is_own = len(offsets) == len(places) and all(offset == places[n] * size for n, offset in enumerate(offsets))
    return dimension if is_own else None


def _part_of_rows(whole: Value, dimension: int, places: Mapping[int, int], count: int) -> _OwnPart | None:
    """Returns the part of an array along a dimension that each device takes, also of values that are computed for each row of it alone."""
    tracked, waiting, is_taken = {whole: dimension}, [whole], False
    while waiting:
        value = waiting.pop()
        for user, number in uses(value):
            if user is None or len(tracked) > _MOST_VALUES:
                return None
            at = tracked[value]
            if _sliced(user.instruction, places, count) == at:
                is_taken = True
                continue
            after = dimension_after(user.instruction, number, at)
            if after is None or tracked.get(user, after) != after:
                return None
            if user not in tracked:
                tracked[user] = after
                waiting.append(user)
    between = tuple(each for each in tracked if each != whole)
    return _OwnPart(whole, dimension, count, between) if is_taken else None


def _is_sum_or_gather(collective: Instruction) -> bool:
    return collective.opcode == "all-gather" or collective.called_computations[0].root.opcode == "add"


def compiled_collectives(subject: Subject, value: Value) -> list[Collective]:
    """Returns the compiled collectives with the name and the lines of one; [] if XLA changed or combined them."""
    before, name, lines = value.instruction, full_name(value), lines_of(value.instruction.frames)
    return [
        each
        for each in subject.collectives
        if each.opcode == before.opcode
        and name in merged_names(each.origin.op_name)
        and is_same_line(lines_of(each.origin.frames), lines)
        and sum(math.prod(shape.dimensions) for shape in each.result_shapes)
        == _elements(before)  # maybe in another type
    ]


def _finding(
    subject: Subject, kind: str, owns: Sequence[_OwnPart], collectives: Sequence[Collective]
) -> Iterator[Finding]:
    """Yields the finding; none for a sum that takes no longer than a `psum_scatter`, such as in the switches of GPUs."""
    own = owns[0]
    before = own.value.instruction
    call = _CALLS[before.opcode]
    array = format_array(before.operands[0].shape.element_type, before.operands[0].shape.dimensions)
    saved = dict.fromkeys((each.name for each in collectives), 1.0)
    shrunk = dict.fromkeys(kernels_between(subject, [each for one in owns for each in one.between]))
    stacks, count = stacks_of(one.value.instruction.frames for one in owns), own.devices
    shapes = _shapes(owns)
    if before.opcode == "all-gather" and own.dimension not in before.dimensions:
        (gathered,) = before.dimensions
        what = (
            f"gathers {array} of each device along dimension {gathered}, and each device then only takes its own part along dimension {own.dimension}:"
            " one `all_to_all` does the same."
        )
        remedy = f"jax.lax.all_to_all(x, axis, split_axis={own.dimension}, concat_axis={gathered}, tiled=True)  # instead of all_gather and the slice"
        for each in collectives:
            saved |= _saved_by(subject, each, count, "all-to-all")
        edits = [KeepOwnParts((full_name(own.value),), shapes, stacks, (own.dimension, count))]
    elif before.opcode == "all-gather":
        if own.between:
            what = f"gathers {array} of each device, computes each row independently, and each device then keeps only its own part."
            remedy = f"Compute with the operand of jax.lax.{call} and remove the slice. Other operands that have all rows must be sliced to the device's rows."
        else:
            what = f"gathers {array} of each device, and each device then only takes its own part again."
            remedy = f"Use the operand of jax.lax.{call} instead of the part: it is the same."
        for each in collectives:
            saved |= dict.fromkeys(_kernels_behind(subject, each), 1.0)
        edits = [KeepOwnParts((full_name(own.value),), shapes, stacks)]
    else:
        whole = array if len(shapes) == 1 else f"{len(owns)} arrays"
        what = f"adds up {whole} of each device, and each device then only takes its own part: one `psum_scatter` does the same."
        sliced = own.dimension if len({one.dimension for one in owns}) == 1 else "dimension"
        remedy = (
            f"jax.lax.psum_scatter(x, axis, scatter_dimension={sliced}, tiled=True)  # instead of psum and the slice"
        )
        for each in collectives:
            saved |= _saved_by(subject, each, count, "reduce-scatter")
        edits = [
            KeepOwnParts((full_name(own.value),), _shapes(owns, dimension), stacks, (dimension, count))
            for dimension in dict.fromkeys(one.dimension for one in owns)
        ]
    for name in shrunk:
        saved.setdefault(name, 1 - 1 / count)
    if all(saved[each.name] <= 0 for each in collectives):
        return
    times = f" ({len(collectives)} times)" if len(collectives) > 1 else ""
    yield subject.finding(
        kind, f"The `{call}`{subject.at_line(before.frames)}{times} {what}", remedy, saved=saved, frames=before.frames, edits=tuple(edits),
    )  # fmt: skip


def _shapes(owns: Iterable[_OwnPart], dimension: int | None = None) -> tuple[tuple[int, ...], ...]:
    """Returns the shapes of the collectives' results, or of those of whose parts along a dimension are taken."""
    found = (one.value.instruction.shape for one in owns if dimension in (None, one.dimension))
    return tuple(dict.fromkeys(tuple(shape.dimensions) for shape in found))


def kernels_between(subject: Subject, values: Sequence[Value], parts: int = 1) -> Iterator[str]:
    """Yields the kernels of operations on gathered arrays: those with a name, lines and size of one.

    Args:
      subject: the program.
      values: the operations.
      parts: the number of parts into which the arrays are still split.
    """
    wanted = {
        (full_name(each), lines_of(each.instruction.frames), _elements(each.instruction) // parts) for each in values
    }
    for each in subject.kernels.named({name for name, _, _ in wanted}):
        kernel = subject.kernels.kernel(each)
        if kernel is not None and any(
            name in merged_names(each.op_name)
            and size == _elements(each)
            and is_same_line(lines_of(each.frames), lines)
            for name, lines, size in wanted
        ):
            yield kernel


def _elements(instruction: Instruction) -> int:
    return math.prod(instruction.shape.dimensions)


def _saved_by(subject: Subject, collective: Collective, count: int, opcode: str) -> Mapping[str, float]:
    """Returns the parts of the time of a collective, and of the kernels that move its result, which another one among `count` devices saves.

    The result of the other one is the part of one device.
    """
    elements = sum(math.prod(shape.dimensions) for shape in collective.result_shapes)
    part_shape = Shape(collective.result_shapes[0].element_type, (max(1, elements // count),))
    other = dataclasses.replace(collective, opcode=opcode, result_shapes=(part_shape,))
    exchange = next((each for each in subject.exchanges if each.collective.name == collective.name), None)
    if exchange is None:
        return {collective.name: 0.5}  # of the bytes
    price = pricing_of(subject.collectives, subject.roofline.peak, subject.compiled.target).price(other)
    result = subject.module.instruction(collective.name)
    slices = [each.name for each in readers_of(result) if only_moves(each)]
    part = 1 - float(price.known_s) / float(exchange.price.known_s)
    return {**dict.fromkeys((*moving_behind(result), *slices), 1.0), collective.name: part}


def _kernels_behind(subject: Subject, collective: Collective) -> list[str]:
    """Returns the kernels that read the result and are not needed without it: copies, and those that XLA joins with the kernel before."""
    exchange = subject.module.instruction(collective.name)
    makers, platform = [*makers_of(exchange)], subject.compiled.program.platform
    is_joined = (
        len(makers) == 1
        and len({*readers_of(makers[0])}) == 1
        and (is_by_element(makers[0]) or (platform != "cpu" and has_product(makers[0])))
    )
    joined = [
        each.name
        for each in readers_of(exchange)
        if is_joined
        and is_by_element(each)
        and all(maker is exchange for maker in makers_of(each) if maker.shape.dimensions)
    ]
    return [*moving_behind(exchange), *joined]
