"""Stored arrays, such as arguments and elements that loops carry: their uses, and whether a narrower type can hold them.

Calls, loops, and operations that only move or replace values of their first operand are followed, because they store the same values.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from inspector.analysis.findings.before import MOVING, Use
from inspector.analysis.findings.dataflow import Value, is_passing, is_tuple
from inspector.analysis.findings.subject import Subject
from inspector.errors import Unavailable
from inspector.hlo.module import Instruction
from inspector.hlo.shape import element_bits

FLOATS = frozenset({"bf16", "f16", "f32", "f64"})
_STORING = MOVING | {"dynamic-update-slice", "gather"}
_CONVERTING = frozenset({"parameter", "convert", "bitcast"})
_MOST_VALUES = 2000
_UNKNOWN = Use(None)

_Place = tuple[Value, int]
"""A value, and the number of the element if it is a tuple; -1 if it is an array."""


def stored_uses(
    value: Value, element: int = -1, within: Instruction | None = None, replacing: Collection[Value] = ()
) -> Iterator[Use]:
    """Yields the operations that compute with a stored array. A result of the program has no user.

    Args:
      value: the array, or a tuple that contains it.
      element: its number in the tuple; -1 for an array.
      within: a loop; the array is not followed from the end of an iteration to the next, or to the loop's result.
      replacing: selections that replace values of the array and store the others, and updates that store it in another array.
    """
    waiting: list[_Place] = [(value, element)]
    seen = set[_Place]()
    while waiting:
        place = waiting.pop()
        if place in seen:
            continue
        seen.add(place)
        if len(seen) > _MOST_VALUES:
            yield _UNKNOWN
            return
        now, element = place
        if now.instruction.is_root:
            yield from _left(now, element, within, waiting)
        for user in now.instruction.users:
            if user.opcode == "get-tuple-element" and user.tuple_index != element:
                continue
            for number in user.positions_of(now.instruction):
                if Value(user, now.calls) in replacing:
                    waiting.append((Value(user, now.calls), -1))
                else:
                    yield from _used(Value(user, now.calls), number, element, waiting)


def loop_places(loop: Value, element: int) -> tuple[list[_Place], _Place]:
    """Returns the places in the body and the condition of a loop at which it has an element, and its result."""
    inside = (*loop.calls, loop.instruction)
    parameters = (each.parameters[0] for each in loop.instruction.called_computations)
    return [(Value(parameter, inside), element) for parameter in parameters], (loop, element)


def _left(value: Value, element: int, within: Instruction | None, waiting: list[_Place]) -> Iterator[Use]:
    """Follows the result of a computation to the instruction that called it."""
    call = value.calls[-1] if value.calls else None
    if call is None or call.opcode not in ("call", "while"):
        yield _UNKNOWN
    elif call.opcode == "call":
        waiting.append((Value(call, value.calls[:-1]), element))
    elif call is not within and value.instruction.computation == call.called_computations[0]:
        places, result = loop_places(Value(call, value.calls[:-1]), element)
        waiting += [*places, result]


def _used(user: Value, number: int, element: int, waiting: list[_Place]) -> Iterator[Use]:
    """Follows a use that stores the array, and yields others."""
    instruction, opcode = user.instruction, user.instruction.opcode
    if opcode == "call":
        waiting.append(
            (Value(instruction.called_computations[0].parameters[number], (*user.calls, instruction)), element)
        )
    elif opcode == "while":
        places, result = loop_places(user, element)
        waiting += [*places, result]
    elif opcode == "get-tuple-element":
        waiting.append((user, -1))
    elif is_passing(instruction):
        waiting.append((user, element))
    elif element >= 0:
        yield _UNKNOWN
    elif is_tuple(instruction):
        waiting.append((user, number))
    elif opcode in _STORING and number == 0:
        waiting.append((user, -1))
    else:
        yield Use(user, number)


def narrow_type(uses: Sequence[Use], wide: str) -> str:
    """Returns the narrower float type to which all uses convert; "" if there is none."""
    kinds = {
        use.user.instruction.shape.element_type if use.user and use.user.instruction.opcode == "convert" else ""
        for use in uses
    }
    (kind,) = kinds if len(kinds) == 1 else ("",)
    return kind if kind in FLOATS and element_bits(kind) < element_bits(wide) else ""


def widened_type(values: Sequence[Value], wide: str) -> str:
    """Returns the narrower float type from which all values were converted; "" if there is none."""
    kinds = {v.instruction.operands[0].shape.element_type if v.instruction.opcode == "convert" else "" for v in values}
    (kind,) = kinds if len(kinds) == 1 else ("",)
    return kind if kind in FLOATS and element_bits(kind) < element_bits(wide) else ""


def computes_in(narrow: str, subject: Subject) -> bool:
    """Reports whether the device computes in a type. Others, such as CPUs, first convert the whole array to a wider one again."""
    peak = subject.roofline.peak
    return narrow == "f32" or (not isinstance(peak, Unavailable) and narrow in peak.flops_per_s)


def only_converts(kernel: Instruction) -> bool:
    """Reports whether a kernel only converts an array to another type."""
    inside = kernel.called_computations[0].instructions if kernel.opcode == "fusion" else (kernel,)
    return all(each.opcode in _CONVERTING for each in inside)


def narrower_part(subject: Subject, kernel: str, removed: float) -> float:
    """Returns the part of a kernel's time that it saves if each execution accesses fewer bytes."""
    point = subject.points[kernel]
    if only_converts(subject.module.instruction(kernel)):
        return 1.0
    if point.bound_by != "memory" and not isinstance(point.least_s, Unavailable):
        return 0.0
    runs = 1 if isinstance(point.executions, Unavailable) else point.executions
    accessed = subject.accessed(kernel)
    return min(1.0, removed * runs / accessed) if accessed else 0.0
