"""The operands whose memory an operation may use for its result, because it computes the result element by element."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.analysis.memory.arrays import Arrays
from inspector.hlo.module import Computation, Instruction

_ELEMENTWISE = frozenset({
    "abs", "add", "and", "atan2", "bitcast", "cbrt", "ceil", "clamp", "compare", "convert", "copy", "cosine", "divide", "erf", "exponential",
    "exponential-minus-one", "floor", "log", "log-plus-one", "logistic", "maximum", "minimum", "multiply", "negate", "not", "or", "power",
    "remainder", "round-nearest-afz", "round-nearest-even", "rsqrt", "select", "shift-left", "shift-right-arithmetic", "shift-right-logical",
    "sign", "sine", "sqrt", "subtract", "tan", "tanh", "xor",
})  # fmt: skip
_COMPUTING = _ELEMENTWISE - {"copy", "bitcast"}


def overwritten(instruction: Instruction, arrays: Arrays) -> Iterator[tuple[int, int]]:
    """Yields the operands that an operation may overwrite, each with a result of the same size.

    Args:
      instruction: an instruction.
      arrays: the arrays of the module, whose numbers are yielded.
    """
    if instruction.opcode != "fusion" and instruction.opcode not in _COMPUTING:
        return
    results, operands = (
        arrays.of(instruction.row),
        map(arrays.of, instruction.module.columns.operands.of(instruction.row)),
    )
    sizes = arrays.sizes[results.start : results.stop].tolist()
    alike = [
        (result, parameter, operand.start)
        for parameter, operand in enumerate(operands)
        if len(operand) == 1
        for result, size in zip(results, sizes, strict=True)
        if arrays.sizes[operand.start] == size
    ]
    if not alike:
        return
    if instruction.opcode != "fusion":
        yield from ((operand, result) for result, _, operand in alike)
        return
    (computation,) = instruction.called_computations
    by_element = _by_element(computation)
    if len(by_element) != len(results):  # results that are tuples
        return
    for result, parameter, operand in sorted(alike):
        if by_element[result - results.start] >> parameter & 1:
            yield operand, result


def _by_element(computation: Computation) -> list[int]:
    """Returns a bit mask for each result: the parameters that it uses only element by element."""
    columns, rows = computation.module.columns, computation.rows
    by_element, otherwise = [0] * len(rows), [0] * len(rows)
    for number, row in enumerate(columns.parameters[computation.number]):
        by_element[row - rows.start] = 1 << number
    opcodes = columns.opcode_texts[rows.start : rows.stop]
    for place, (opcode, operands) in enumerate(zip(opcodes, columns.operands.lists(rows), strict=True)):
        if opcode == "parameter":
            continue
        same = moved = 0
        for operand in operands:
            same |= by_element[operand - rows.start]
            moved |= otherwise[operand - rows.start]
        is_same = opcode in _ELEMENTWISE or opcode == "tuple"
        by_element[place], otherwise[place] = (same, moved) if is_same else (0, same | moved)
    root = computation.root
    results = root.operands if root.opcode == "tuple" else (root,)
    moved = otherwise[root.row - rows.start]
    return [by_element[result.row - rows.start] & ~moved for result in results]
