"""The collective operations of a module: the opcode of each, and the instructions that start and end it.

Compilers write an asynchronous operation in several ways:
  - as a `-start` and a `-done`;
  - as an `async-start` of a computation that contains one or several operations, directly or in a fusion (GPUs);
  - as a chain of fusions that each contain the operation: one that starts it, those that run at the same time, and one
    that waits for it (TPUs).

Some operations are written with another opcode: a reduce-scatter as an all-reduce in a fusion that keeps each device's
part only (TPUs), a collective-permute as a `send` and a `recv` on one channel (GPUs).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from inspector.analysis.collectives.sliced_results import sliced_dimension
from inspector.hlo.module import Computation, Instruction, Module
from inspector.hlo.opcodes import COLLECTIVES
from inspector.hlo.shape import Shape

OPCODES = COLLECTIVES
"""Opcodes of collectives, in their synchronous form."""

# libtpu's marks on the members of a chain: the chain's id, and the custom calls in its first and last fusion.
_CHAIN = "chain_id"
_STARTS, _ENDS = "AsyncCollectiveStart", "AsyncCollectiveDone"

# Opcodes that pass an all-reduce's value on to the slices of it in a fusion.
_PASSING = frozenset({"get-tuple-element", "bitcast", "copy"})


@dataclasses.dataclass(frozen=True, slots=True)
class Operation:
    """A collective operation, however it is written.

    Attributes:
      opcode: one of `OPCODES`.
      instruction: the instruction that performs or starts it.
      operation: the collective itself: the same instruction, or one in the computation that it calls.
      holder: the outermost instruction that performs it: the fusion or the start that contains `instruction`, or
        `instruction` itself.
      done: the instruction that ends it; None if it is not asynchronous.
      operand_shapes: input of one device, one shape per operand.
      result_shapes: output of one device, one shape per array.
      dimensions: gathered, scattered or split dimension; () if the opcode has none.
      parts: for a reduce-scatter that is written as an all-reduce, the slices that are kept, one per array.
    """

    opcode: str
    instruction: Instruction
    operation: Instruction
    holder: Instruction
    done: Instruction | None
    operand_shapes: tuple[Shape, ...]
    result_shapes: tuple[Shape, ...]
    dimensions: tuple[int, ...]
    parts: tuple[Instruction, ...] = ()

    @property
    def operand_bytes(self) -> int:
        """Input bytes per device."""
        return bytes_put_in(self.opcode, self.operand_shapes)

    @property
    def kernel(self) -> str:
        """Name of the kernel that performs it: the collective itself, or the outermost fusion that contains it."""
        return _outermost(self.operation, ("fusion",)).name


def bytes_put_in(opcode: str, operand_shapes: Sequence[Shape]) -> int:
    """Returns the input bytes of a collective per device."""
    # The other operands of a ragged all-to-all are its output buffer, and offsets and sizes.
    sent = operand_shapes[:1] if opcode == "ragged-all-to-all" else operand_shapes
    return sum(shape.byte_size for shape in sent)


def operations(module: Module) -> Iterator[Operation]:
    """Yields every collective once, in the order of the module's proto."""
    finder = _Operations(module)
    for instruction in map(module.at, module.columns.rows_of(_can_start)):
        callers = module.callers.get(instruction.computation.name, ())
        if not any(caller.opcode == "async-start" for caller in callers):  # else counted at the async-start
            yield from finder.of(instruction)


def _can_start(opcode: str) -> bool:
    return opcode.removesuffix("-start") in OPCODES or opcode in ("async-start", "send")


class _Operations:
    """Finds the collectives of one module. Caches the instructions that end them."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._dones: dict[str, dict[str, Instruction]] = {}
        self._ends: dict[tuple[str, str], Instruction] | None = None

    def of(self, instruction: Instruction) -> Iterator[Operation]:
        """Yields the operations that an instruction performs or starts: none, one, or several that start together."""
        if instruction.opcode == "async-start":
            inside = [i for i in instruction.called_computations[0].instructions if i.opcode in OPCODES]
            for operation in inside:
                yield self._operation(instruction if len(inside) == 1 else operation, operation)
        elif instruction.opcode.removesuffix("-start") in OPCODES:
            if not self._continues(instruction):
                yield self._operation(instruction, instruction)
        elif instruction.opcode == "send" and instruction.source_target_pairs:
            yield self._sent(instruction)

    def _continues(self, instruction: Instruction) -> bool:
        """Reports whether an instruction is a later member of a chain."""
        return _CHAIN in instruction.frontend_attributes and not _calls(instruction.computation, _STARTS)

    def _operation(self, instruction: Instruction, operation: Instruction) -> Operation:
        holder, done = _outermost(instruction), self._done(instruction, operation)
        parts = _parts(operation)
        written = operation.opcode.removesuffix("-start")
        results = _result(instruction, operation, done).leaves
        return Operation(
            opcode="reduce-scatter" if parts else written,
            instruction=instruction,
            operation=operation,
            holder=holder,
            done=done,
            operand_shapes=tuple(operand.shape for operand in operation.operands),
            result_shapes=tuple(part.shape for part in parts) or results,
            dimensions=_sliced(parts) if parts else operation.dimensions,
            parts=parts,
        )

    def _sent(self, send: Instruction) -> Operation:
        shape = send.operands[0].shape
        done = self._done(send, send)
        return Operation("collective-permute", send, send, _outermost(send), done, (shape,), (shape,), ())

    def _done(self, instruction: Instruction, operation: Instruction) -> Instruction | None:
        outer = _outermost(instruction)
        place = outer.computation
        if place.name not in self._dones:
            self._dones[place.name] = dones(place)
        done = self._dones[place.name].get(outer.name)
        chain = operation.frontend_attributes.get(_CHAIN)
        if chain is None or done is not None:
            return done
        if self._ends is None:
            self._ends = _chain_ends(self._module)
        return self._ends.get((place.name, chain))


def _result(instruction: Instruction, operation: Instruction, done: Instruction | None) -> Shape:
    """Returns the shape of the operation's result, without the other parts of a start's tuple."""
    if operation is not instruction:
        return operation.shape
    if done is not None and instruction.opcode.endswith("-start"):
        return done.shape
    if instruction.opcode.endswith("-start") and instruction.opcode != "all-reduce-start":
        return instruction.shape.tuple_shapes[1]
    return instruction.shape


def _parts(operation: Instruction) -> tuple[Instruction, ...]:
    """Returns the slices that a fusion keeps of its all-reduce, one per array; () if it keeps anything else of it.

    This is how libtpu writes a reduce-scatter: each device slices the part of its partition.
    """
    computation = operation.computation
    if operation.opcode != "all-reduce" or not any(
        caller.fusion_kind == "kCustom" for caller in computation.module.callers.get(computation.name, ())
    ):
        return ()
    passing, parts = {operation}, []
    for instruction in computation.instructions:
        if passing.isdisjoint(instruction.operands):
            continue
        if instruction.opcode in _PASSING and not instruction.is_root:
            passing.add(instruction)
        elif instruction.opcode == "dynamic-slice" and instruction.operands[0] in passing:
            parts.append(instruction)
        else:
            return ()
    return tuple(parts) if not operation.is_root else ()


def _sliced(parts: tuple[Instruction, ...]) -> tuple[int, ...]:
    """Returns the dimension in which all slices are smaller than their operands; () if they differ."""
    dimensions = {sliced_dimension(part) for part in parts}
    dimension = dimensions.pop() if len(dimensions) == 1 else None
    return () if dimension is None else (dimension,)


def _outermost(instruction: Instruction, opcodes: Sequence[str] = ("fusion", "async-start")) -> Instruction:
    """Returns the outermost caller with one of these opcodes that contains an instruction; itself if none does."""
    computation = instruction.computation
    callers = computation.module.callers.get(computation.name, ())
    return _outermost(callers[0], opcodes) if len(callers) == 1 and callers[0].opcode in opcodes else instruction


def dones(computation: Computation) -> dict[str, Instruction]:
    """Maps the name of each start instruction of a computation to the instruction that ends it."""
    done_by_start: dict[str, Instruction] = {}
    for instruction in computation.instructions:
        if instruction.opcode.endswith("-done") and instruction.operands:
            start = instruction.operands[0]
            while start.opcode == "async-update":
                start = start.operands[0]
            done_by_start[start.name] = instruction
    return done_by_start


def _chain_ends(module: Module) -> dict[tuple[str, str], Instruction]:
    """Maps (name of the computation, chain id) to the fusion that ends the chain."""
    ends: dict[tuple[str, str], Instruction] = {}
    for computation in module.computations:
        for instruction in computation.instructions:
            chain = instruction.frontend_attributes.get(_CHAIN)
            if chain is not None and instruction.opcode in OPCODES and _calls(computation, _ENDS):
                outer = _outermost(instruction)
                ends[outer.computation.name, chain] = outer
    return ends


def _calls(computation: Computation, target: str) -> bool:
    return any(i.custom_call_target == target for i in computation.instructions)
