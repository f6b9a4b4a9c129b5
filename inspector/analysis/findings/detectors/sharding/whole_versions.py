"""The kernels that compute the new version of an array on each device as a whole, and what is gathered for them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from inspector.analysis.findings.subject import Subject
from inspector.hlo.module import Instruction

_PASSING = frozenset({"bitcast", "get-tuple-element", "copy-done", "all-gather-done"})
_MOVES = frozenset({"copy", "copy-start", "transpose", "bitcast", "reshape", "parameter"})
_GATHERS = ("all-gather", "all-gather-start")


def whole_versions(
    subject: Subject, results: Iterable[tuple[int, int]], device_count: int
) -> tuple[list[str], list[Instruction]]:
    """Returns the kernels that compute results as a whole, and the collectives that gather these results or arrays for them.

    Other kernels may use a device's part of what is gathered.

    Args:
      subject: the program.
      results: the positions of the results, with the bytes of the whole arrays.
      device_count: number of devices that could have a part each.
    """
    root, kernels, gathered, part = subject.module.entry.root, dict[Instruction, None](), list[Instruction](), 0
    for number, size in results:
        part = max(part, size // device_count)
        made = root.operands[number] if root.opcode == "tuple" else root
        for each in _makers(made):
            if each.opcode in _GATHERS:
                gathered.append(each)
            elif each.name in subject.points and each.shape.byte_size == size:
                kernels[each] = None
    return [each.name for each in kernels], [*gathered, *_gathers(kernels, part)]


def _makers(value: Instruction) -> Iterator[Instruction]:
    """Yields the kernels that move a result, and the one that computes it."""
    while value.opcode in _PASSING or _only_moves(value):
        if value.opcode not in _PASSING and value.opcode != "parameter":
            yield value
        if not value.operands:
            return
        value = value.operands[0]
    yield value


def _gathers(kernels: Collection[Instruction], part: int) -> Iterator[Instruction]:
    """Yields the collectives whose results these kernels read, and others only to compute parts of at most `part` bytes."""
    waiting, seen = [*kernels], set[Instruction]()
    while waiting:
        for operand in waiting.pop().operands:
            if operand in seen:
                continue
            seen.add(operand)
            if operand.opcode in _GATHERS:
                if all(each in kernels or _has_parts(each, part) for each in _readers(operand)):
                    yield operand
                    waiting.append(operand)  # what is gathered in a first step
            elif operand.opcode in _PASSING or _only_moves(operand):
                waiting.append(operand)


def _readers(value: Instruction) -> Iterator[Instruction]:
    """Yields the kernels that read a value, also after others moved or gathered it."""
    for user in value.users:
        if user.opcode in (*_PASSING, *_GATHERS) or _only_moves(user):
            yield from _readers(user)
        else:
            yield user


def _has_parts(kernel: Instruction, most: int) -> bool:
    return all(each.byte_size <= most for each in kernel.shape.leaves)


def _only_moves(value: Instruction) -> bool:
    inside = value.called_computations[0].instructions if value.opcode == "fusion" else (value,)
    return all(each.opcode in _MOVES for each in inside)
