"""Rings of `ppermute`s that only add up or put together what arrives: one `psum` or `all_gather` does the same.

Both forms are found: a loop that carries the block that goes round, and an unrolled chain. A ring whose blocks take part in other work,
such as the products of a collective matmul or of ring attention, overlaps that work with its transfers and is left out. So are halo
exchanges, pipelines and shifts, which do not go all the way round.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from inspector.analysis.findings.at_line import at_line, is_same_line, lines_of
from inspector.analysis.findings.before import MOVING, full_name
from inspector.analysis.findings.dataflow import Value, source
from inspector.analysis.findings.exchanges import pricing_of
from inspector.analysis.findings.finding import Finding
from inspector.analysis.findings.ring_kernels import ring_kernels
from inspector.analysis.findings.subject import Subject
from inspector.errors import Unavailable
from inspector.hlo.devices.replica_groups import ListGroups
from inspector.hlo.loops import trip_count
from inspector.hlo.module import Instruction
from inspector.hlo.source import merged_names
from inspector.support.units import format_bytes

KIND = "manual-ring"
_FEWEST = 3  # devices of a ring
_LEAST = 1e-3  # part of the time that counts as a gain
_SUMS = {"add": "psum", "maximum": "pmax", "minimum": "pmin"}
_UPDATES = {"dynamic-update-slice": 1, "scatter": 2}
"""Operations that write a block into an array, with the number of the block's operand. `x.at[i].set(block)` is a scatter at first."""
_WRITES = frozenset({*_UPDATES, "concatenate"})
_OPCODES = {"psum": "all-reduce", "pmax": "all-reduce", "pmin": "all-reduce", "all_gather": "all-gather"}


class _Ring(NamedTuple):
    """A ring.

    Attributes:
      steps: its `ppermute`s; one for a loop.
      call: the function of `jax.lax` that does the same.
      cycles: the devices of each ring, in order.
      is_alone: whether it is a loop that does nothing else.
    """

    steps: tuple[Value, ...]
    call: str
    cycles: tuple[tuple[int, ...], ...]
    is_alone: bool


def manual_ring(subject: Subject) -> Iterator[Finding]:
    """Yields a finding for the rings of each line that one collective each replaces."""
    if subject.calls is None:
        return
    chained = set[Instruction]()
    lines: dict[tuple[object, ...], list[_Ring]] = {}  # a function that is called for each weight has one line
    for value, _ in subject.calls.values(("collective-permute",)):
        cycles = _cycles(value.instruction.source_target_pairs)
        if len(cycles[0] if cycles else ()) < _FEWEST or value.instruction in chained:
            continue
        steps = _chain(value)
        chained |= {each.instruction for each in steps[1:]}
        count = len(cycles[0])
        call = _carried(value, count) if len(steps) == 1 else _unrolled(steps, count)
        if call:
            ring = _Ring(tuple(steps), call, cycles, len(steps) == 1 and _is_alone(value))
            lines.setdefault((value.instruction.frames, call, cycles, len(steps)), []).append(ring)
    for rings in lines.values():
        yield _finding(subject, rings)


def _cycles(pairs: Sequence[tuple[int, int]]) -> tuple[tuple[int, ...], ...]:
    """Returns the cycles of a permutation if all have the same length, else ()."""
    following = dict(pairs)
    cycles: list[tuple[int, ...]] = []
    left = dict.fromkeys(following)
    while left:
        cycle = [next(iter(left))]
        while (after := following.get(cycle[-1])) != cycle[0]:
            if after is None or after not in left or len(cycle) > len(following):
                return ()
            cycle.append(after)
        for each in cycle:
            left.pop(each, None)
        cycles.append(tuple(cycle))
    return tuple(cycles) if len({len(each) for each in cycles}) == 1 else ()


def _chain(value: Value) -> list[Value]:
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
            if user.opcode in MOVING and user.operands[0] is moved:
                waiting.append(user)
            else:
                yield user, moved


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
        if not others and root.is_root and root.opcode in (*_SUMS, *_WRITES):
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


def _unrolled(steps: Sequence[Value], count: int) -> str:
    """Returns the function that does the same as an unrolled ring; "" if there is none."""
    if len(steps) not in (count - 1, count):
        return ""
    blocks = [step.instruction for step in steps]
    ring, taken = set(blocks), list[_Taking]()
    moved = set[Instruction]()
    for block in blocks:
        users = [(user, arrived) for user, arrived in _used(block) if user not in ring]
        if len(users) > 1 or block.is_root or (not users and block is not blocks[-1]):
            return ""
        taken += [_taking(user, arrived) for user, arrived in users]
        moved |= {arrived for _, arrived in users}
    kinds = {user.opcode for user in taken}
    if len(kinds) != 1:
        return ""
    (kind,) = kinds
    if kind == "concatenate":
        return "all_gather" if len({user.instruction for user in taken}) == 1 else ""
    if kind not in (*_SUMS, *_WRITES):
        return ""
    if kind in _UPDATES and any(
        not _is_written(user.instruction, user.operands[_UPDATES[kind]], moved) for user in taken
    ):
        return ""
    joined = {user.instruction for user in taken}
    initial = {
        operand
        for user in taken
        for operand in (user.operands[:1] if kind in _UPDATES else user.operands)
        if operand not in joined and operand not in moved
    }
    return (_SUMS.get(kind) or "all_gather") if len(initial) <= 1 else ""


def _carried(value: Value, count: int) -> str:
    """Returns the function that does the same as a loop that carries the block of a ring; "" if there is none."""
    loops = [number for number, call in enumerate(value.calls) if call.opcode == "while"]
    if not loops or trip_count(value.calls[loops[-1]]) not in (count - 1, count):
        return ""
    outer = value.calls[: loops[-1] + 1]
    body = outer[-1].called_computations[0]
    if body.root.opcode != "tuple":
        return ""
    results = [source(Value(operand, outer)).instruction for operand in body.root.operands]
    carry = value.operand(0).instruction
    step = value.instruction
    if _element(carry) is None or results[_element(carry) or 0] is not step:
        return ""
    taken = [user for block in (carry, step) for user in _users(block) if user is not step]
    if len(taken) != 1 or taken[0] not in results:
        return ""
    (user,) = taken
    total = results.index(user)
    calls = source(Value(body.root.operands[total], outer)).calls
    operands = [source(Value(each, calls)).instruction for each in user.operands]
    if user.opcode in _SUMS:
        return _SUMS[user.opcode] if any(_element(each) == total for each in operands) else ""
    is_written = user.opcode in _UPDATES and _sets(user) and _element(operands[0]) == total
    return "all_gather" if is_written else ""


def _is_written(user: Instruction, block: Instruction, moved: Collection[Instruction]) -> bool:
    """Reports whether an operation writes one of some blocks into an array. The scatter may be in a function that `user` calls."""
    return block in moved and (user.opcode == "call" or _sets(user))


def _sets(user: Instruction) -> bool:
    """Reports whether an operation replaces values: a scatter can also add them up."""
    return user.opcode != "scatter" or user.called_computations[0].root.parameter_number == 1


def _is_alone(value: Value) -> bool:
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


def _timed(subject: Subject, kernels: Mapping[str, float], whole_s: float | Unavailable) -> dict[str, float]:
    """Returns the parts of kernels without those that take next to nothing, such as indices."""
    least = 0.0 if isinstance(whole_s, Unavailable) else _LEAST * whole_s
    return {
        name: part
        for name, part in kernels.items()
        if not isinstance(known := subject.seconds([name]), Unavailable) and part * known > least
    }


def _finding(subject: Subject, rings: Sequence[_Ring]) -> Finding:
    ring = rings[0]
    first = ring.steps[0].instruction
    names = {full_name(step) for each in rings for step in each.steps}
    lines = [lines_of(step.instruction.frames) for step in ring.steps]
    exchanges = [
        each
        for each in subject.exchanges
        if names.intersection(merged_names(each.collective.origin.op_name))
        and any(is_same_line(lines_of(each.collective.origin.frames), other) for other in lines)
    ]
    count = len(ring.cycles[0])
    sizes = {each.steps[0].instruction.shape.byte_size for each in rings}
    is_sum = ring.call != "all_gather"
    cautions = [] if is_sum else ["The order of the blocks may differ: an `all_gather` starts with device 0."]
    instead_s = 0.0
    if exchanges:
        collective = exchanges[0].collective
        who = dataclasses.replace(collective.who, written=ListGroups(ring.cycles), is_pairs=False)
        pricing = pricing_of(subject.collectives, subject.roofline.peak, subject.compiled.target)
        for each in rings:
            shape = each.steps[0].instruction.shape
            one = dataclasses.replace(
                collective, opcode=_OPCODES[ring.call], who=who, operand_shapes=(shape,), result_shapes=(shape,) * count,
            )  # fmt: skip
            instead_s += float(pricing.price(one).known_s)
        own = _timed(subject, ring_kernels(subject, exchanges, all(each.is_alone for each in rings)), subject.total_s)
        saved = own | dict.fromkeys((each.holder for each in exchanges), 1.0)
    else:
        saved = dict.fromkeys(subject.kernels.of(names), 1 - 2 / count if is_sum else 0.0)  # of the bytes
    is_one = len(rings) == 1
    what = {"psum": "add{} up", "all_gather": "put{} together"}.get(ring.call, "compare{}").format(
        "s" if is_one else ""
    )
    loop = "a loop" if len(ring.steps) == 1 else f"{len(ring.steps)} calls"
    title = (
        f"{'The ring' if is_one else f'{len(rings)} rings'} of `ppermute`s{at_line(first.frames)} ({loop}, {count} devices,"
        f" {'' if len(sizes) == 1 else 'up to '}{format_bytes(max(sizes))} each) only {what} the blocks that arrive: one `{ring.call}`"
        f" {'' if is_one else 'for each '}does the same."
    )
    found = subject.finding(
        KIND, title, f"jax.lax.{ring.call}(block, axis)", saved=saved, instead_s=instead_s, frames=first.frames, caution=" ".join(cautions),
        gain_source="the speed and latency of the links, and the times of the kernels" if exchanges else "the bytes sent",
    )  # fmt: skip
    if exchanges and found.share < _LEAST:
        as_long = f"By the model, one `{ring.call}` takes as long."
        return dataclasses.replace(found, caution=" ".join([*cautions, as_long]))
    return found
