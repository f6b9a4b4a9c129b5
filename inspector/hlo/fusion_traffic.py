"""Bytes that a fusion reads from each operand and writes, by the instructions in it that read and write them.

A fusion computes only the elements that its result needs. A gather, a slice or an in-place update needs a part of its
operand, but XLA's cost analysis counts the whole operand of gathers and scatters in a fusion. This module follows the
needed elements from the result to the parameters.
"""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from inspector.hlo.module import Computation, Instruction, Module
from inspector.hlo.reading.field_numbers import PARAMETER_NUMBER
from inspector.hlo.reading.module_cache import cache_per_module

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
_INHERITING = _ALIKE | {"parameter"}  # whose consumers count, instead of the instruction itself
_NOT_ELEMENTWISE = PARTIAL | _SOME | _SHARE | _WHOLE | {"fusion"}
_DEEPEST = 8  # nesting depth of fusions, below which operands count as a whole

_Takers = dict[int, float]
"""Amounts by the row of the consuming instruction."""

_Elements = Callable[[int], float]
"""A function of a row: the number of elements of its value, or of all arrays of a tuple."""


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
        totals: _Takers = {}
        for takers in (*self.reads.values(), self.writes):
            for row, size in takers.items():
                totals[row] = totals.get(row, 0.0) + size
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
    module = computation.module
    elements, byte_sizes = _element_counts(module), _byte_sizes(module)
    opcodes, first = module.columns.opcode_texts, computation.rows.start
    operand_rows = module.columns.operands.lists(computation.rows)
    needed: _Takers = {}
    takers: dict[int, _Takers] = {}  # of parameters, and of instructions that only move elements
    for result in _results(computation):
        needed[result.row] = needed.get(result.row, 0.0) + elements(result.row) * share
    reads: dict[int, _Takers] = {}
    for row in reversed(computation.rows):
        if not (count := needed.get(row)):
            continue
        opcode, whole = opcodes[row], elements(row)
        count = min(count, whole)
        if opcode == "parameter":
            size = count * byte_sizes(row) / whole
            reads[module.columns.integer(PARAMETER_NUMBER, row)] = _shared(size, takers.get(row) or {row: 1.0})
            continue
        operands = operand_rows[row - first]
        own = (takers.get(row) if opcode in _ALIKE else None) or {row: 1.0}
        if opcode in _NOT_ELEMENTWISE:
            wanted = _wanted(module, elements, row, operands, count, in_place, depth)
            for operand, (amount, by) in zip(operands, wanted, strict=True):
                needed[operand] = needed.get(operand, 0.0) + amount
                if opcodes[operand] in _INHERITING:
                    _add(takers.setdefault(operand, {}), amount, by or own)
            continue
        for operand in operands:
            size = elements(operand)
            amount = count if size == whole else size
            needed[operand] = needed.get(operand, 0.0) + amount
            if opcodes[operand] in _INHERITING:
                _add(takers.setdefault(operand, {}), amount, own)
    return reads


def _wanted(
    module: Module,
    elements: _Elements,
    row: int,
    operands: Sequence[int],
    count: float,
    in_place: frozenset[int],
    depth: int,
) -> Iterator[tuple[float, Mapping[int, float] | None]]:
    """Yields the elements of each operand needed for `count` elements of an instruction, and their consumers.

    Consumers are None for the instruction itself.
    """
    opcode = module.columns.opcode_texts[row]
    whole = elements(row)
    share = count / whole
    if opcode == "fusion" and depth < _DEEPEST:
        reads = _reads(module.at(row).called_computations[0], share, depth=depth + 1)
        for number, operand in enumerate(operands):
            by = reads.get(number, {})
            yield sum(by.values()) * elements(operand) / max(1.0, _bytes(module.at(operand))), by
        return
    for number, operand in enumerate(operands):
        size = elements(operand)
        if opcode in PARTIAL and number == 0:
            amount = count
            if row in in_place:
                amount = elements(_update(module.at(row)).row) if opcode == "scatter" else 0.0
        elif opcode in PARTIAL:
            amount = size if row in in_place else size * share
        elif opcode in _SHARE or (opcode not in _WHOLE and size == whole):
            amount = size * share
        else:
            amount = min(size, count) if opcode in _SOME else size
        yield min(size, amount), None


def _shared(amount: float, by: Mapping[int, float]) -> _Takers:
    """Splits an amount in proportion to other amounts."""
    shared: _Takers = {}
    _add(shared, amount, by)
    return shared


def _add(takers: _Takers, amount: float, by: Mapping[int, float]) -> None:
    """Adds an amount to consumers in proportion to other amounts."""
    if len(by) == 1:  # the most common case
        ((row, part),) = by.items()
        if amount and part:
            takers[row] = takers.get(row, 0.0) + amount
        return
    whole = sum(by.values())
    if amount and whole:
        for row, part in by.items():
            takers[row] = takers.get(row, 0.0) + amount * part / whole


@cache_per_module
def _element_counts(module: Module) -> _Elements:
    counts = (sum(math.prod(leaf.dimensions) for leaf in shape.leaves) for shape in module.known_shapes)
    return _by_row(module, [*map(float, counts)])


def _by_row(module: Module, by_shape: Sequence[float]) -> Callable[[int], float]:
    return [by_shape[code] for code in module.columns.shapes.codes.tolist()].__getitem__


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
    return _byte_sizes(instruction.module)(instruction.row)


@cache_per_module
def _byte_sizes(module: Module) -> Callable[[int], float]:
    return _by_row(module, [float(shape.byte_size) for shape in module.known_shapes])
