"""Follows values through the HLO before optimization, in which functions are called and not inlined."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from inspector.hlo.module import Instruction, Module

_PASSING = frozenset({"copy", "optimization-barrier", "bitcast"})
_SHARDING_CALLS = frozenset({
    "Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "xla.sdy.FuncResultSharding", "xla.sdy.GlobalToLocalShape",
    "xla.sdy.LocalToGlobalShape",
})  # fmt: skip
"""Custom calls that only state shardings, such as those of `out_shardings`. Their result is the operand."""
ELEMENTWISE = frozenset({
    "add", "subtract", "multiply", "divide", "maximum", "minimum", "select", "convert", "negate", "power", "clamp",
    "dynamic-update-slice", "scatter",
})  # fmt: skip
"""Operations whose result can be an updated version of an operand."""
BY_ELEMENT = (ELEMENTWISE - {"dynamic-update-slice", "scatter"}) | {
    "abs", "cosine", "exponential", "exponential-minus-one", "log", "log-plus-one", "logistic", "rsqrt", "sign", "sine", "sqrt",
    "tanh", "erf", "compare", "and", "or", "not",
}  # fmt: skip
"""Operations that combine arrays element by element."""
_UPDATED_FIRST = frozenset({"dynamic-update-slice", "scatter"})  # only the first operand is updated
_FOLLOWED = ELEMENTWISE | _PASSING | {"parameter", "call", "custom-call", "get-tuple-element"}
"""Opcodes to follow from a value back to the parameter that it updates."""


def is_passing(instruction: Instruction) -> bool:
    """Reports whether an instruction passes its operand's value on: a copy or a sharding constraint."""
    opcode = instruction.opcode
    if opcode == "custom-call":
        return instruction.custom_call_target in _SHARDING_CALLS and not instruction.shape.is_tuple
    return opcode in _PASSING


def is_tuple(instruction: Instruction) -> bool:
    """Reports whether an instruction's result is the tuple of its operands: also for all arrays that enter or leave a `shard_map`."""
    return instruction.opcode == "tuple" or (
        instruction.opcode == "custom-call"
        and instruction.shape.is_tuple
        and instruction.custom_call_target in _SHARDING_CALLS
    )


class Value(NamedTuple):
    """An instruction's value in one call of its computation.

    Attributes:
      instruction: the instruction.
      calls: the calls, and where they matter the loops, that lead to it, outermost first.
    """

    instruction: Instruction
    calls: tuple[Instruction, ...] = ()

    def operand(self, number: int) -> Value:
        """Returns an operand, followed to the instruction that computes it."""
        return source(Value(self.instruction.operand(number), self.calls))

    @property
    def operands(self) -> Iterator[Value]:
        """The operands, each followed to the instruction that computes it."""
        return (source(Value(operand, self.calls)) for operand in self.instruction.operands)


def source(value: Value) -> Value:
    """Follows a value through calls, tuples, copies and sharding constraints to the instruction that computes it."""
    while True:
        instruction, calls = value.instruction, value.calls
        opcode = instruction.opcode
        if opcode in _PASSING or (opcode == "custom-call" and is_passing(instruction)):
            value = Value(instruction.operand(0), calls)
        elif opcode == "call":
            value = Value(instruction.called_computations[0].root, (*calls, instruction))
        elif opcode == "parameter" and _is_called(instruction, calls) and instruction.parameter_number is not None:
            value = Value(calls[-1].operand(instruction.parameter_number), calls[:-1])
        elif opcode == "get-tuple-element":
            whole = source(Value(instruction.operand(0), calls))
            if (unchanged := _unchanged_in_loop(instruction, whole)) is not None:
                value = unchanged
                continue
            if not is_tuple(whole.instruction):
                return (
                    Value(instruction, calls)
                    if whole.instruction is instruction.operands[0]
                    else _element(whole, instruction)
                )
            value = Value(whole.instruction.operand(instruction.tuple_index), whole.calls)
        else:
            return value


def _is_called(parameter: Instruction, calls: tuple[Instruction, ...]) -> bool:
    """Reports whether a parameter is one of the function that the innermost call calls."""
    return bool(calls) and calls[-1].opcode == "call" and calls[-1].called_computations[0] == parameter.computation


def _unchanged_in_loop(element: Instruction, whole: Value) -> Value | None:
    """Returns the initial value of an array that a loop around it carries unchanged; None for others.

    Args:
      element: an element of the tuple that a loop carries.
      whole: the tuple.
    """
    if whole.instruction.opcode != "parameter" or not whole.calls or whole.calls[-1].opcode != "while":
        return None
    loop, number = whole.calls[-1], element.tuple_index
    body = loop.called_computations[0]
    if whole.instruction.computation not in loop.called_computations or body.root.opcode != "tuple":
        return None
    ended = source(Value(body.root.operand(number))).instruction
    if ended.opcode != "get-tuple-element" or ended.tuple_index != number or ended.operands[0].opcode != "parameter":
        return None
    initial = source(Value(loop.operands[0], whole.calls[:-1]))
    return initial.operand(number) if is_tuple(initial.instruction) else None


def _element(whole: Value, element: Instruction) -> Value:
    """Returns an element of a tuple that is neither a tuple instruction nor the direct operand: the element itself."""
    found = next(
        (user for user in whole.instruction.users if user.opcode == "get-tuple-element" and user.tuple_index == element.tuple_index),
        None,
    )  # fmt: skip
    return Value(element) if found is None else Value(found, whole.calls)


def results(module: Module) -> tuple[Value, ...]:
    """Returns the values of the program's results."""
    root = source(Value(module.entry.root))
    if not is_tuple(root.instruction):
        return (root,)
    return tuple(root.operands)


def updated_parameters(result: Value, limit: int = 200) -> Iterator[tuple[int, tuple[Value, ...]]]:
    """Yields the parameters that a result is an updated version of, with the operations between them, result first.

    Follows operations that combine arrays element by element, replaced slices, and arrays that a loop carries. The nearest
    parameter comes first.

    Args:
      result: a result of the program.
      limit: number of values to look at.
    """
    waiting: deque[tuple[Value, tuple[Value, ...]]] = deque([(result, ())])
    seen = set[Value]()
    while waiting and len(seen) < limit:
        value, path = waiting.popleft()
        if value in seen:
            continue
        seen.add(value)
        instruction, opcode = value.instruction, value.instruction.opcode
        if opcode == "parameter" and not value.calls and instruction.parameter_number is not None:
            yield instruction.parameter_number, path
        elif opcode in _UPDATED_FIRST:
            waiting.append((value.operand(0), (*path, value)))
        elif opcode in ELEMENTWISE:
            dimensions, longer = instruction.shape.dimensions, (*path, value)
            for operand in instruction.operands:
                if operand.opcode in _FOLLOWED and operand.shape.dimensions == dimensions:
                    waiting.append((source(Value(operand, value.calls)), longer))
        elif opcode == "get-tuple-element":
            carried = carried_from(value)
            if carried is not None:
                waiting.append((carried, (*path, value)))


def carried_from(value: Value) -> Value | None:
    """Returns the initial value of an array that a loop carries; None if the value is not a loop's result."""
    loop = value.instruction.operands[0]
    if loop.opcode != "while":
        return None
    initial = source(Value(loop.operands[0], value.calls))
    if initial.instruction.opcode != "tuple":
        return None
    return initial.operand(value.instruction.tuple_index)
