"""Rings of `ppermute`s whose blocks go round as they are: a loop that carries the block, or an unrolled chain of calls."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from inspector.analysis.findings.before import MOVING, moved_from
from inspector.analysis.findings.dataflow import Value, is_tuple, source
from inspector.hlo.loops import trip_count
from inspector.hlo.module import Instruction
from inspector.hlo.shape import Shape

Cycles = tuple[tuple[int, ...], ...]
"""The devices of each ring, in order. All rings have the same number of devices."""
SUMS = {"add": "psum", "maximum": "pmax", "minimum": "pmin"}
"""Functions of `jax.lax` by the operation that combines the blocks of a ring."""
UPDATES = {"dynamic-update-slice": 1, "scatter": 2}
"""Operations that write a block into an array, with the number of the block's operand. `x.at[i].set(block)` is a scatter at first."""
_MOVING = MOVING | {"convert"}
"""Operations that a block may go through before it is added or written."""
_WRITES = frozenset({*UPDATES, "concatenate"})


def chain(value: Value) -> list[Value]:
    """Returns a `ppermute` and those with the same pairs that pass its result on; only itself if another one is before it."""
    pairs = value.instruction.source_target_pairs
    steps = [value]
    while True:
        after = [
            u
            for u in steps[-1].instruction.users
            if u.opcode == "collective-permute" and u.source_target_pairs == pairs
        ]
        if len(after) != 1:
            return steps
        steps.append(Value(after[0], value.calls))


def _used(block: Instruction) -> Iterator[tuple[Instruction, Instruction]]:
    """Yields the uses of a block within its computation, followed through moves, each with the moved block."""
    waiting = [block]
    while waiting:
        moved = waiting.pop()
        for user in moved.users:
            if user.opcode in _MOVING and user.operands[0] is moved:
                waiting.append(user)
            else:
                yield user, moved


class Replaced(NamedTuple):
    """The collective that does the same as a ring.

    Attributes:
      call: its function of `jax.lax`.
      block: the shape of its operand.
      as_they_arrive: whether the blocks are put together in the order in which they arrive, which differs between the devices.
    """

    call: str
    block: Shape
    as_they_arrive: bool = False


class _Taking(NamedTuple):
    """An operation that takes a block: `jax.numpy` wraps some in a function of their own.

    Attributes:
      instruction: the operation, or the call of its function.
      opcode: the opcode of the operation.
      operands: its operands, outside of the function.
    """

    instruction: Instruction
    opcode: str
    operands: tuple[Instruction, ...]


def _taking(user: Instruction, block: Instruction) -> _Taking:
    """Returns the operation that takes a block, also if it is the result of a function that is called with the block."""
    if user.opcode == "call":
        called = user.called_computations[0]
        (root, *others) = {inner for inner, _ in _used(called.parameters[user.operands.index(block)])} or {user}
        if not others and root.is_root and root.opcode in (*SUMS, *_WRITES):
            inside = Value(root, (user,))
            return _Taking(user, root.opcode, tuple(_moved(inside, number) for number in range(len(root.operands))))
    return _Taking(user, user.opcode, tuple(user.operands))


def _moved(user: Value, number: int) -> Instruction:
    """Returns an operand of an operation in a function, followed through moves to an operand of the function's call."""
    value = Value(user.instruction.operands[number], user.calls)
    while value.instruction.opcode in MOVING:
        value = Value(value.instruction.operands[0], value.calls)
    parameter = value.instruction.parameter_number
    return value.instruction if parameter is None else user.calls[-1].operands[parameter]


def unrolled(steps: Sequence[Value], count: int) -> Replaced | None:
    """Returns the collective that does the same as an unrolled ring; None if there is none."""
    if len(steps) not in (count - 1, count):
        return None
    blocks = [step.instruction for step in steps]
    ring, taken = set(blocks), list[_Taking]()
    moved = set[Instruction]()
    for block in blocks:
        users = [(user, arrived) for user, arrived in _used(block) if user not in ring]
        if len(users) > 1 or block.is_root or (not users and block is not blocks[-1]):
            return None
        taken += [_taking(user, arrived) for user, arrived in users]
        moved |= {arrived for _, arrived in users}
    kinds = {user.opcode for user in taken}
    if len(kinds) != 1:
        return None
    (kind,) = kinds
    gather = Replaced("all_gather", blocks[0].shape)
    own, is_short = steps[0].instruction.operands[0], len(taken) < count
    if kind == "concatenate":
        has_own = not is_short or any(_is_moved_from(operand, own) for operand in taken[0].operands)
        is_one = len({user.instruction for user in taken}) == 1
        return gather._replace(as_they_arrive=True) if is_one and has_own else None
    if kind not in (*SUMS, *_WRITES):
        return None
    if kind in UPDATES and any(
        not _is_written(user.instruction, user.operands[UPDATES[kind]], moved) for user in taken
    ):
        return None
    joined = {user.instruction for user in taken}
    initial = {
        operand
        for user in taken
        for operand in (user.operands[:1] if kind in UPDATES else user.operands)
        if operand not in joined and operand not in moved
    }
    if len(initial) > 1 or (kind in SUMS and is_short and not any(_begins_with(each, own, kind) for each in initial)):
        return None
    return Replaced(SUMS[kind], next(iter(moved)).shape) if kind in SUMS else gather


def _begins_with(initial: Instruction, own: Instruction, opcode: str) -> bool:
    """Reports whether a value is the own block of a device, maybe combined with another value."""
    return _is_moved_from(initial, own) or (
        initial.opcode == opcode and any(_is_moved_from(operand, own) for operand in initial.operands)
    )


def _is_moved_from(value: Instruction, own: Instruction) -> bool:
    while value is not own and value.opcode in _MOVING:
        value = value.operands[0]
    return value is own


def carried(value: Value, count: int) -> Replaced | None:
    """Returns the collective that does the same as a loop that carries the block of a ring; None if there is none."""
    loops = [number for number, call in enumerate(value.calls) if call.opcode == "while"]
    if not loops or trip_count(value.calls[loops[-1]]) not in (count - 1, count):
        return None
    outer = value.calls[: loops[-1] + 1]
    body = outer[-1].called_computations[0]
    if body.root.opcode != "tuple":
        return None
    results = [source(Value(operand, outer)).instruction for operand in body.root.operands]
    carry = value.operand(0).instruction
    step = value.instruction
    if _element(carry) is None or results[_element(carry) or 0] is not step:
        return None
    taken = [user for block in (carry, step) for user in _users(block) if user is not step]
    if len(taken) != 1 or taken[0] not in results:
        return None
    (user,) = taken
    total = results.index(user)
    if trip_count(outer[-1]) == count - 1:
        if user in _users(carry):
            if not _is_used_after(outer[-1], _element(carry)):
                return None  # the last block that arrives is not taken
        elif user.opcode in SUMS and not _starts_with_own(outer, total, _element(carry) or 0, user.opcode):
            return None
    calls = source(Value(body.root.operands[total], outer)).calls
    operands = [source(Value(each, calls)).instruction for each in user.operands]
    if user.opcode in SUMS:
        return Replaced(SUMS[user.opcode], user.shape) if any(_element(each) == total for each in operands) else None
    is_written = user.opcode in UPDATES and sets(user) and _element(operands[0]) == total
    return Replaced("all_gather", step.shape) if is_written else None


def _is_written(user: Instruction, block: Instruction, moved: Collection[Instruction]) -> bool:
    """Reports whether an operation writes one of some blocks into an array. The scatter may be in a function that `user` calls."""
    return block in moved and (user.opcode == "call" or sets(user))


def sets(user: Instruction) -> bool:
    """Reports whether an operation replaces values: a scatter can also add them up."""
    return user.opcode != "scatter" or user.called_computations[0].root.parameter_number == 1


def is_alone(value: Value) -> bool:
    """Reports whether the loop of a ring changes only two arrays, the block and the result, and scalars such as its counter."""
    loops = [number for number, call in enumerate(value.calls) if call.opcode == "while"]
    outer = value.calls[: loops[-1] + 1]
    results = [source(Value(operand, outer)).instruction for operand in outer[-1].called_computations[0].root.operands]
    changed = [result for number, result in enumerate(results) if _element(result) != number]
    return sum(math.prod(result.shape.dimensions) > 1 for result in changed) <= 2


def _element(value: Instruction) -> int | None:
    """Returns the number of the element of a loop's tuple that an instruction takes; None for others."""
    if value.opcode != "get-tuple-element" or value.operands[0].opcode != "parameter":
        return None
    return value.tuple_index


def _starts_with_own(calls: tuple[Instruction, ...], total: int, block: int, opcode: str) -> bool:
    """Reports whether a loop begins an element with the block that it begins to send, maybe combined with another value."""
    start = source(Value(calls[-1].operands[0], calls[:-1]))
    if not is_tuple(start.instruction):
        return True
    first, own = moved_from(start.operand(total)), moved_from(start.operand(block))
    while own.instruction.opcode == "convert":
        own = moved_from(own.operand(0))
    options = [first, *(moved_from(each) for each in first.operands if first.instruction.opcode == opcode)]
    return own in [moved_from(each.operand(0)) if each.instruction.opcode == "convert" else each for each in options]


def _is_used_after(loop: Instruction, element: int | None) -> bool:
    """Reports whether an element of a loop's result is used."""
    return any(
        user.opcode != "get-tuple-element" or (user.tuple_index == element and (user.is_root or user.users))
        for user in loop.users
    )


def _users(block: Instruction) -> list[Instruction]:
    """Returns the users of a block, followed through moves, calls and tuples; the loop's own tuple is left out."""
    found: dict[Instruction, None] = {}
    waiting, seen = [block], set[Instruction]()
    while waiting:
        value = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        if value.is_root:
            callers = value.module.callers.get(value.computation.name, ())
            waiting += [each for each in callers if each.opcode == "call"]
        for user, moved in _used(value):
            if user.opcode == "call":
                parameters = user.called_computations[0].parameters
                waiting += [p for p, operand in zip(parameters, user.operands, strict=True) if operand is moved]
            elif user.opcode == "tuple":
                if not user.is_root:
                    found[user] = None
                elif (callers := value.module.callers.get(user.computation.name, ())) and callers[0].opcode == "call":
                    number = user.operands.index(moved)
                    waiting += [e for e in callers[0].users if e.tuple_index == number]
            else:
                found[user] = None
    return list(found)


def is_carried(value: Value) -> bool:
    """Reports whether a value is what the innermost loop around it carries."""
    return _element(value.instruction) is not None and bool(value.calls) and value.calls[-1].opcode == "while"
