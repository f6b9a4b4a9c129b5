"""The calls of Pallas kernels for TPUs in a program, and where their operands come from."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.analysis.findings.fetches import is_passed
from inspector.analysis.findings.subject import Subject
from inspector.compilation.kernels.costs import KERNEL
from inspector.hlo.backend_config import kernel_body
from inspector.hlo.module import Instruction

_TEXT = b"module"  # bodies of Pallas kernels are bytecode


def calls_of(subject: Subject) -> Iterator[Instruction]:
    """Yields the calls of kernels, without those that libtpu makes itself, such as an attention: their blocks are not the user's."""
    calls = map(subject.module.at, subject.module.calls_to((KERNEL,)))
    return (call for call in calls if not _is_made_by_libtpu(call))


def kernels_of_libtpu(subject: Subject) -> Iterator[Instruction]:
    """Yields the calls of kernels that libtpu made from operations of the program."""
    return filter(_is_made_by_libtpu, map(subject.module.at, subject.module.calls_to((KERNEL,))))


def _is_made_by_libtpu(call: Instruction) -> bool:
    body = kernel_body(call)
    return body is not None and body.startswith(_TEXT)


def kernel_text(subject: Subject, call: Instruction) -> str:
    """Returns the kernel of a call in words: with its line, or with XLA's name of the call if that is unknown."""
    if call.frames:
        return f"Pallas kernel{subject.at_line(call.frames)}"
    return f"Pallas kernel `{call.name.rpartition('.')[0] or call.name}`"


def origin(subject: Subject, call: Instruction, number: int) -> str:
    """Returns the name of an operand, past copies: that of an argument, or its number.

    Args:
      subject: the program.
      call: the call of a kernel.
      number: the number of the operand.
    """
    operand = call.operands[number]
    while operand.operands and (is_passed(operand) or changes_layout(operand)):
        operand = operand.operands[0]
    name = subject.argument_of(operand)
    return f"`{name}`" if name else f"operand {number}"


def changes_layout(instruction: Instruction) -> bool:
    """Reports whether an instruction is a copy with another order of the dimensions in memory."""
    if instruction.opcode != "copy":
        return False
    before, after = instruction.operands[0].shape.layout, instruction.shape.layout
    return before is not None and after is not None and before.minor_to_major != after.minor_to_major
