"""Collectives in a `shard_map` of which each device only takes its own part again.

An `all_gather` whose own part is taken is the value before it; a `psum` is a `psum_scatter`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import NamedTuple

from inspector.analysis.collectives.collective import Collective
from inspector.analysis.collectives.sliced_results import by_partition, sliced_dimension
from inspector.analysis.findings.at_line import is_same_line, lines_of
from inspector.analysis.findings.before import full_name, uses
from inspector.analysis.findings.dataflow import Value
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


class _OwnPart(NamedTuple):
    """A collective of whose result each device takes the part at its place in the group.

    Attributes:
      value: the collective.
      dimension: the dimension of the parts.
      part: the shape of a part.
    """

    value: Value
    dimension: int
    part: Shape


def own_parts(subject: Subject, kind: str) -> Iterator[Finding]:
    """Yields a finding for each collective of whose result each device only takes its own part.

    Args:
      subject: the program.
      kind: the kind of the findings.
    """
    if subject.calls is None:
        return
    for value, _ in subject.calls.values(_CALLS):
        found = _own_part(value, subject.collectives.num_partitions)
        collective = None if found is None else compiled_collective(subject, value)
        if found is not None and collective is not None:
            yield from _finding(subject, kind, found, collective)


def _own_part(value: Value, num_partitions: int) -> _OwnPart | None:
    """Returns the part that each device takes of a collective's result; None if a device needs more, or another part."""
    collective = value.instruction
    if len(collective.operands) != 1 or collective.shape.is_tuple or not _is_sum_or_gather(collective):
        return None
    groups = collective.replica_groups.expand(num_partitions).tolist()
    places = {number: place for group in groups for place, number in enumerate(group) if number >= 0}
    count = len(groups[0])
    if {*places} != {*range(num_partitions)} or count < 2 or len(places) != count * len(groups):
        return None
    dimensions, part = set[int](), collective.shape
    for user, _ in uses(value):
        slice_ = None if user is None else user.instruction
        if slice_ is None or slice_.opcode != "dynamic-slice":
            return None
        dimension = sliced_dimension(slice_)
        if (
            dimension is None
            or slice_.operands[0].shape.dimensions[dimension] != count * slice_.shape.dimensions[dimension]
        ):
            return None
        offsets, size = by_partition(slice_.operands[1 + dimension], num_partitions), slice_.shape.dimensions[dimension]
        if len(offsets) != num_partitions or any(offset != places[n] * size for n, offset in enumerate(offsets)):
            return None
        dimensions.add(dimension)
        part = slice_.shape
    if len(dimensions) != 1:
        return None
    (dimension,) = dimensions
    if collective.opcode == "all-gather" and [*collective.dimensions] != [dimension]:
        return None
    return _OwnPart(value, dimension, part)


def _is_sum_or_gather(collective: Instruction) -> bool:
    return collective.opcode == "all-gather" or collective.called_computations[0].root.opcode == "add"


def compiled_collective(subject: Subject, value: Value) -> Collective | None:
    """Returns what XLA compiled of a collective; None if XLA made another one of it, or combined it with others."""
    before, name, lines = value.instruction, full_name(value), lines_of(value.instruction.frames)
    found = [
        each
        for each in subject.collectives
        if each.opcode == before.opcode
        and name in merged_names(each.origin.op_name)
        and is_same_line(lines_of(each.origin.frames), lines)
        and each.result_bytes == before.shape.byte_size
    ]
    return found[0] if len(found) == 1 else None


def _finding(subject: Subject, kind: str, own: _OwnPart, collective: Collective) -> Iterator[Finding]:
    """Yields the finding; none for a sum that takes no longer than a `psum_scatter`, such as in the switches of GPUs."""
    before = own.value.instruction
    call = _CALLS[before.opcode]
    array = format_array(before.operands[0].shape.element_type, before.operands[0].shape.dimensions)
    saved = {collective.name: 1.0}
    if before.opcode == "all-gather":
        what = f"gathers {array} of each device, and each device then only takes its own part again."
        remedy = f"Use the operand of jax.lax.{call} instead of the part: it is the same."
        saved |= dict.fromkeys(_kernels_behind(subject, collective), 1.0)
    else:
        what = f"adds up {array} of each device, and each device then only takes its own part: one `psum_scatter` does the same."
        remedy = f"jax.lax.psum_scatter(x, axis, scatter_dimension={own.dimension}, tiled=True)  # instead of psum and the slice"
        scatter = dataclasses.replace(collective, opcode="reduce-scatter", result_shapes=(own.part,))
        exchange = next((each for each in subject.exchanges if each.collective.name == collective.name), None)
        if exchange is None:
            saved[collective.name] = 0.5  # of the bytes
        else:
            price = pricing_of(subject.collectives, subject.roofline.peak, subject.compiled.target).price(scatter)
            saved[collective.name] = 1 - float(price.known_s) / float(exchange.price.known_s)
            result = subject.module.instruction(collective.name)
            slices = [each.name for each in readers_of(result) if only_moves(each)]
            saved |= dict.fromkeys((*moving_behind(result), *slices), 1.0)
    if saved[collective.name] <= 0:
        return
    yield subject.finding(
        kind, f"The `{call}`{subject.at_line(before.frames)} {what}", remedy, saved=saved, frames=before.frames,
    )  # fmt: skip


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
