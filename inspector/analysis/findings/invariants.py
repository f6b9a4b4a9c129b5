"""The loops of the optimized HLO that do not change the operands of an instruction."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from inspector.analysis.findings.dependence import needed
from inspector.errors import Unavailable
from inspector.hlo.loops import carried_index, carried_unchanged, is_joined, trip_count
from inspector.hlo.module import Instruction

_CHANGING = frozenset({
    "parameter", "rng", "rng-bit-generator", "rng-get-and-update-state", "infeed", "recv", "recv-done", "send", "custom-call",
    "while", "conditional", "call",
})  # fmt: skip
"""Opcodes whose result may differ each time, or that are not followed."""
_BY_OPERAND = frozenset({"all-gather", "all-reduce", "collective-permute", "reduce-scatter"})
"""Collectives of which each result depends on one operand only."""
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


def invariant(instruction: Instruction, among: Sequence[Instruction] = ()) -> Invariant:
    """Returns the loops that do not change an instruction's operands; none if the innermost loop changes one of them.

    Args:
      instruction: the instruction.
      among: values of its computation to look at instead of its operands.
    """
    outer = _caller(instruction)
    while outer is not None and outer.opcode in _CALLING:
        instruction, outer = outer, _caller(outer)
    values: Sequence[Instruction] = among or instruction.operands
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
        element = carried_index(value)
        if element is not None:
            initial = carried_unchanged(loop, element)
            if initial is None:
                return None
            found.append(initial)
        elif is_joined(value):
            waiting.extend(value.operands)
        elif value.opcode == "get-tuple-element" and value.operands[0].opcode == "fusion":
            waiting.extend(_needed(value.operands[0], value.tuple_index))
        elif (exchanged := _exchanged(value)) is not None:
            waiting.append(exchanged)
        elif value.opcode in _CHANGING or value.computation.number != body.number or len(seen) > _MOST_VALUES:
            return None
        else:
            waiting.extend(value.operands)
    return found


def _exchanged(element: Instruction) -> Instruction | None:
    """Returns the operand that belongs to one result of a combined collective; None for other values."""
    whole = element.operands[0] if element.opcode == "get-tuple-element" else element
    start = whole.operands[0] if whole.opcode.endswith("-done") else whole
    if whole is element or start.opcode.removesuffix("-start") not in _BY_OPERAND:
        return None
    return start.operands[element.tuple_index] if len(whole.shape.tuple_shapes) == len(start.operands) else None


def _needed(fusion: Instruction, result: int) -> list[Instruction]:
    """Returns the operands of a fusion that one of its results needs."""
    inside = needed([fusion.called_computations[0].root.operands[result]])
    numbers = (each.parameter_number for each in inside if each.opcode == "parameter")
    return [fusion.operands[number] for number in numbers if number is not None]
