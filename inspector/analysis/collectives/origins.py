"""Where a collective comes from when it does not say so itself.

Compilers make collectives without a source line: partitioners name the argument that they gather, passes that
rewrite an operation forget its metadata. What holds it, what it waits for, and what it is made from or used by often
knows. Each answer says how it was found.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

from inspector.analysis.collectives.operations import Operation
from inspector.errors import Unavailable
from inspector.hlo.module import Instruction, Module
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
      op_name: the name stack of the operation itself, of what holds or ends it, or of its relative; of a sum that XLA
        made of several, those of all, as XLA joins them (`hlo/source.py`); "" when lost.
      frames: Python call stack, innermost first; empty when lost.
      via: "itself", "<instruction>, which holds it", "its user <instruction>", "its operand <instruction>" or
        "<instruction>, the largest of its 3 operands"; Unavailable when nothing knows.
      instruction: the name of the instruction in `via`; "" when lost.
    """

    op_name: str
    frames: tuple[Frame, ...]
    via: str | Unavailable
    instruction: str = ""


class Sources:
    """Finds where the collectives of one module come from."""

    def __init__(self, module: Module) -> None:
        self._module = module

    def of(self, found: Operation) -> Source:
        """Where an operation comes from."""
        near = self._near(found)
        merged = self._merged(found) if found.opcode in _OF_OPERANDS else None
        if near is not None:
            return near if merged is None else dataclasses.replace(near, op_name=f"{near.op_name};{merged.op_name}")
        if merged is not None:
            return merged
        made_from = ("operand", found.holder, self._operands)
        used_by = ("user", found.done or found.holder, self._using)
        for kind, start, step in (made_from, used_by) if found.opcode in _OF_OPERANDS else (used_by, made_from):
            for relative in _walk(start, step):
                if relative.frames:
                    return Source(relative.op_name, relative.frames, f"its {kind} {relative.name}", relative.name)
        return Source("", (), Unavailable(_LOST))

    def _near(self, found: Operation) -> Source | None:
        """From the operation and what performs, holds or ends it."""
        own = found.operation.name, found.instruction.name
        for instruction in (found.instruction, found.operation, found.holder, found.done):
            if instruction is not None and instruction.frames:
                via = "itself" if instruction.name in own else f"{instruction.name}, which holds it"
                return Source(instruction.op_name, instruction.frames, via, instruction.name)
        return None

    def _merged(self, found: Operation) -> Source | None:
        """Of several sums in one: the largest part's, with the names of all; None for a single one, or when lost."""
        parts = [part for operand in found.holder.operands for part in _concatenated(operand)]
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
        """What an instruction is made from: of a fusion, first what makes its result."""
        return [inner for operand in instruction.operands for inner in (*_fused_root(operand), operand)]

    def _using(self, instruction: Instruction) -> Sequence[Instruction]:
        """What uses an instruction: of a fusion, first those in it that do."""
        found: list[Instruction] = []
        for user in instruction.users:
            if user.opcode == "fusion":
                body = user.called_computations[0]
                for number, operand in enumerate(user.operands):
                    if operand is instruction:
                        found += body.parameters[number].users
            found.append(user)
        return found


def _walk(start: Instruction, step: Callable[[Instruction], Sequence[Instruction]]) -> Iterator[Instruction]:
    """What `step` leads to, nearest first, each once."""
    seen, here = {start.name}, [start]
    for _ in range(_FARTHEST):
        reached = [following for instruction in here for following in step(instruction)]
        here = [i for i in dict.fromkeys(reached) if i.name not in seen]
        seen.update(instruction.name for instruction in here)
        yield from here


def _concatenated(operand: Instruction) -> Sequence[Instruction]:
    """What GPU compilers put one behind the other to sum it at once; the operand itself where it is none of that."""
    operand = _reshaped(operand)
    fused = _fused_root(operand)
    root = fused[0] if fused else operand
    if root.opcode != "concatenate" or root.frames:  # a line of its own: the user's
        return (operand,)
    outside = dict(zip((p.name for p in root.computation.parameters), operand.operands, strict=True)) if fused else {}
    return [outside.get(part.name, part) for part in map(_reshaped, root.operands)]


def _reshaped(instruction: Instruction) -> Instruction:
    """What has the same values in another shape."""
    while instruction.opcode in ("bitcast", "copy", "reshape"):
        instruction = instruction.operands[0]
    return instruction


def _fused_root(instruction: Instruction) -> tuple[Instruction, ...]:
    return (instruction.called_computations[0].root,) if instruction.opcode == "fusion" else ()
