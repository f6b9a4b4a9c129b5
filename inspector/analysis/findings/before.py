"""The program before optimization: full names of its operations, the calls that lead to them, and the kernels they became.

Functions are called there and not inlined. JAX's name of an operation in a function is relative to the call; the optimized HLO
has the full name: the names of all calls, followed by that of the operation.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from inspector.analysis.findings.dataflow import Value, is_passing, is_tuple, source
from inspector.errors import Unavailable
from inspector.hlo.execution_counts import Place
from inspector.hlo.loops import trip_count
from inspector.hlo.module import Computation, Instruction, Module
from inspector.hlo.source import Frame, merged_names
from inspector.support.name_stacks import inlined_name

_MOST_CALLS = 64  # of one function; more calls of it are left out
_RUNS = frozenset({"call", "while", "conditional"})
MOVING = frozenset({
    "reshape", "transpose", "broadcast", "slice", "dynamic-slice", "reverse", "copy", "bitcast", "optimization-barrier",
})  # fmt: skip
"""Operations that only move their first operand's values."""


class Call(NamedTuple):
    """One way in which a computation is reached.

    Attributes:
      names: JAX's names of the calls around it, innermost first.
      calls: the calls, loops and conditionals around it, outermost first.
    """

    names: tuple[str, ...]
    calls: tuple[Instruction, ...]


class Before:
    """The HLO before optimization, with the calls of its functions.

    Attributes:
      module: the module.
    """

    def __init__(self, module: Module) -> None:
        """Stores the module."""
        self.module = module

    @functools.cached_property
    def _reached(self) -> Mapping[int, list[Call]]:
        reached: dict[int, list[Call]] = {self.module.entry.number: [Call((), ())]}
        for computation in _callers_first(self.module.entry):
            for instruction in computation.calling:
                if instruction.opcode not in _RUNS:
                    continue
                for around, calls in reached[computation.number]:
                    names = (instruction.op_name, *around) if instruction.opcode == "call" else around
                    for called in instruction.called_computations:
                        known = reached.setdefault(called.number, [])
                        if len(known) < _MOST_CALLS:
                            known.append(Call(names, (*calls, instruction)))
        return reached

    def values(self, opcodes: Iterable[str]) -> Iterator[tuple[Value, str]]:
        """Yields the operations of certain kinds, once for each call of their function, each with its full name."""
        for row, called in self.rows(opcodes):
            instruction = self.module.at(row)
            for names, calls in called:
                yield Value(instruction, calls), inlined_name(instruction.op_name, names)

    def rows(self, opcodes: Iterable[str]) -> Iterator[tuple[int, Sequence[Call]]]:
        """Yields the rows of the operations of certain kinds, each with the ways in which its function is called."""
        columns = self.module.columns
        rows = columns.rows_of(frozenset(opcodes).__contains__)
        for row, computation in zip(rows, columns.in_computation[rows].tolist(), strict=True):
            yield row, self._reached.get(computation, ())


def full_name(value: Value) -> str:
    """Returns the full name of a value's operation: the names of its calls, followed by its own."""
    return inlined_name(
        value.instruction.op_name, [call.op_name for call in reversed(value.calls) if call.opcode == "call"]
    )


def frames_of(value: Value) -> tuple[Frame, ...]:
    """Returns the call stack of an operation, or that of the call of JAX's function that contains it; () if neither is known."""
    return next((each.frames for each in (value.instruction, *reversed(value.calls)) if each.frames), ())


class Use(NamedTuple):
    """One use of a value.

    Attributes:
      user: the operation that uses it; None for a result of the program, or of an iteration of a loop.
      operand: the number of the operand.
    """

    user: Value | None
    operand: int = 0


def uses(value: Value, at_constraints: bool = False) -> Iterator[Use]:
    """Yields the uses of a value, followed through calls, tuples and copies, and through sharding constraints unless they are wanted too."""
    waiting = [(value, -1)]  # and the number of the element of a tuple
    while waiting:
        now, element = waiting.pop()
        instruction = now.instruction
        if instruction.is_root:
            call = now.calls[-1] if now.calls else None
            if call is not None and call.opcode == "call":
                waiting.append((Value(call, now.calls[:-1]), element))
            else:
                yield Use(None)
        for user in instruction.users:
            for number in user.positions_of(instruction):
                if at_constraints and user.opcode == "custom-call" and user.custom_call_target == "Sharding":
                    yield Use(Value(user, now.calls), number)
                else:
                    yield from _use(now, user, number, element, waiting)


def _use(value: Value, user: Instruction, number: int, element: int, waiting: list[tuple[Value, int]]) -> Iterator[Use]:
    """Yields one use, or adds the value that passes it on to those that wait."""
    if user.opcode == "call":
        called = user.called_computations[0].parameters[number]
        waiting.append((Value(called, (*value.calls, user)), element))
    elif user.opcode == "get-tuple-element":
        if element < 0 or user.tuple_index == element:
            waiting.append((Value(user, value.calls), -1))
    elif is_tuple(user):
        waiting.append((Value(user, value.calls), number))
    elif is_passing(user):
        waiting.append((Value(user, value.calls), element))
    else:
        yield Use(Value(user, value.calls), number)


def _callers_first(entry: Computation) -> list[Computation]:
    finished: dict[int, Computation] = {}

    def visit(computation: Computation) -> None:
        if computation.number in finished:
            return
        for instruction in computation.calling:
            if instruction.opcode in _RUNS:
                for called in instruction.called_computations:
                    visit(called)
        finished[computation.number] = computation

    visit(entry)
    return list(reversed(finished.values()))


def moved_from(value: Value) -> Value:
    """Follows a value through operations that only move it, and through calls and loops, to the one that computes it."""
    while True:
        value = source(value)
        if value.instruction.opcode not in MOVING:
            return value
        value = Value(value.instruction.operand(0), value.calls)


def is_scale(user: Value, operand: int) -> bool:
    """Reports whether an operation multiplies or divides an operand by a constant, such as the number of terms of a mean."""
    opcode = user.instruction.opcode
    is_product = opcode == "multiply" or (opcode == "divide" and operand == 0)
    return is_product and moved_from(user.operand(1 - operand)).instruction.opcode == "constant"


def loops_around(value: Value) -> tuple[list[Instruction], int | Unavailable]:
    """Returns the loops around a value, and the product of their trip counts."""
    loops = [call for call in value.calls if call.opcode == "while"]
    trips = 1
    for loop in loops:
        count = trip_count(loop)
        if isinstance(count, Unavailable):
            return loops, count
        trips *= count
    return loops, trips


class Kernels:
    """The instructions of an optimized module by their full names."""

    def __init__(self, module: Module, places: Mapping[str, Place], kernels: Iterable[str]) -> None:
        """Stores the module, its places, and the names of its kernels."""
        self._module, self._places, self._kernels = module, places, frozenset(kernels)
        self._codes: dict[str, list[int]] = {}
        for code, origin in enumerate(module.known_origins):
            for name in merged_names(origin.op_name):
                self._codes.setdefault(name, []).append(code)

    def named(self, names: Iterable[str]) -> list[Instruction]:
        """Returns the instructions with one of the full names, in the module's order."""
        codes = [code for name in dict.fromkeys(names) for code in self._codes.get(name, ())]
        rows = np.flatnonzero(np.isin(self._module.columns.metadata.codes, codes)) if codes else ()
        return [self._module.at(int(row)) for row in rows]

    def kernel(self, instruction: Instruction) -> str | None:
        """Returns the name of the kernel that contains an instruction; None if it is a part of none."""
        name, computation = instruction.name, instruction.computation.name
        while name not in self._kernels:
            place = self._places.get(computation)
            if place is None or not place.fused or place.counted_in is None:
                return None
            name = place.counted_in
            computation = self._module.instruction(name).computation.name
        return name

    def of(self, names: Iterable[str]) -> list[str]:
        """Returns the names of the kernels that contain instructions with one of the full names."""
        return list(dict.fromkeys(k for i in self.named(names) if (k := self.kernel(i)) is not None))
