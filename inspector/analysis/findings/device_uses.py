"""The uses of an argument on one device, in the optimized HLO: those that read a part of it, and those that need it whole.

Copies, conversions, slices, fusions, and loops that carry the argument unchanged are followed.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence

from inspector.analysis.collectives.sliced_results import by_partition
from inspector.analysis.findings.fetches import FETCHED_SLICES
from inspector.hlo.loops import carried_unchanged
from inspector.hlo.module import Instruction
from inspector.hlo.shape import Shape

_SAME = frozenset({"convert", "copy", "copy-start", "copy-done", "optimization-barrier", "async-update", "async-done"})
_CALLS = frozenset({"fusion", "call", "async-start"})
_MOST_VALUES = 2000

Dimensions = tuple[int | None, ...]
"""For each dimension of a value, the dimension of the argument that it is, or whose first part it is; None for another."""


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceUse:
    """One use of an argument on one device.

    Attributes:
      user: the operation that uses it; None for a result of the program, or if the argument is not followed further.
      value: the operand that is the argument, or that was only moved from it.
      dimensions: the dimensions of the value.
    """

    user: Instruction | None
    value: Instruction
    dimensions: Dimensions


def device_uses(parameter: Instruction, num_partitions: int) -> Iterator[DeviceUse]:
    """Yields the operations that use a parameter of the entry computation, with their operand.

    A slice whose offset is the same on all devices, or unknown, is followed as a part of the argument.

    Args:
      parameter: the parameter.
      num_partitions: number of partitions of the program.
    """
    rank = len(parameter.shape.dimensions)
    waiting: list[tuple[Instruction, int | None, Dimensions]] = [(parameter, None, tuple(range(rank)))]
    seen = set[tuple[int, int | None]]()
    while waiting:
        value, element, dimensions = waiting.pop()
        if (value.row, element) in seen:
            continue
        seen.add((value.row, element))
        if len(seen) > _MOST_VALUES:
            yield DeviceUse(None, value, dimensions)
            return
        if value.is_root:
            callers = value.module.callers.get(value.computation.name, ())
            if len(callers) == 1 and callers[0].opcode in _CALLS:
                waiting.append((callers[0], element, dimensions))
            elif not _is_carried(callers, element):
                yield DeviceUse(None, value, dimensions)
        for user in value.users:
            for number in user.positions_of(value):
                followed = _passed_on(user, number, value, element, dimensions, parameter, num_partitions)
                if followed is None:
                    yield DeviceUse(user, value, dimensions)
                else:
                    waiting.extend(followed)


def _is_carried(callers: Sequence[Instruction], element: int | None) -> bool:
    """Reports whether the element of a result is one that a loop carries unchanged."""
    if len(callers) != 1 or callers[0].opcode != "while" or element is None:
        return False
    return carried_unchanged(callers[0], element) is not None


def _passed_on(
    user: Instruction,
    number: int,
    value: Instruction,
    element: int | None,
    dimensions: Dimensions,
    parameter: Instruction,
    num_partitions: int,
) -> list[tuple[Instruction, int | None, Dimensions]] | None:
    """Returns the values that a user makes of its operand by moving it only; None if it does something else with it."""
    if user.opcode == "tuple" and element is None:
        return [(user, number, dimensions)]
    if user.opcode == "get-tuple-element":
        return None if element is None else [(user, None, dimensions)] if user.tuple_index == element else []
    if user.opcode in _CALLS:
        return [(user.called_computations[0].parameters[number], element, dimensions)]
    if user.opcode == "while" and element is not None:
        if carried_unchanged(user, element) is None:
            return None
        return [*((called.parameters[0], element, dimensions) for called in user.called_computations), (user, element, dimensions)]  # fmt: skip
    if user.opcode in _SAME:
        return [(user, element, dimensions)]
    if user.custom_call_target == FETCHED_SLICES:
        is_whole = user.shape.dimensions == parameter.shape.dimensions
        is_same = is_whole and all(d in (None, n) for n, d in enumerate(dimensions))
        return [(user, None, tuple(n if is_same else None for n in range(len(user.shape.dimensions))))]
    if element is not None or number:
        return None
    if user.opcode == "transpose":
        return [(user, None, tuple(dimensions[d] for d in user.dimensions))]
    if user.opcode in ("bitcast", "reshape"):
        return [(user, None, _reshaped(value.shape, user.shape, dimensions, is_bitcast=user.opcode == "bitcast"))]
    if user.opcode == "slice" or (user.opcode == "dynamic-slice" and _by_device(user, num_partitions) is None):
        pairs = zip(dimensions, value.shape.dimensions, user.shape.dimensions, strict=True)
        return [(user, None, tuple(d if before == after else None for d, before, after in pairs))]
    return None


def _reshaped(before: Shape, after: Shape, dimensions: Dimensions, *, is_bitcast: bool) -> Dimensions:
    """Returns the dimensions after a reshape: those that are a dimension before it, or the first part of a dimension that is split.

    A bitcast keeps the order in memory.
    """
    orders = [[*range(len(shape.dimensions))] for shape in (before, after)]
    if is_bitcast:
        layouts = (before.layout, after.layout)
        orders = [
            order if layout is None else [*reversed(layout.minor_to_major)]
            for order, layout in zip(orders, layouts, strict=True)
        ]
    found: list[int | None] = [None] * len(after.dimensions)
    starts = {
        math.prod(before.dimensions[d] for d in orders[0][:n]): d
        for n, d in enumerate(orders[0])
        if before.dimensions[d] > 1
    }  # by the number of elements in front of a dimension
    for n, d in enumerate(orders[1]):
        source = starts.get(math.prod(after.dimensions[e] for e in orders[1][:n]))
        if source is not None and after.dimensions[d] > 1 and before.dimensions[source] % after.dimensions[d] == 0:
            found[d] = dimensions[source]
    return tuple(found)


def _by_device(part: Instruction, num_partitions: int) -> tuple[int, tuple[int, ...]] | None:
    """Returns the dimension in which the devices take different parts, and the number of the part of each; None if there is none.

    The number is -1 if it is unknown: the offsets differ in several dimensions, or are not multiples of the part's size.
    """
    whole, sliced = part.operands[0].shape.dimensions, part.shape.dimensions
    found = [
        (d, offsets)
        for d in range(len(whole))
        if sliced[d] < whole[d] and len(set(offsets := by_partition(part.operands[1 + d], num_partitions))) > 1
    ]
    if not found:
        return None
    dimension, offsets = found[0]
    size = sliced[dimension]
    if len(found) > 1 or len(offsets) != num_partitions or whole[dimension] % size or any(o % size for o in offsets):
        return dimension, (-1,) * num_partitions
    return dimension, tuple(offset // size for offset in offsets)


@dataclasses.dataclass(frozen=True, slots=True)
class ReadPart:
    """The part of an argument that each device reads.

    Attributes:
      dimension: the dimension of the argument in which it is a part.
      count: number of parts.
      numbers: the number of the part of each partition.
      slices: the `dynamic-slice`s that read it.
    """

    dimension: int
    count: int
    numbers: tuple[int, ...]
    slices: tuple[Instruction, ...]


def read_part(parameter: Instruction, num_partitions: int) -> ReadPart | None:
    """Returns the part of a parameter that each device reads; None if a device reads more, or the parts are not the same in all uses."""
    found: dict[tuple[int, int, tuple[int, ...]], None] = {}
    slices: list[Instruction] = []
    for use in device_uses(parameter, num_partitions):
        user = use.user
        part = None if user is None or user.opcode != "dynamic-slice" else _by_device(user, num_partitions)
        if user is None or part is None or user.operands[0].row != use.value.row:
            return None
        dimension, count = (
            use.dimensions[part[0]],
            use.value.shape.dimensions[part[0]] // user.shape.dimensions[part[0]],
        )
        if dimension is None or -1 in part[1]:
            return None
        found[dimension, count, part[1]] = None
        slices.append(user)
        if len(found) > 1:
            return None
    return ReadPart(*next(iter(found)), tuple(slices)) if found else None
