"""Bytes that a fusion reads from each operand and writes, by the instructions in it that read and write them.

A fusion computes only the elements that its result needs. A gather, a slice or an in-place update needs a part of its
operand, but XLA's cost analysis counts the whole operand of gathers and scatters in a fusion. This module follows the
needed elements from the result to the parameters.
"""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Iterator, Mapping

from inspector.hlo.module import Computation, Instruction

PARTIAL = frozenset({"dynamic-slice", "dynamic-update-slice", "gather", "scatter"})
"""Opcodes that read or write a part of an operand that is selected at run time."""

_ALIKE = frozenset({"bitcast", "copy", "reshape", "reverse", "transpose"})  # moves elements only
_SOME = frozenset(
    {"broadcast", "clamp", "get-tuple-element", "pad", "select", "slice"}
)  # needs at most as many elements as are needed of the result
_SHARE = frozenset({"concatenate", "reduce"})  # needs the same share of each operand
_WHOLE = frozenset({
    "all-gather", "all-reduce", "all-to-all", "cholesky", "collective-permute", "convolution", "custom-call", "dot", "fft",
    "map", "reduce-scatter", "reduce-window", "scan", "select-and-scatter", "sort", "topk", "triangular-solve",
})  # fmt: skip
_DEEPEST = 8  # nesting depth of fusions, below which operands count as a whole

_Takers = dict[int, float]
"""Amounts by the row of the consuming instruction."""


@dataclasses.dataclass(frozen=True, slots=True)
class Touched:
    """The bytes that one execution of a fusion reads and writes.

    Attributes:
      reads: for each operand number, the bytes that instructions in the fusion read, by their rows in the module.
      writes: the bytes that instructions in the fusion write, by their rows.
    """

    reads: Mapping[int, Mapping[int, float]]
    writes: Mapping[int, float]

    @property
    def total(self) -> float:
        """Total bytes read and written."""
        return sum(sum(takers.values()) for takers in self.reads.values()) + sum(self.writes.values())

    @property
    def by_row(self) -> Mapping[int, float]:
        """Total bytes that each instruction reads or writes, by row."""
        totals: _Takers = collections.defaultdict(float)
        for takers in (*self.reads.values(), self.writes):
            for row, size in takers.items():
                totals[row] += size
        return totals


def touched(fusion: Instruction) -> Touched:
    """Computes the bytes that a fusion reads and writes.

    Args:
      fusion: an instruction that calls one computation.
    """
    (computation,) = fusion.called_computations
    makers = [_maker(result) for result in _results(computation)]
    in_place = frozenset(maker.row for maker in makers if _is_in_place(maker))
    writes: _Takers = collections.defaultdict(float)
    for maker in makers:
        writes[maker.row] += _bytes(_update(maker) if maker.row in in_place else maker)
    return Touched(_reads(computation, 1.0, in_place), writes)


def _reads(
    computation: Computation, share: float, in_place: frozenset[int] = frozenset(), depth: int = 0
) -> dict[int, _Takers]:
    """Returns the bytes read from each parameter for a share of the result's elements, by consumer."""
    needed: _Takers = collections.defaultdict(float)
    takers: dict[int, _Takers] = collections.defaultdict(lambda: collections.defaultdict(float))
    for result in _results(computation):
        needed[result.row] += _elements(result) * share
    reads: dict[int, _Takers] = {}
    for row in reversed(computation.rows):
        if not needed[row]:
            continue
        instruction = computation.module.at(row)
        count = min(needed[row], _elements(instruction))
        if instruction.opcode == "parameter":
            size = count * _bytes(instruction) / _elements(instruction)
            reads[int(instruction.proto.parameter_number)] = _shared(size, takers[row] or {row: 1.0})
            continue
        own = takers[row] if instruction.opcode in _ALIKE and takers[row] else {row: 1.0}
        for operand, amount, by in _wanted(instruction, count, in_place, depth):
            needed[operand.row] += amount
            for taker, part in _shared(amount, by or own).items():
                takers[operand.row][taker] += part
    return reads


def _wanted(
    instruction: Instruction, count: float, in_place: frozenset[int], depth: int
) -> Iterator[tuple[Instruction, float, Mapping[int, float] | None]]:
    """Yields the elements of each operand needed for `count` elements of an instruction, and their consumers.

    Consumers are None for the instruction itself.
    """
    opcode, operands, whole = instruction.opcode, instruction.operands, _elements(instruction)
    share = count / whole
    if opcode == "fusion" and depth < _DEEPEST:
        for number, by in _reads(instruction.called_computations[0], share, depth=depth + 1).items():
            operand = operands[number]
            yield operand, sum(by.values()) * _elements(operand) / max(1.0, _bytes(operand)), by
        return
    for number, operand in enumerate(operands):
        size = _elements(operand)
        if opcode in PARTIAL and number == 0:
            amount = count
            if instruction.row in in_place:
                amount = _elements(_update(instruction)) if opcode == "scatter" else 0.0
        elif opcode in PARTIAL:
            amount = size if instruction.row in in_place else size * share
        elif opcode in _SHARE or (opcode not in _WHOLE and size == whole):
            amount = size * share
        else:
            amount = min(size, count) if opcode in _SOME else size
        if amount:
            yield operand, min(size, amount), None


def _shared(amount: float, by: Mapping[int, float]) -> _Takers:
    """Splits an amount in proportion to other amounts."""
    whole = sum(by.values())
    return {row: amount * part / whole for row, part in by.items()} if whole else {}


def _results(computation: Computation) -> tuple[Instruction, ...]:
    root = computation.root
    return root.operands if root.opcode == "tuple" else (root,)


def _maker(result: Instruction) -> Instruction:
    """Returns the instruction that produces a value, looking through bitcasts."""
    while result.opcode == "bitcast":
        (result,) = result.operands
    return result


def _is_in_place(maker: Instruction) -> bool:
    """Reports whether a result is a parameter's value with some elements replaced."""
    is_update = maker.opcode in ("dynamic-update-slice", "scatter")
    return is_update and _maker(maker.operands[0]).opcode == "parameter"


def _update(instruction: Instruction) -> Instruction:
    """Returns the operand that an in-place update writes."""
    operands = instruction.operands
    return operands[1] if instruction.opcode == "dynamic-update-slice" else operands[-1]


def _bytes(instruction: Instruction) -> float:
    return float(instruction.shape.byte_size)


def _elements(instruction: Instruction) -> float:
    """Returns the number of elements of a value, or of all arrays of a tuple."""
    return float(sum(math.prod(leaf.dimensions) for leaf in instruction.shape.leaves))
