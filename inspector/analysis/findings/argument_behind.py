"""The argument that a collective of the optimized HLO moves, such as a weight that is gathered before its product."""

from __future__ import annotations

from inspector.analysis.findings.before import MOVING
from inspector.hlo.module import Instruction

_INSIDE = MOVING | {"parameter", "constant", "tuple", "get-tuple-element", "convert", "partition-id"}
_MOST_VALUES = 200


def argument_behind(collective: Instruction) -> Instruction | None:
    """Returns the parameter, or the element that a loop carries, that a collective moves; None if its operand is computed."""
    found, seen, waiting = dict[int, Instruction](), set[int](), [*collective.operands]
    while waiting and len(seen) < _MOST_VALUES:
        each = waiting.pop()
        if each.row in seen:
            continue
        seen.add(each.row)
        if each.opcode == "parameter" or (
            each.opcode == "get-tuple-element" and each.operands[0].opcode == "parameter"
        ):
            found[each.row] = each
        elif each.opcode == "fusion":
            if any(inside.opcode not in _INSIDE for inside in each.called_computations[0].instructions):
                return None
            waiting += each.operands
        elif each.opcode in _INSIDE:
            waiting += each.operands
        else:
            return None
    return next(iter(found.values())) if len(found) == 1 else None
