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
        if (given := _operand_outside(each)) is not None:  # TPUs have collectives in fusions
            waiting.append(given)
        elif each.opcode == "parameter" or (
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


def _operand_outside(parameter: Instruction) -> Instruction | None:
    """Returns the operand of the fusion or asynchronous operation that a parameter is; None for others."""
    if parameter.opcode != "parameter" or parameter.computation.is_entry or parameter.parameter_number is None:
        return None
    callers = parameter.module.callers.get(parameter.computation.name, ())
    if len(callers) != 1 or callers[0].opcode not in ("fusion", "async-start"):
        return None
    return callers[0].operand(parameter.parameter_number)
