"""Rings of `ppermute`s over the chunks of an array, as of a ring all-reduce: each step sends a chunk, and adds or writes what arrives.

With N devices and N chunks, N - 1 steps that add are a `psum_scatter`, N - 1 that write are an `all_gather`, and both in a row a `psum`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from inspector.analysis.findings.before import MOVING, moved_from, uses
from inspector.analysis.findings.dataflow import Value, is_tuple, source
from inspector.analysis.findings.detectors.collectives.block_rings import UPDATES, Cycles, is_carried, sets
from inspector.hlo.loops import trip_count
from inspector.hlo.module import Instruction
from inspector.hlo.shape import Shape

_TAKING = frozenset({"dynamic-slice", "gather"})
"""Operations that take a chunk by its number."""
_Key = tuple[Instruction, int, tuple[Instruction, ...]]
"""A value: its instruction, the number of the element if that is a loop, and the calls around it."""


class ChunkRing(NamedTuple):
    """A ring over the chunks of an array.

    Attributes:
      steps: its `ppermute`s; one for each loop.
      call: the function of `jax.lax` that does the same.
      loops: the number of its loops; 0 if it is unrolled.
      whole: the shape of all chunks.
    """

    steps: tuple[Value, ...]
    call: str
    loops: int
    whole: Shape


class _Phase(NamedTuple):
    """Steps in a row that all add what arrives, or all write it.

    Attributes:
      steps: the `ppermute`s.
      trips: how often they run together.
      is_sum: whether they add.
      whole: the shape of all chunks.
      before: the array of the chunks.
      after: the array, or the one chunk, that the steps make.
    """

    steps: tuple[Value, ...]
    trips: int
    is_sum: bool
    whole: Shape
    before: _Key
    after: _Key


def chunk_rings(permutes: Iterable[tuple[Value, Cycles]]) -> Iterator[tuple[ChunkRing, Cycles]]:
    """Yields the rings over chunks, with the devices of each.

    Args:
      permutes: the `ppermute`s that go round, in order, each with the devices of its rings.
    """
    found: dict[Cycles, list[_Phase]] = {}
    for value, cycles in permutes:
        devices = len(cycles[0])
        phase = _written(value, devices) or _summed(value, devices)
        if phase is not None:
            found.setdefault(cycles, []).append(phase)
    for cycles, phases in found.items():
        for ring in _rings(_joined(phases), len(cycles[0])):
            yield ring, cycles


def _rings(phases: Sequence[_Phase], devices: int) -> Iterator[ChunkRing]:
    whole = [each for each in phases if each.trips == devices - 1 or (each.trips == devices and not each.is_sum)]
    gathers = {each.before: each for each in whole if not each.is_sum}
    for phase in whole:
        if phase.is_sum:
            after = gathers.pop(phase.after, None)
            steps = phase.steps + (after.steps if after else ())
            yield ChunkRing(steps, "psum" if after else "psum_scatter", _loops(steps, devices), phase.whole)
    for phase in gathers.values():
        yield ChunkRing(phase.steps, "all_gather", _loops(phase.steps, devices), phase.whole)


def _loops(steps: Sequence[Value], devices: int) -> int:
    return len(steps) if len(steps) < devices - 1 else 0


def _joined(phases: Sequence[_Phase]) -> list[_Phase]:
    """Returns the phases with those of a row in one, which an unrolled ring has for each step."""
    following = {(each.before, each.is_sum): each for each in phases}
    second = {(each.after, each.is_sum) for each in phases}
    joined: list[_Phase] = []
    for phase in phases:
        if (phase.before, phase.is_sum) in second:
            continue
        whole = phase
        while (after := following.get((whole.after, phase.is_sum))) is not None and len(whole.steps) < len(phases):
            whole = whole._replace(steps=whole.steps + after.steps, trips=whole.trips + after.trips, after=after.after)
        joined.append(whole)
    return joined


def _written(value: Value, devices: int) -> _Phase | None:
    """Returns a step that sends a chunk of an array, and adds what arrives to another chunk or replaces that."""
    array = _array(Value(value.instruction.operand(0), value.calls), value, devices)
    if array is None or (taken := _only_use(value)) is None:
        return None
    own = {value.instruction}
    write, number = taken
    is_sum = write.instruction.opcode == "add"
    if is_sum:
        own.add(write.instruction)
        if _array(write.operand(1 - number), value, devices) != array or (taken := _only_use(write)) is None:
            return None
        write, number = taken
    opcode = write.instruction.opcode
    if number != UPDATES.get(opcode) or moved_from(write.operand(0)) != array:
        return None
    if not sets(write.instruction):
        if is_sum or write.instruction.called_computations[0].root.opcode != "add":
            return None
        is_sum = True
    own.add(write.instruction)
    is_original = not is_carried(array) and array.instruction.opcode not in UPDATES  # an original may have other uses
    if not is_original and any(user is None or user.instruction not in own for user in _users(array)):
        return None
    whole = array.instruction.shape
    if not is_carried(array):
        return _Phase((value,), 1, is_sum, whole, _key(array), _key(write))
    loop = _repeated(array, write)
    return None if loop is None else _Phase((value,), loop.trips, is_sum, whole, loop.before, loop.after)


def _summed(value: Value, devices: int) -> _Phase | None:
    """Returns a step that sends the sum it has so far, and adds its own chunk to the sum that arrives."""
    if (taken := _only_use(value)) is None or taken[0].instruction.opcode != "add":
        return None
    add, number = taken
    array = _array(add.operand(1 - number), value, devices)
    total = moved_from(value.operand(0))
    if array is None or (total != array and _users(total) != [value]):
        return None
    if is_carried(total):
        loop = _repeated(total, add)
        if loop is None or loop.before != _key(array):  # the sum begins with a chunk of the same array
            return None
        return _Phase((value,), loop.trips, True, array.instruction.shape, loop.before, loop.after)
    return _Phase((value,), 1, True, array.instruction.shape, _key(total), _key(add))


class _Repeated(NamedTuple):
    """The change of an array that a loop carries.

    Attributes:
      trips: the number of iterations.
      before: the array before the loop.
      after: the array after it.
    """

    trips: int
    before: _Key
    after: _Key


def _repeated(carried: Value, result: Value) -> _Repeated | None:
    """Returns the change of an array in a loop, if an iteration makes its next version and nothing else uses that."""
    *outer, loop = carried.calls
    number = carried.instruction.tuple_index
    root = loop.called_computations[0].root
    initial = source(Value(loop.operands[0], tuple(outer)))
    count = trip_count(loop)
    if root.opcode != "tuple" or not is_tuple(initial.instruction) or not isinstance(count, int):
        return None
    if moved_from(Value(root.operands[number], carried.calls)) != result or any(_users(result)):
        return None
    return _Repeated(count, _key(moved_from(initial.operand(number))), (loop, number, tuple(outer)))


def _key(value: Value) -> _Key:
    instruction = value.instruction
    if instruction.opcode == "get-tuple-element" and instruction.operands[0].opcode == "while":
        return instruction.operands[0], instruction.tuple_index, value.calls
    return instruction, -1, value.calls


def _array(chunk: Value, sent: Value, devices: int) -> Value | None:
    """Returns the array of which a value is one chunk, taken by a number; None if it is none."""
    is_taken = False
    value = source(chunk)
    while value.instruction.opcode in MOVING | _TAKING:
        is_taken = is_taken or value.instruction.opcode in _TAKING
        value = source(Value(value.instruction.operand(0), value.calls))
    sizes = [math.prod(each.instruction.shape.dimensions) for each in (value, sent)]
    return value if is_taken and sizes[0] == devices * sizes[1] else None


def _uses(value: Value) -> Iterator[tuple[Value | None, int]]:
    """Yields the uses of a value, followed through moves and through the taking of a chunk: the user and the operand's number."""
    waiting = [value]
    while waiting:
        for user, number in uses(waiting.pop()):
            if user is not None and number == 0 and user.instruction.opcode in MOVING | _TAKING:
                waiting.append(user)
            else:
                yield user, number


def _only_use(value: Value) -> tuple[Value, int] | None:
    found = list(_uses(value))
    user, number = found[0] if len(found) == 1 else (None, 0)
    return None if user is None else (user, number)


def _users(value: Value) -> list[Value | None]:
    """Returns the users of a value, followed through moves; None for a result of the program or of an iteration."""
    return [user for user, _ in _uses(value)]
