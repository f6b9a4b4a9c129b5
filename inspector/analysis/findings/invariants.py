"""The loops of the optimized HLO that do not change the operands of an instruction."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from inspector.errors import Unavailable
from inspector.hlo.loops import trip_count
from inspector.hlo.module import Computation, Instruction

PASSING = frozenset({"copy", "bitcast", "copy-start", "copy-done", "optimization-barrier"})
"""Opcodes that pass their operand's value on."""
_CHANGING = frozenset({
    "parameter", "rng", "rng-bit-generator", "rng-get-and-update-state", "infeed", "recv", "recv-done", "send", "custom-call",
    "while", "conditional", "call",
})  # fmt: skip
"""Opcodes whose result may differ each time, or that are not followed."""
_JOINING = "ConcatBitcast"
"""The custom call with which libtpu joins the slices of an array that it copies in parts."""
_CALLING = frozenset({"fusion", "async-start"})
_MOST_VALUES = 200


@dataclasses.dataclass(frozen=True, slots=True)
class Invariant:
    """Operands that loops do not change.

    Attributes:
      loops: the loops, innermost first.
      sources: the values in front of the outermost of these loops from which the operands are computed.
    """

    loops: tuple[Instruction, ...]
    sources: tuple[Instruction, ...]

    @property
    def trips(self) -> int | Unavailable:
        """Number of iterations of all of these loops together."""
        product = 1
        for loop in self.loops:
            trips = trip_count(loop)
            if isinstance(trips, Unavailable):
                return trips
            product *= trips
        return product


def invariant(instruction: Instruction) -> Invariant:
    """Returns the loops that do not change an instruction's operands; none if the innermost loop changes one of them."""
    outer = _caller(instruction)
    while outer is not None and outer.opcode in _CALLING:
        instruction, outer = outer, _caller(outer)
    values: Sequence[Instruction] = instruction.operands
    loops: list[Instruction] = []
    while outer is not None and outer.opcode == "while":
        initial = _initial(values, outer)
        if initial is None:
            break
        loops.append(outer)
        values, outer = initial, _caller(outer)
    return Invariant(tuple(loops), tuple(values) if loops else ())


def _caller(instruction: Instruction) -> Instruction | None:
    """Returns the only instruction that calls the computation of an instruction; None if there are none or several."""
    callers = instruction.module.callers.get(instruction.computation.name, ())
    return callers[0] if len(callers) == 1 else None


def _initial(values: Sequence[Instruction], loop: Instruction) -> list[Instruction] | None:
    """Returns the values in front of a loop from which values in its body are computed; None if the loop changes one."""
    body = loop.called_computations[0]
    found: list[Instruction] = []
    waiting, seen = [*values], set[int]()
    while waiting:
        value = waiting.pop()
        if value.row in seen:
            continue
        seen.add(value.row)
        element = carried_element(value)
        if element is not None:
            initial = _unchanged(body, element, loop)
            if initial is None:
                return None
            found.append(initial)
        elif is_joined(value):
            waiting.extend(value.operands)
        elif value.opcode in _CHANGING or value.computation.number != body.number or len(seen) > _MOST_VALUES:
            return None
        else:
            waiting.extend(value.operands)
    return found


def _unchanged(body: Computation, element: int, loop: Instruction) -> Instruction | None:
    """Returns the initial value of an element that a loop carries unchanged; None if the loop changes it."""
    root = passed(body.root)
    if root.opcode != "tuple" or carried_element(passed(root.operand(element))) != element:
        return None
    initial = passed(loop.operands[0])
    return initial.operand(element) if initial.opcode == "tuple" else initial


def carried_element(value: Instruction) -> int | None:
    """Returns the index of the loop's element that an instruction of its body takes; None for other instructions."""
    if value.opcode != "get-tuple-element" or value.operands[0].opcode != "parameter":
        return None
    return int(value.proto.tuple_index)


def passed(value: Instruction) -> Instruction:
    """Follows copies, also in slices that are joined again, to the instruction that computes a value."""
    while value.opcode in PASSING or is_joined(value):
        if not is_joined(value):
            value = value.operands[0]
            continue
        wholes = {_sliced(each) for each in value.operands}
        if len(wholes) != 1 or None in wholes:
            return value
        (whole,) = wholes
        if whole is None or math.prod(whole.shape.dimensions) != math.prod(value.shape.dimensions):
            return value
        value = whole
    return value


def is_joined(value: Instruction) -> bool:
    """Reports whether an instruction only joins the slices of arrays that libtpu copies in parts."""
    return value.opcode == "custom-call" and value.custom_call_target == _JOINING


def _sliced(value: Instruction) -> Instruction | None:
    """Returns the array of which a value is a slice; None for other values."""
    while value.opcode in PASSING or value.opcode.endswith("-done"):
        value = value.operands[0]
    return value.operands[0] if value.opcode in ("slice", "slice-start", "async-start") else None
