"""Background transfers of whole arrays or slices to a TPU's faster memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from inspector.hlo.module import Instruction

_PASSED = frozenset({"bitcast", "copy-done", "copy-start", "async-done", "async-start", "get-tuple-element"})
FETCHED_SLICES = "ConcatBitcast"  # libtpu puts an array together that it fetched in slices


def is_passed(instruction: Instruction) -> bool:
    """Reports whether an instruction passes its first operand on, as a whole or as the first of its slices."""
    return instruction.opcode in _PASSED or instruction.custom_call_target == FETCHED_SLICES


def fetches_for(kernels: Iterable[Instruction]) -> Iterator[str]:
    """Yields the names of the transfers that only the given kernels use: they are not needed without these."""
    waiting, only = [*kernels], set[Instruction]()
    while waiting:
        taker = waiting.pop()
        only.add(taker)
        for operand in taker.operands:
            if operand not in only and is_passed(operand) and only.issuperset(operand.users):
                waiting.append(operand)
                if operand.opcode == "copy-start":
                    yield operand.name
                elif operand.opcode == "async-start":
                    yield operand.called_computations[0].root.name
