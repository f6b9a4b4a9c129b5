"""How often a loop runs: as XLA noted it, or as a counter with constant bounds says."""

from __future__ import annotations

from typing import Any

from inspector.errors import Unavailable
from inspector.hlo.backend_config import known_trip_count
from inspector.hlo.module import Computation, Instruction

_INTEGERS = {"s32": "s32s", "u32": "u32s", "s64": "s64s", "u64": "u64s"}
_PASSING = frozenset({"copy", "bitcast"})  # hand on their operand's value


def trip_count(loop: Instruction) -> int | Unavailable:
    """How often a `while` runs its body.

    The CPU's and GPU's compilers note it. Elsewhere a loop such as `lax.scan` makes is recognized: a
    counter that starts at a constant, grows by one and ends below a constant.
    """
    noted = known_trip_count(loop)
    if not isinstance(noted, Unavailable):
        return noted
    counted = _counted(loop)
    return noted if counted is None else counted


def _counted(loop: Instruction) -> int | None:
    body, condition = loop.called_computations
    compared = condition.root
    if compared.opcode != "compare" or compared.proto.comparison_direction != "LT":
        return None
    counter, limit = (_source(operand) for operand in compared.operands)
    index, end = _element(counter, condition), _integer(limit)
    initial = _source(loop.operands[0])
    if index is None or end is None or initial.opcode != "tuple" or not _grows_by_one(body, index):
        return None
    start = _integer(_source(initial.operands[index]))
    return None if start is None else max(0, end - start)


def _grows_by_one(body: Computation, index: int) -> bool:
    root = _source(body.root)
    if root.opcode != "tuple":
        return False
    grown = _source(root.operands[index])
    if grown.opcode != "add":
        return False
    one, other = (_source(operand) for operand in grown.operands)
    return any(_element(a, body) == index and _integer(b) == 1 for a, b in ((one, other), (other, one)))


def _source(instruction: Instruction) -> Instruction:
    while instruction.opcode in _PASSING:
        instruction = instruction.operands[0]
    return instruction


def _element(instruction: Instruction, computation: Computation) -> int | None:
    """Which element of the computation's parameter it is, None when it is none."""
    if (
        instruction.opcode != "get-tuple-element"
        or instruction.operands[0].proto.id != computation.parameters[0].proto.id
    ):
        return None
    return int(instruction.proto.tuple_index)


def _integer(instruction: Instruction) -> int | None:
    if instruction.opcode != "constant" or instruction.shape.dimensions:
        return None
    values: Any = getattr(instruction.proto.literal, _INTEGERS.get(instruction.shape.element_type, ""), ())
    return int(values[0]) if len(values) == 1 else None
