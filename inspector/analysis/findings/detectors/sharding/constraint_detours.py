"""Arrays whose sharding the user changes from A to B and back to A, in the HLO before optimization.

The operations in between combine arrays element by element, or take and join parts along dimensions that A does not split, and do not need B.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from inspector.analysis.findings.before import Before
from inspector.analysis.findings.dataflow import BY_ELEMENT, Value
from inspector.analysis.findings.detectors.collectives.operation_keys import Key, keys_in
from inspector.analysis.findings.subject import Subject
from inspector.analysis.sharding.program_shardings import shardings
from inspector.hlo.module import Instruction
from inspector.hlo.source import Frame

_BY_ELEMENT = BY_ELEMENT | {"copy", "optimization-barrier"}
_LEAVES = frozenset({"parameter", "constant", "broadcast"})
_TILES = re.compile(r"devices=\[([\d,]+)\]")
_NAMED = re.compile(r", \[(\{.*?\})\]")
_AXES = re.compile(r"\{[^}]*\}")
_WITHIN = frozenset({"slice", "concatenate"})
"""Operations that need no exchange if a split dimension keeps its size, such as the halves of a rotary embedding."""
_CUTTING = frozenset({"slice", "dynamic-slice", "gather"})
_MOST_VALUES = 100


class ConstraintDetour(NamedTuple):
    """A constraint to B of an array that had A and that is constrained to A again.

    Attributes:
      there, back: the constraints.
      again: further constraints to B in between.
      calls: the calls and loops around them.
      had: whether the array is known to have had A. That of a product is known from its operands, or from the collectives at both changes.
      beside_there, beside_back: the operations beside the changes.
    """

    there: Instruction
    back: Instruction
    again: tuple[Instruction, ...]
    calls: tuple[Instruction, ...]
    had: bool
    beside_there: frozenset[Key]
    beside_back: frozenset[Key]


def constraint_detours(before: Before, arguments: dict[int, str]) -> Iterator[ConstraintDetour]:
    """Yields constraints that change the sharding of an array which is changed back."""
    called = dict(before.rows(("custom-call",)))
    constraints = [
        each for row in before.module.calls_to(("Sharding",)) if is_constraint(each := before.module.at(row))
    ]
    for back in constraints:
        sharding = back.sharding
        for there in _constraints_behind(back.operands[0], sharding):
            ways = [call.calls for call in called.get(there.row, ())] or [()]
            known = set[str]().union(*(had(Value(there.operands[0], calls), arguments) for calls in ways))
            if known and sharding not in known:
                continue
            if (again := _constrained_again(there, sharding)) is None:
                continue
            within = split_dimensions(sharding)
            if any(there.sharding in _of_argument(each, arguments) for each in behind(back.operands[0], within)):
                continue  # another array has the other sharding
            before_back = [operand for one in (back, *again) for operand in one.operands]
            beside = (
                frozenset(key for each in instructions for key in keys_in(each))
                for instructions in (
                    (there, *there.operands, *there.users),
                    (back, *before_back, *(user for user in back.users if not _cuts(user, back))),
                )
            )
            yield ConstraintDetour(there, back, again, ways[0], bool(known), *beside)


def grouped(detours: Sequence[ConstraintDetour]) -> list[list[ConstraintDetour]]:
    """Returns detours in groups whose constraints have a line or a way back in common.

    A backward pass goes there and back by the same constraints. Of two detours of which one begins where the other ends, as in A to B to A
    to B, one is left: its remedy makes the other unnecessary. So is one of two between the same lines in opposite directions: the backward
    pass goes the way back.
    """
    groups: list[list[ConstraintDetour]] = []
    starts, ends, ways = set[int](), set[int](), set[tuple[tuple[Frame, ...], tuple[Frame, ...]]]()
    for detour in sorted(detours, key=lambda each: not each.had):
        if detour.there.row in ends or detour.back.row in starts:
            continue
        if (detour.back.frames, detour.there.frames) in ways:
            continue
        ways.add((detour.there.frames, detour.back.frames))
        starts.update(each.row for each in (detour.there, *detour.again))
        ends.add(detour.back.row)
        joined = [g for g in groups if any(_is_together(detour, each) for each in g)]
        groups = [g for g in groups if g not in joined] + [[each for g in joined for each in g] + [detour]]
    return groups


def _is_together(one: ConstraintDetour, other: ConstraintDetour) -> bool:
    return one.there.frames == other.there.frames or one.back.row == other.back.row


def argument_shardings(subject: Subject) -> dict[int, str]:
    """Returns the shardings of the program's parameters in HLO's notation, by number."""
    return {
        each.number: each.text
        for each in shardings(subject.compiled)
        if each.kind == "argument" and each.number is not None
    }


def is_constraint(instruction: Instruction) -> bool:
    """Reports whether an instruction is a sharding constraint."""
    return (
        instruction.opcode == "custom-call"
        and instruction.custom_call_target == "Sharding"
        and bool(instruction.sharding)
    )


def is_by_element(instruction: Instruction) -> bool:
    """Reports whether an operation, or a function such as `silu`, combines arrays element by element."""
    if instruction.opcode != "call":
        return instruction.opcode in _BY_ELEMENT
    inside = instruction.called_computations[0].instructions
    return all(
        each.opcode in _LEAVES or (each.opcode == "tuple" and each.is_root) or is_by_element(each) for each in inside
    )


def _constraints_behind(value: Instruction, sharding: str) -> list[Instruction]:
    """Returns the constraints to other shardings of arrays from which a value is computed element by element.

    Of several in a row to the same sharding it is the first.
    """
    found, waiting, seen = list[Instruction](), [value], set[int]()
    within = split_dimensions(sharding)
    while waiting and len(seen) < _MOST_VALUES:
        for each in behind(waiting.pop(), within):
            if each.row in seen or not is_constraint(each) or each.sharding == sharding:
                continue
            seen.add(each.row)
            if any(is_constraint(one) and one.sharding == each.sharding for one in behind(each.operands[0])):
                waiting.append(each.operands[0])
            else:
                found.append(each)
    return found


def behind(value: Instruction, within: Sequence[int] = ()) -> list[Instruction]:
    """Returns the constraints, parameters and other operations from which a value is computed element by element.

    Args:
      value: the value.
      within: dimensions; if given, parts along the others may be taken and joined too.
    """
    found, waiting, seen = list[Instruction](), [value], set[int]()
    while waiting and len(seen) < _MOST_VALUES:
        each = waiting.pop()
        if each.row in seen:
            continue
        seen.add(each.row)
        maker = each.operands[0] if each.opcode == "get-tuple-element" else each
        if each is not maker and maker.opcode == "call" and is_by_element(maker):
            each = maker  # a function that returns residuals for the backward pass too
        if is_by_element(each) or (within and each.opcode in _WITHIN):
            waiting.extend(operand for operand in each.operands if _is_alike(operand, value, within))
        else:
            found.append(each)
    return found


def _is_alike(one: Instruction, other: Instruction, within: Sequence[int]) -> bool:
    """Reports whether arrays have equal dimensions, or, if some are given, equal sizes of these."""
    sizes, others = one.shape.dimensions, other.shape.dimensions
    if not within:
        return sizes == others
    return len(sizes) == len(others) and all(sizes[d] == others[d] for d in within)


def had(value: Value, arguments: dict[int, str]) -> set[str]:
    """Returns the shardings of the constraints and arguments from which a value is computed element by element.

    Functions are followed to their calls, and arrays that a loop carries to the end of an iteration.
    """
    known, waiting, seen = set[str](), [value], set[Value]()
    while waiting and len(seen) < _MOST_VALUES:
        value = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        for each in behind(value.instruction):
            if is_constraint(each):
                known.add(each.sharding)
            elif each.opcode == "parameter" and each.parameter_number is not None:
                if each.computation.is_entry:
                    known |= _of_argument(each, arguments)
                elif value.calls and value.calls[-1].opcode == "call":
                    waiting.append(Value(value.calls[-1].operands[each.parameter_number], value.calls[:-1]))
            elif each.opcode == "get-tuple-element":
                waiting += _ends(Value(each, value.calls))
    return known - {""}


def _of_argument(value: Instruction, arguments: dict[int, str]) -> set[str]:
    """Returns the shardings of a parameter of the program; none for other values."""
    number = value.parameter_number
    if number is None or not value.computation.is_entry:
        return set()
    return {value.sharding, arguments.get(number, "")} - {""}


def _ends(element: Value) -> Iterator[Value]:
    """Yields the array that an iteration of a loop ends with, for one that the loop carries, or the result of a function."""
    whole, number = element.instruction.operands[0], element.instruction.tuple_index
    if whole.opcode == "call":
        root, calls = whole.called_computations[0].root, (*element.calls, whole)
    elif whole.opcode == "parameter" and element.calls and element.calls[-1].opcode == "while":
        root, calls = element.calls[-1].called_computations[0].root, element.calls
    else:
        return
    if root.opcode == "tuple":
        yield Value(root.operand(number), calls)


def _cuts(user: Instruction, array: Instruction) -> bool:
    """Reports whether an operation takes a part of an array along a split dimension: its exchanges belong to it, not to the detour."""
    return user.opcode in _CUTTING and not _is_alike(user, array, split_dimensions(array.sharding))


def _constrained_again(there: Instruction, sharding: str) -> tuple[Instruction, ...] | None:
    """Returns the constraints to the same sharding that follow, if all operations that use a constraint's value end in constraints to another.

    The operations in between combine arrays element by element. None if others use it.
    """
    waiting, seen, again = [there], set[int](), list[Instruction]()
    within = split_dimensions(sharding)
    while waiting:
        each = waiting.pop()
        if each.is_root or len(seen) > _MOST_VALUES:
            return None
        for user in each.users:
            if user.row in seen or (is_constraint(user) and user.sharding == sharding):
                continue
            if user.opcode == "reduce" and within and not {*user.dimensions} & {*within}:
                continue  # such as the mean of a normalization, whose terms are all on one device without the other sharding too
            is_same = is_constraint(user) and user.sharding == there.sharding
            is_local = is_same or is_by_element(user) or (within and user.opcode in _WITHIN)
            if not is_local or not _is_alike(user, there, within):
                return None
            seen.add(user.row)
            waiting.append(user)
            again += [user] if is_same else []
    return tuple(again)


def number_of_parts(sharding: str) -> int:
    """Returns the number of different parts into which a sharding in HLO's notation splits an array; 1 if it is not known."""
    found = _TILES.search(sharding)
    sizes = [int(each) for each in found[1].split(",")] if found else []
    return math.prod(sizes[: len(sizes) - ("last_tile_dim" in sharding)])


def split_dimensions(sharding: str) -> list[int]:
    """Returns the dimensions that a sharding in HLO's notation splits."""
    if found := _TILES.search(sharding):
        sizes = [int(each) for each in found[1].split(",")]
        return [number for number, size in enumerate(sizes[: len(sizes) - ("last_tile_dim" in sharding)]) if size > 1]
    named = _NAMED.search(sharding)
    return [] if named is None else [n for n, axes in enumerate(_AXES.findall(named[1])) if "'" in axes]
