"""The dimension of an operation's result that a dimension of its operand becomes, if each row along it is computed alone."""

from __future__ import annotations

import math
from collections.abc import Iterable

from inspector.analysis.findings.dataflow import BY_ELEMENT
from inspector.hlo.module import Instruction


def dimension_after(user: Instruction, number: int, dimension: int) -> int | None:
    """Returns the position of an operand's dimension in the result; None if the operation combines its rows."""
    opcode, before, after = user.opcode, user.operands[number].shape.dimensions, user.shape.dimensions
    if opcode == "transpose":
        return [*user.dimensions].index(dimension)
    if opcode == "broadcast":
        return [*user.dimensions][dimension]
    if opcode == "reduce":
        return (
            None if user.shape.is_tuple or number or dimension in user.dimensions else _left(dimension, user.dimensions)
        )
    if opcode == "reshape":
        rows = math.prod(before[:dimension])
        found = [d for d in range(len(after)) if math.prod(after[:d]) == rows and after[d] == before[dimension]]
        return found[0] if found else None
    if opcode == "dot":
        numbers = user.proto.dot_dimension_numbers
        contracted = (numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions)[number]
        if numbers.lhs_batch_dimensions or dimension in contracted:
            return None
        others = len(user.operands[0].shape.dimensions) - len(numbers.lhs_contracting_dimensions)
        return _left(dimension, contracted) + number * others
    is_same = opcode in BY_ELEMENT and before == after
    return dimension if is_same else None


def _left(dimension: int, removed: Iterable[int]) -> int:
    """Returns the number of a dimension without others before it."""
    return dimension - sum(each < dimension for each in removed)
