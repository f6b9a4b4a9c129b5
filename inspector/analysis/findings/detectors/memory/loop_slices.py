"""Slices that the iterations of a loop take of an array and write back: the cache of each layer in a scan over layers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from inspector.analysis.findings.before import moved_from, uses
from inspector.analysis.findings.dataflow import Value, is_tuple, source
from inspector.analysis.findings.subject import Subject
from inspector.hlo.loops import carried_index, integers
from inspector.hlo.module import Instruction

VIEWS = frozenset({"bitcast", "get-tuple-element", "copy-done"})
"""Operations of the optimized HLO that only name a value."""
COPYING = frozenset({"copy", "copy-start"})
_UNIT_DIMENSIONS = frozenset({"reshape", "broadcast"})
_NEW = {"dynamic-update-slice": 1, "scatter": 2}
"""Updates of slices, and the number of the operand that has the new values."""
_MAKING = frozenset({"broadcast", "constant"})


class LoopSlice(NamedTuple):
    """A slice of an array.

    Attributes:
      taken: the dynamic-slice.
      array: the array: an argument of the program, or carried by a loop.
    """

    taken: Value
    array: Value


def loop_slice(value: Value) -> LoopSlice | None:
    """Returns the slice of an array that a value is, as `array[i]` is one; None for other values."""
    value = source(value)
    while value.instruction.opcode == "reshape":
        value = value.operand(0)
    return LoopSlice(value, value.operand(0)) if value.instruction.opcode == "dynamic-slice" else None


def written_back(value: Value, part: LoopSlice) -> Value | None:
    """Returns the update that writes the new version of a slice to its place; None if there is none.

    The array may be the same, or a new one, as the results that `lax.scan` stacks are.

    Args:
      value: the new version.
      part: the slice.
    """
    waiting, size = [value], math.prod(value.instruction.shape.dimensions)
    while waiting:
        for user, operand in uses(waiting.pop()):
            if user is None:
                continue
            opcode, shape = user.instruction.opcode, user.instruction.shape
            if opcode in _UNIT_DIMENSIONS and math.prod(shape.dimensions) == size:
                waiting.append(user)
            elif operand == _NEW.get(opcode) and _is_at(user, part) and _is_kept(user, part):
                return user
    return None


def is_new(update: Value, part: LoopSlice) -> bool:
    """Reports whether an update writes to another array than that of the slice."""
    return not _is_same(update.operand(0), part.array)


def is_read_elsewhere(part: LoopSlice, update: Value) -> bool:
    """Reports whether something but the slice needs the array as it was before the update."""
    users = [use.user for use in uses(part.array)]
    if is_new(update, part):
        return len(users) != 1 or users[0] is None or users[0].instruction.opcode != "while"
    return any(user not in (part.taken, update) for user in users)


def initial(value: Value) -> Value | None:
    """Returns the initial value of an array that a loop carries; None for others."""
    index = carried_index(value.instruction)
    if index is None or not value.calls or value.calls[-1].opcode != "while":
        return None
    start = source(Value(value.calls[-1].operands[0], value.calls[:-1]))
    return start.operand(index) if is_tuple(start.instruction) else None


def _is_at(update: Value, part: LoopSlice) -> bool:
    """Reports whether an update has the same indices as a slice. That of `array.at[i].set(x)` is a scatter of one slice."""
    places = [*itertools.islice(part.taken.operands, 1, None)]
    if update.instruction.opcode == "dynamic-update-slice":
        return all(itertools.starmap(_is_index, zip(itertools.islice(update.operands, 2, None), places, strict=True)))
    indices, update_of = update.operand(1), update.instruction.to_apply
    axes = [*update.instruction.proto.scatter_dimension_numbers.scatter_dims_to_operand_dims]
    return (
        len(axes) == 1
        and math.prod(indices.instruction.shape.dimensions) == 1
        and update_of is not None
        and update_of.root.parameter_number == 1  # the new values as they are
        and _is_index(moved_from(indices), places.pop(axes[0]))
        and all(each.instruction.opcode == "constant" and integers(each.instruction) == (0,) for each in places)
    )


def _is_index(one: Value, other: Value) -> bool:
    one, other = _counted(one), _counted(other)
    numbers = integers(one.instruction) if one.instruction.opcode == "constant" else ()
    return _is_same(one, other) or (
        bool(numbers) and other.instruction.opcode == "constant" and numbers == integers(other.instruction)
    )


def _counted(index: Value) -> Value:
    """Returns an index without the choice that JAX adds for negative ones: `index + length` if it is less than 0."""
    if index.instruction.opcode != "select":
        return index
    chosen, plain = index.operand(1), index.operand(2)
    return plain if chosen.instruction.opcode == "add" and plain in chosen.operands else index


def _is_same(one: Value, other: Value) -> bool:
    index = carried_index(one.instruction)
    return one == other or (
        index is not None
        and one.calls == other.calls
        and index == carried_index(other.instruction)
        and one.instruction.computation == other.instruction.computation
    )


def _is_kept(update: Value, part: LoopSlice) -> bool:
    """Reports whether a loop carries the updated array, which is that of the slice or a new one of the same shape."""
    if not any(use.user is None for use in uses(update)):
        return False
    array = update.operand(0)
    if _is_same(array, part.array):
        return True
    start = initial(array)
    return (
        start is not None
        and start.instruction.opcode in _MAKING
        and array.instruction.shape.dimensions == part.taken.instruction.operands[0].shape.dimensions
    )


def kernels_of_new_array(subject: Subject, kernels: Iterable[str]) -> Iterator[str]:
    """Yields the kernels that fill an array before a loop updates it, and those that copy it to a donated argument after the loop.

    Args:
      subject: the program.
      kernels: the kernels of the loop that update the array.
    """
    for each in kernels:
        kernel = subject.module.instruction(each)
        for loop in subject.module.callers.get(kernel.computation.name, ()):
            for index in _results(kernel) if loop.opcode == "while" else ():
                started = _named(loop.operands[0].operands[index]) if loop.operands[0].opcode == "tuple" else None
                if started is not None and started.name in subject.points and not _reads_arrays(started):
                    yield started.name
                for user in loop.users:
                    if user.opcode == "get-tuple-element" and user.tuple_index == index:
                        yield from (
                            copy.name for copy in user.users if copy.opcode in COPYING and copy.name in subject.points
                        )


def _results(kernel: Instruction) -> list[int]:
    """Returns the numbers of the results of its computation that a kernel computes."""
    root = kernel.computation.root
    return [n for n, each in enumerate(root.operands) if _named(each) == kernel] if root.opcode == "tuple" else []


def _named(value: Instruction) -> Instruction:
    while value.opcode in VIEWS:
        value = value.operands[0]
    return value


def _reads_arrays(kernel: Instruction) -> bool:
    """Reports whether a kernel reads anything but scalars."""
    return kernel.opcode == "parameter" or any(each.shape.dimensions for each in kernel.operands)
