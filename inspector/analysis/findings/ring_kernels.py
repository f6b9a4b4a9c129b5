"""The kernels of a ring besides its exchanges: those that put the blocks together or add them up, and those of its loop."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from inspector.analysis.cost.kernel_time import CYCLES
from inspector.analysis.findings.exchange_chains import made_by, readers_of
from inspector.analysis.findings.exchanges import Exchange
from inspector.analysis.findings.subject import Subject
from inspector.errors import Unavailable
from inspector.hlo.module import Instruction

_SUMS = frozenset({"add", "maximum", "minimum"})
_PUTTING = frozenset({
    "parameter", "constant", "bitcast", "copy", "reshape", "transpose", "broadcast", "dynamic-update-slice", "concatenate",
    "copy-start", "tuple",
})  # fmt: skip
_IN_BOUNDS = frozenset({"select", "dynamic-slice", "and", "reduce", "compare"})
"""Operations beside a `dynamic-update-slice` of `x.at[i].set(block)`: it writes what is there already if `i` is out of bounds."""
_CHUNKS = _PUTTING | _SUMS | _IN_BOUNDS | {"gather", "scatter", "slice"}
"""Operations of a ring over the chunks of an array. Its steps also take the chunks out of the array."""


def ring_kernels(
    subject: Subject, exchanges: Sequence[Exchange], is_loop_alone: bool, is_whole: bool = True
) -> Mapping[str, float]:
    """Returns the kernels that a ring needs and one collective does not, each with the part of its time, from 0 to 1.

    A kernel counts as a whole if it only combines the blocks that arrive. If it also computes something else, only the blocks that a
    sum reads count, and only where the main memory limits the kernel.

    Args:
      subject: the program.
      exchanges: the exchanges of the ring.
      is_loop_alone: whether they are in loops that do nothing else.
      is_whole: whether they send whole blocks, not chunks of an array.
    """
    module, points = subject.module, subject.points
    starts = [each.operation.holder for each in exchanges]
    arrived = {source for start in starts for source in (start, *map(made_by, start.operands))}
    found: dict[str, float] = {}
    if is_loop_alone:
        for loop in {loop for start in starts for loop in module.callers.get(start.computation.name, ())}:
            for computation in loop.called_computations:
                found |= {
                    each.name: 1.0 for each in computation.instructions if each.name in points and not _sends(each)
                }
    if not is_whole:
        found |= dict.fromkeys(_of_chunks(subject, starts), 1.0)
    for start in starts:
        for user in readers_of(start):
            if user.name in points and user.name not in found and not _sends(user):
                found[user.name] = _part(subject, user, arrived, found)
    prepared = _before(subject, found)
    if not is_whole:  # a collective that replaces its operand needs the copy of an argument too
        prepared = {name: part for name, part in prepared.items() if not _copies_argument(module.instruction(name))}
    return {name: part for name, part in (found | prepared).items() if part}


def _of_chunks(subject: Subject, starts: Sequence[Instruction]) -> Iterator[str]:
    """Yields the kernels that take the chunks which are sent, and those that add or write the chunks that arrive."""
    near = [made_by(operand) for start in starts for operand in start.operands]
    takers = [user for start in starts for user in readers_of(start)]
    near += [*takers, *(user for reader in takers if "add" in _opcodes(reader) for user in readers_of(reader))]
    for kernel in near:
        if kernel.name in subject.points and not _sends(kernel) and _opcodes(kernel) <= _CHUNKS:
            yield kernel.name


def _copies_argument(kernel: Instruction) -> bool:
    return kernel.opcode == "copy" and kernel.operands[0].parameter_number is not None


def _before(subject: Subject, found: Mapping[str, float]) -> dict[str, float]:
    """Returns the kernels that only prepare the operands of given ones: zeros and copies."""
    prepared: dict[str, float] = {}
    waiting = [subject.module.instruction(name) for name, part in found.items() if part == 1.0]
    for loop in {caller for each in waiting for caller in subject.module.callers.get(each.computation.name, ())}:
        if loop.opcode == "while":
            waiting.append(loop)
    while waiting:
        for operand in waiting.pop().operands:
            maker = made_by(operand)
            if maker.opcode == "tuple":
                waiting.append(maker)
            elif maker.name in subject.points and maker.name not in found and maker.name not in prepared:
                users = [*readers_of(maker)]
                if _only_puts(maker) and all(_is_ring(user, found, prepared) for user in users):
                    prepared[maker.name] = 1.0
                    waiting.append(maker)
    return prepared


def _is_ring(user: Instruction, found: Mapping[str, float], prepared: Mapping[str, float]) -> bool:
    """Reports whether an instruction is a kernel of the ring, or the ring's loop."""
    if user.opcode == "while":
        return any(each.name in found for called in user.called_computations for each in called.instructions)
    return user.name in prepared or found.get(user.name) == 1.0


def _part(subject: Subject, kernel: Instruction, arrived: set[Instruction], found: Mapping[str, float]) -> float:
    """Returns the part of a kernel's time that the ring takes, for a kernel that reads a block."""
    peak, point = subject.roofline.peak, subject.points[kernel.name]
    opcodes = _opcodes(kernel)
    operands = [made_by(operand) for operand in kernel.operands if operand.shape.dimensions]
    are_blocks = all(o in arrived or o.name in found or o.opcode == "parameter" for o in operands)
    if opcodes <= _PUTTING or (opcodes <= _PUTTING | _SUMS and are_blocks):
        return 1.0
    accessed = subject.accessed(kernel.name)
    if not opcodes & _SUMS or isinstance(peak, Unavailable) or not accessed or point.limited_by != "main memory":
        return 0.0
    if subject.kernel_times(peak).of(kernel).unit == CYCLES:
        return 0.0
    blocks = {operand for operand in operands if operand in arrived and operand.opcode != "parameter"}
    return min(1.0, sum(each.operands[0].shape.byte_size for each in blocks) / accessed)


def _only_puts(kernel: Instruction) -> bool:
    return _opcodes(kernel) <= _PUTTING


def _opcodes(kernel: Instruction) -> set[str]:
    """Returns the opcodes of the operations of a kernel on arrays, without those that keep an update in bounds."""
    found = {inner.opcode for inner in _arrays(kernel)}
    return found - _IN_BOUNDS if "dynamic-update-slice" in found else found


def _arrays(kernel: Instruction) -> Iterator[Instruction]:
    """Yields the instructions of a kernel that compute arrays, not scalars such as indices, also if these are slices of one element."""
    if kernel.opcode == "fusion":
        for inner in kernel.called_computations[0].instructions:
            yield from _arrays(inner)
    elif math.prod(kernel.shape.dimensions) > 1 or kernel.shape.is_tuple:
        yield kernel


def _sends(instruction: Instruction) -> bool:
    return instruction.opcode.startswith(("all-", "collective-", "reduce-scatter", "custom-call", "send", "recv"))
