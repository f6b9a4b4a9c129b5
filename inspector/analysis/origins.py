"""Where a collective comes from when it does not say so itself.

Compilers make collectives without a source line: partitioners name the argument that they gather, passes that
rewrite an operation forget its metadata. What holds it, what it waits for, and what it is made from or used by often
knows. Each answer says how it was found.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

from inspector.analysis.operations import Operation
from inspector.errors import Unavailable
from inspector.hlo.module import Computation, Instruction, Module
from inspector.hlo.source import Frame

# Steps from operand to operand, or from user to user.
_FARTHEST = 12
_LOST = (
    "the compiler recorded no source line for it, nor for what holds it, uses it or makes its operands"
    f" ({_FARTHEST} steps far)"
)

# Their operands are partial results of what made them; those of others are made for what uses them.
_OF_OPERANDS = frozenset({"all-reduce", "reduce-scatter"})


@dataclasses.dataclass(frozen=True, slots=True)
class Source:
    """Where a collective comes from.

    Attributes:
      op_name: the name stack of the operation itself, of what holds or ends it, or of its relative; "" when lost.
      frames: Python call stack, innermost first; empty when lost.
      via: "itself", "<instruction>, which holds it", "its user <instruction>" or "its operand <instruction>";
        Unavailable when nothing knows.
    """

    op_name: str
    frames: tuple[Frame, ...]
    via: str | Unavailable


class Sources:
    """Finds where the collectives of one module come from."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._users: dict[str, dict[int, list[Instruction]]] = {}

    def of(self, found: Operation) -> Source:
        """Where an operation comes from."""
        near = self._near(found)
        if near is not None:
            return near
        made_from = ("operand", found.holder, self._operands)
        used_by = ("user", found.done or found.holder, self._using)
        for kind, start, step in (made_from, used_by) if found.opcode in _OF_OPERANDS else (used_by, made_from):
            for relative in _walk(start, step):
                if relative.frames:
                    return Source(relative.op_name, relative.frames, f"its {kind} {relative.name}")
        return Source("", (), Unavailable(_LOST))

    def _near(self, found: Operation) -> Source | None:
        """From the operation and what performs, holds or ends it."""
        own = found.operation.name, found.instruction.name
        for instruction in (found.instruction, found.operation, found.holder, found.done):
            if instruction is not None and instruction.frames:
                via = "itself" if instruction.name in own else f"{instruction.name}, which holds it"
                return Source(instruction.op_name, instruction.frames, via)
        return None

    def _operands(self, instruction: Instruction) -> Sequence[Instruction]:
        """What an instruction is made from: of a fusion, first what makes its result."""
        return [inner for operand in instruction.operands for inner in (*_fused_root(operand), operand)]

    def _using(self, instruction: Instruction) -> Sequence[Instruction]:
        """What uses an instruction: of a fusion, first those in it that do."""
        found: list[Instruction] = []
        for user in self._users_of(instruction):
            if user.opcode == "fusion":
                body = user.called_computations[0]
                for number, operand in enumerate(user.proto.operand_ids):
                    if operand == instruction.proto.id:
                        found += self._users_of(body.parameters[number])
            found.append(user)
        return found

    def _users_of(self, instruction: Instruction) -> Sequence[Instruction]:
        computation = instruction.computation
        if computation.name not in self._users:
            self._users[computation.name] = _users(computation)
        return self._users[computation.name].get(instruction.proto.id, ())


def _walk(start: Instruction, step: Callable[[Instruction], Sequence[Instruction]]) -> Iterator[Instruction]:
    """What `step` leads to, nearest first, each once."""
    seen, here = {start.name}, [start]
    for _ in range(_FARTHEST):
        reached = [following for instruction in here for following in step(instruction)]
        here = [i for i in dict.fromkeys(reached) if i.name not in seen]
        seen.update(instruction.name for instruction in here)
        yield from here


def _fused_root(instruction: Instruction) -> tuple[Instruction, ...]:
    return (instruction.called_computations[0].root,) if instruction.opcode == "fusion" else ()


def _users(computation: Computation) -> dict[int, list[Instruction]]:
    users: dict[int, list[Instruction]] = {}
    for instruction in computation.instructions:
        for operand in dict.fromkeys(instruction.proto.operand_ids):
            users.setdefault(operand, []).append(instruction)
    return users
