"""Trip counts of loops, from XLA's annotation or from a counter with constant bounds."""

from __future__ import annotations

import math
from typing import Any

from inspector.errors import Unavailable
from inspector.hlo.backend_config import known_trip_count
from inspector.hlo.module import Computation, Instruction

_INTEGERS = {"s32": "s32s", "u32": "u32s", "s64": "s64s", "u64": "u64s"}
PASSING = frozenset({"copy", "bitcast", "copy-start", "copy-done", "optimization-barrier"})
"""Opcodes that pass their operand's value on."""
_JOINING = "ConcatBitcast"  # the custom call of libtpu that joins slices
_MIRRORED = {"LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE"}  # with swapped operands


def trip_count(loop: Instruction) -> int | Unavailable:
    """Returns how often a `while` runs its body.

    The CPU and GPU compilers record it. Otherwise, loops such as those of `lax.scan` and `lax.fori_loop` are recognized: a
    counter that starts at a constant, changes by a constant step and is compared with a constant.
    """
    noted = known_trip_count(loop)
    if not isinstance(noted, Unavailable):
        return noted
    counted = _counted(loop)
    return noted if counted is None else counted


def _counted(loop: Instruction) -> int | None:
    body, condition = loop.called_computations
    compared = condition.root
    if compared.opcode != "compare":
        return None
    direction = str(compared.proto.comparison_direction)
    counter, limit = compared.operands
    index, end = carried_index(value_source(counter)), _constant(limit)
    if end is None:
        index, end, direction = (
            carried_index(value_source(limit)),
            _constant(counter),
            _MIRRORED.get(direction, direction),
        )
    if index is None or end is None:
        return None
    start, step = _initial(loop, index), _step(body, index)
    return None if start is None or step is None else _trips(start, step, direction, end)


def _trips(start: int, step: int, direction: str, end: int) -> int | None:
    """Returns how many of `start`, `start + step`, ... satisfy the comparison with `end` in a row; None for infinitely many."""
    if direction in ("GT", "GE"):
        start, step, end = -start, -step, -end
    if direction in ("LE", "GE"):
        end += 1
    if direction in ("EQ", "NE"):
        steps, rest = divmod(end - start, step) if step else (int(start != end), 1)
        if direction == "EQ":
            return None if start == end and not step else int(start == end)
        return steps if not rest and steps >= 0 else None
    if start >= end:
        return 0
    return -((start - end) // step) if step > 0 else None


def _step(body: Computation, index: int) -> int | None:
    """Returns the constant that an iteration adds to the loop's element at an index; None if it is not constant."""
    value = _result(body, index)
    if value is None or value.opcode not in ("add", "subtract"):
        return None
    one, other = value.operands
    if carried_index(value_source(one)) == index:
        step = _constant(other)
        return -step if step is not None and value.opcode == "subtract" else step
    return _constant(one) if value.opcode == "add" and carried_index(value_source(other)) == index else None


def _constant(instruction: Instruction) -> int | None:
    """Returns the value of a scalar integer that is constant, or that all enclosing loops pass on unchanged; else None."""
    source = value_source(instruction)
    if source.opcode == "constant":
        return _integer(source)
    index = carried_index(source)
    callers = source.computation.module.callers.get(source.computation.name, ())
    if index is None or len(callers) != 1 or callers[0].opcode != "while":
        return None
    (loop,) = callers
    passed_on = _result(loop.called_computations[0], index)
    return _initial(loop, index) if passed_on is not None and carried_index(passed_on) == index else None


def carried_unchanged(loop: Instruction, index: int) -> Instruction | None:
    """Returns the initial value of an element that a loop carries unchanged; None if the loop changes it."""
    passed_on, initial = _result(loop.called_computations[0], index), value_source(loop.operands[0])
    if passed_on is None or carried_index(passed_on) != index:
        return None
    return initial.operand(index) if initial.opcode == "tuple" else initial


def _initial(loop: Instruction, index: int) -> int | None:
    initial = value_source(loop.operands[0])
    return _constant(initial.operands[index]) if initial.opcode == "tuple" else None


def _result(body: Computation, index: int) -> Instruction | None:
    """Returns the instruction that computes the loop's element at an index in the body."""
    root = value_source(body.root)
    return value_source(root.operands[index]) if root.opcode == "tuple" else None


def value_source(instruction: Instruction) -> Instruction:
    """Returns the instruction whose value copies and bitcasts pass on, also in slices that are joined again."""
    while instruction.opcode in PASSING or is_joined(instruction):
        whole = _joined(instruction) if is_joined(instruction) else instruction.operands[0]
        if whole is None:
            return instruction
        instruction = whole
    return instruction


def is_joined(value: Instruction) -> bool:
    """Reports whether an instruction only joins the slices of arrays that libtpu copies in parts."""
    return value.opcode == "custom-call" and value.custom_call_target == _JOINING


def _joined(value: Instruction) -> Instruction | None:
    """Returns the array whose slices an instruction joins; None if they are of several arrays, or not the whole one."""
    wholes = {_sliced(each) for each in value.operands}
    (whole,) = wholes if len(wholes) == 1 else (None,)
    same = whole is not None and math.prod(whole.shape.dimensions) == math.prod(value.shape.dimensions)
    return whole if same else None


def _sliced(value: Instruction) -> Instruction | None:
    """Returns the array of which a value is a slice; None for other values."""
    while value.opcode in PASSING or value.opcode.endswith("-done"):
        value = value.operands[0]
    return value.operands[0] if value.opcode in ("slice", "slice-start", "async-start") else None


def carried_index(instruction: Instruction) -> int | None:
    """Returns the index of the parameter's element that an instruction extracts; None for other instructions."""
    if instruction.opcode != "get-tuple-element" or instruction.operands[0].opcode != "parameter":
        return None
    return instruction.tuple_index


def _integer(constant: Instruction) -> int | None:
    values = integers(constant)
    return values[0] if len(values) == 1 and not constant.shape.dimensions else None


def integers(constant: Instruction) -> tuple[int, ...]:
    """Returns the values of a constant of 32-bit or 64-bit integers; () for others."""
    values: Any = getattr(constant.proto.literal, _INTEGERS.get(constant.shape.element_type, ""), ())
    return tuple(map(int, values))
