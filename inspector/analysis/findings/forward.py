"""Follows an argument forward through the HLO before optimization, to the operations and the results that it reaches."""

from __future__ import annotations

import dataclasses

from inspector.analysis.findings.dataflow import is_passing, is_tuple
from inspector.hlo.module import Instruction, Module

_MOST_VALUES = 2000
_ENTERING = frozenset({"SPMDFullToShardShape", "xla.sdy.GlobalToLocalShape"})
"""Custom calls of arrays that enter a `shard_map`."""


@dataclasses.dataclass(frozen=True, slots=True)
class Reached:
    """The uses of an argument.

    Attributes:
      opcodes: opcodes of the operations that use the argument, or an array of its shape computed from it.
      results: positions of the program's results that it reaches through such arrays.
      is_manual: whether such an array enters a `shard_map`.
    """

    opcodes: frozenset[str]
    results: frozenset[int]
    is_manual: bool = False


def reached(module: Module, parameter: int) -> Reached:
    """Returns the uses of a parameter of the program. Calls are followed; loops and conditionals are operations."""
    start = module.entry.parameters[parameter]
    opcodes, results = set[str](), set[int]()
    waiting: list[tuple[Instruction, int | None]] = [(start, None)]  # an array, or an element of a tuple
    seen = set[tuple[int, int | None]]()
    is_manual = False
    while waiting and len(seen) < _MOST_VALUES:
        value, element = waiting.pop()
        if (value.row, element) in seen:
            continue
        seen.add((value.row, element))
        if value.is_root:
            if value.computation.is_entry:
                results.add(element or 0)
            waiting.extend(
                (call, element)
                for call in module.callers.get(value.computation.name, ())
                if call.opcode == "call"
            )  # fmt: skip
        for user in value.users:
            positions = user.positions_of(value)
            is_manual = is_manual or user.custom_call_target in _ENTERING
            if is_tuple(user):
                waiting.extend((user, number) for number in positions)
            elif user.opcode == "get-tuple-element":
                if user.tuple_index == element:
                    waiting.append((user, None))
            elif user.opcode == "call":
                waiting.extend((user.called_computations[0].parameters[number], None) for number in positions)
            elif is_passing(user):
                waiting.append((user, None))
            elif user.opcode != "reshape" or user.users or user.is_root:  # Shardy leaves unused reshapes beside results
                opcodes.add(user.opcode)
                if user.shape.dimensions == value.shape.dimensions:
                    waiting.append((user, None))
    return Reached(frozenset(opcodes), frozenset(results), is_manual)
