"""The source line of collectives that have none of their own.

Compilers create collectives without a source line: partitioners name the argument that they gather, and passes that
rewrite an operation drop its metadata. The line is then taken from the instruction that contains or ends the
collective, from its operands or from its users. Each result names that instruction.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

from inspector.analysis.collectives.operations import Operation
from inspector.errors import Unavailable
from inspector.hlo.module import Instruction, Module
from inspector.hlo.source import Frame

# The largest number of steps from operand to operand, or from user to user.
_FARTHEST = 12
_LOST = (
    "the compiler recorded no source line for it, nor for the instructions that contain it, use it or produce its operands"
    f" (within {_FARTHEST} steps)"
)

# These combine partial results of the instructions that produce their operands. All others prepare data for their users.
_OF_OPERANDS = frozenset({"all-reduce", "reduce-scatter"})


@dataclasses.dataclass(frozen=True, slots=True)
class Source:
    """The origin of a collective.

    Attributes:
      op_name: name stack of the instruction in `via`; for a sum that XLA merged from several, the name stacks of all,
        joined as XLA joins them (`hlo/source.py`); "" if lost.
      frames: Python call stack, innermost first; empty if lost.
      via: "itself", "<instruction>, which contains it", "its user <instruction>", "its operand <instruction>" or
        "<instruction>, the largest of its 3 operands"; Unavailable if lost.
      instruction: name of the instruction in `via`; "" if lost.
    """

    op_name: str
    frames: tuple[Frame, ...]
    via: str | Unavailable
    instruction: str = ""


class Sources:
    """Finds the origins of the collectives of one module."""

    def __init__(self, module: Module) -> None:
        self._module = module

    def of(self, collective: Operation) -> Source:
        """Returns the origin of an operation."""
        near = self._near(collective)
        merged = self._merged(collective) if collective.opcode in _OF_OPERANDS else None
        if near is not None:
            return near if merged is None else dataclasses.replace(near, op_name=f"{near.op_name};{merged.op_name}")
        if merged is not None:
            return merged
        made_from = ("operand", collective.holder, self._operands)
        used_by = ("user", collective.done or collective.holder, self._using)
        for kind, start, step in (made_from, used_by) if collective.opcode in _OF_OPERANDS else (used_by, made_from):
            for relative in _walk(start, step):
                if relative.frames:
                    return Source(relative.op_name, relative.frames, f"its {kind} {relative.name}", relative.name)
        return Source("", (), Unavailable(_LOST))

    def _near(self, collective: Operation) -> Source | None:
        """Returns the origin of the operation, or of an instruction that performs, contains or ends it."""
        own = collective.operation.name, collective.instruction.name
        for instruction in (collective.instruction, collective.operation, collective.holder, collective.done):
            if instruction is not None and instruction.frames:
                via = "itself" if instruction.name in own else f"{instruction.name}, which contains it"
                return Source(instruction.op_name, instruction.frames, via, instruction.name)
        return None

    def _merged(self, collective: Operation) -> Source | None:
        """Returns the origin of several merged sums: that of the largest, with the name stacks of all.

        None if there is only one sum, or if the origin is lost.
        """
        parts = [part for operand in collective.holder.operands for part in _concatenated(operand)]
        if len(parts) < 2:
            return None
        made = [(part.shape.byte_size, next((i for i in self._makers(part) if i.frames), None)) for part in parts]
        known = sorted(((size, i) for size, i in made if i is not None), key=lambda each: -each[0])
        if not known:
            return None
        names = dict.fromkeys(i.op_name for _, i in known)
        largest = known[0][1]
        via = f"{largest.name}, the largest of its {len(parts)} operands"
        return Source(";".join(names), largest.frames, via, largest.name)

    def _makers(self, part: Instruction) -> Iterator[Instruction]:
        yield from (*_fused_root(part), part)
        yield from _walk(part, self._operands)

    def _operands(self, instruction: Instruction) -> Sequence[Instruction]:
        """Returns the operands of an instruction, each fusion preceded by its root."""
        return [inner for operand in instruction.operands for inner in (*_fused_root(operand), operand)]

    def _using(self, instruction: Instruction) -> Sequence[Instruction]:
        """Returns the users of an instruction, each fusion preceded by the users in it."""
        users: list[Instruction] = []
        for user in instruction.users:
            if user.opcode == "fusion":
                body = user.called_computations[0]
                for number, operand in enumerate(user.operands):
                    if operand is instruction:
                        users += body.parameters[number].users
            users.append(user)
        return users


def _walk(start: Instruction, step: Callable[[Instruction], Sequence[Instruction]]) -> Iterator[Instruction]:
    """Yields the instructions that `step` leads to, nearest first, each once."""
    seen, here = {start.name}, [start]
    for _ in range(_FARTHEST):
        reached = [following for instruction in here for following in step(instruction)]
        here = [i for i in dict.fromkeys(reached) if i.name not in seen]
        seen.update(instruction.name for instruction in here)
        yield from here


def _concatenated(operand: Instruction) -> Sequence[Instruction]:
    """Returns the arrays that a GPU compiler concatenated to reduce them together; otherwise the operand itself."""
    operand = _reshaped(operand)
    fused = _fused_root(operand)
    root = fused[0] if fused else operand
    if root.opcode != "concatenate" or root.frames:  # with a source line, it is the user's own concatenation
        return (operand,)
    outside = dict(zip((p.name for p in root.computation.parameters), operand.operands, strict=True)) if fused else {}
    return [outside.get(part.name, part) for part in map(_reshaped, root.operands)]


def _reshaped(instruction: Instruction) -> Instruction:
    """Returns the instruction behind bitcasts, copies and reshapes."""
    while instruction.opcode in ("bitcast", "copy", "reshape"):
        instruction = instruction.operands[0]
    return instruction


def _fused_root(instruction: Instruction) -> tuple[Instruction, ...]:
    return (instruction.called_computations[0].root,) if instruction.opcode == "fusion" else ()
