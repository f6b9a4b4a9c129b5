"""The arrays of a module's values, and the arrays that must share a buffer, such as those that a loop carries.

Buffers are shared as in XLA's `HloDataflowAnalysis`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np

from inspector.hlo.module import Computation, Instruction, Module
from inspector.hlo.reading.byte_arrays import Numbers
from inspector.hlo.reading.field_numbers import TUPLE_INDEX
from inspector.hlo.shape import Shape

Index = tuple[int, ...]
Value = tuple[int, Index]  # row of an instruction, and an index into its result

UPDATING = ("dynamic-update-slice", "scatter")
"""Operations that replace a part of their first operand."""
_PASSING = frozenset({"bitcast", "opt-barrier", "domain", "add-dependency"})
_SHARING = frozenset({
    "tuple", "get-tuple-element", "while", "call", "conditional", "fusion", "copy-start", "async-start", *_PASSING, *UPDATING,
})  # fmt: skip


class Arrays:
    """The arrays of the results of instructions. They have numbers: those of one result are consecutive.

    Attributes:
      module: the module.
      sizes: bytes of each array, with padding.
      spaces: number of the memory space of each array.
    """

    def __init__(self, module: Module, rows: Numbers) -> None:
        """Numbers the arrays.

        Args:
          module: the module.
          rows: rows of the instructions, each once; among them all operands.
        """
        self.module = module
        self._codes = codes = module.columns.shapes.codes
        known = module.known_shapes
        first, counts = np.zeros(len(known), np.int64), np.zeros(len(known), np.int64)  # among the arrays of all shapes
        found = list[Shape]()
        for code in np.unique(codes[rows]).tolist():
            first[code], counts[code] = len(found), len(known[code].leaves)
            found += known[code].leaves
        self._counts = np.zeros(len(codes), np.int64)
        self._counts[rows] = counts[codes[rows]]
        self._first = np.zeros(len(codes), np.int64)
        self._first[rows] = np.cumsum(self._counts[rows]) - self._counts[rows]
        shapes = expanded(first[codes[rows]], self._counts[rows])
        self.sizes: Numbers = np.array([shape.padded_byte_size for shape in found], np.int64)[shapes]
        spaces = [shape.layout.memory_space if shape.layout else 0 for shape in found]
        self.spaces: Numbers = np.array(spaces, np.int64)[shapes]
        self._is_nested = np.array([shape.is_nested for shape in known], bool)
        self._ranges_of: dict[int, dict[Index, tuple[int, int]]] = {}
        self._indices: dict[int, list[Index]] = {}

    def __len__(self) -> int:
        return len(self.sizes)

    def of(self, row: int, index: Index = ()) -> range:
        """Returns the numbers of the arrays below an index into a result; none if it has no such element."""
        first, count = int(self._first[row]), int(self._counts[row])
        if not index or not count:
            return range(first, first + count)
        code = int(self._codes[row])
        if code not in self._ranges_of:
            self._ranges_of[code] = _ranges(self.module.known_shapes[code])
        offset, count = self._ranges_of[code].get(index, (0, 0))
        return range(first + offset, first + offset + count)

    def of_rows(self, rows: Numbers) -> tuple[Numbers, Numbers]:
        """Returns the number of arrays of each result, and the numbers of all these arrays."""
        counts = self._counts[rows]
        return counts, expanded(self._first[rows], counts)

    def single(self, rows: Numbers) -> Numbers:
        """Returns the number of the array that each result is; -1 for tuples and results without a number."""
        is_array = ~self._is_nested[self._codes[rows]] & (self._counts[rows] > 0)
        return np.where(is_array, self._first[rows], -1)

    def index(self, array: int, row: int) -> Index:
        """Returns the index of an array into the result of its instruction."""
        code = int(self._codes[row])
        if code not in self._indices:
            self._indices[code] = [index for index, _ in leaves(self.module.known_shapes[code])]
        return self._indices[code][array - int(self._first[row])]


def leaves(shape: Shape, index: Index = ()) -> Iterator[tuple[Index, Shape]]:
    """Yields the arrays of a shape with their indices."""
    if not shape.is_nested:
        yield index, shape
        return
    for n, element in enumerate(shape.tuple_shapes):
        yield from leaves(element, (*index, n))


def expanded(first: Numbers, counts: Numbers) -> Numbers:
    """Returns the numbers of consecutive ranges, from the first number and the length of each."""
    ends = np.cumsum(counts)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(first - ends + counts, counts)


def _ranges(shape: Shape) -> dict[Index, tuple[int, int]]:
    """Returns the place of the first array and the number of arrays below each index of a shape."""
    found: dict[Index, tuple[int, int]] = {}
    for place, (index, _) in enumerate(leaves(shape)):
        for length in range(len(index) + 1):
            first, count = found.get(index[:length], (place, 0))
            found[index[:length]] = first, count + 1
    return found


def buffer_numbers(arrays: Arrays, rows: Sequence[int], *, joins_donated: bool = True) -> Numbers:
    """Returns a number for each array, the same for arrays that must share a buffer.

    Args:
      arrays: the arrays.
      rows: rows of the instructions.
      joins_donated: whether a donated argument and its result are in one buffer.
    """
    module, same = arrays.module, [*range(len(arrays))]

    def root(array: int) -> int:
        while (parent := same[array]) != array:
            same[array] = same[parent]
            array = parent
        return array

    def join(one: Value, other: Value) -> None:
        for first, second in zip(arrays.of(*one), arrays.of(*other), strict=False):
            same[root(first)] = root(second)

    opcodes, updating = module.columns.opcode_texts, _updating(module)
    for row in rows:
        if opcodes[row] in _SHARING or opcodes[row].endswith("-done"):
            for one, other in _shared(module.at(row), updating):
                join(one, other)
    for entry in module.columns.module.input_output_alias.entries if joins_donated else ():
        parameter = module.entry.parameters[entry.parameter_number]
        join(
            (module.entry.root.row, tuple(entry.output_shape_index)),
            (parameter.row, tuple(entry.parameter_shape_index)),
        )
    numbers: Numbers = np.array(same, np.int64)
    while (numbers != (parents := numbers[numbers])).any():
        numbers = parents
    return numbers


def _updating(module: Module) -> Collection[int]:
    """Returns the numbers of the computations in which a part of an array is replaced."""
    columns = module.columns
    return {*columns.in_computation[columns.rows_of(UPDATING.__contains__)].tolist()}


def _shared(instruction: Instruction, updating: Collection[int]) -> Iterator[tuple[Value, Value]]:
    """Yields pairs of values that are in one buffer.

    Args:
      instruction: an instruction.
      updating: numbers of the computations in which a part of an array is replaced.
    """
    opcode, row, columns = instruction.opcode, instruction.row, instruction.module.columns
    operands = columns.operands.of(row)
    if opcode == "tuple":
        for n, operand in enumerate(operands):
            yield (row, (n,)), (operand, ())
    elif opcode == "get-tuple-element":
        yield (row, ()), (operands[0], (columns.integer(TUPLE_INDEX, row),))
    elif opcode in _PASSING or opcode in UPDATING:
        yield (row, ()), (operands[0], ())
    elif opcode == "while":
        for computation in instruction.called_computations:
            yield (row, ()), (computation.parameters[0].row, ())
            if computation.root.shape.is_tuple or not instruction.shape.is_tuple:  # not that of the condition
                yield (row, ()), (computation.root.row, ())
        yield (row, ()), (operands[0], ())
    elif opcode in ("call", "conditional"):
        yield from _called(instruction)
    elif opcode == "fusion":
        (computation,) = instruction.called_computations
        yield from _updated(instruction, computation) if computation.number in updating else ()
    elif opcode == "copy-start":
        yield (row, (1,)), (operands[0], ())
    elif opcode == "async-start":
        parameters = instruction.called_computations[0].parameters
        for n, (operand, parameter) in enumerate(zip(operands, parameters, strict=False)):
            yield (row, (0, n)), (operand, ())
            yield (parameter.row, ()), (operand, ())
    elif opcode.endswith("-done"):
        yield from _finished(instruction)


def _called(instruction: Instruction) -> Iterator[tuple[Value, Value]]:
    is_call = instruction.opcode == "call"
    for n, computation in enumerate(instruction.called_computations):
        yield (instruction.row, ()), (computation.root.row, ())
        passed = instruction.operands if is_call else instruction.operands[n + 1 : n + 2]
        for parameter, operand in zip(computation.parameters, passed, strict=False):
            yield (operand.row, ()), (parameter.row, ())


def _updated(fusion: Instruction, computation: Computation) -> Iterator[tuple[Value, Value]]:
    """Yields the results that are operands with a part replaced."""
    results = computation.root.operands if computation.root.opcode == "tuple" else (computation.root,)
    for n, result in enumerate(results):
        update = _source(result)
        buffer = _source(update.operands[0]) if update.opcode in UPDATING else None
        if buffer is not None and buffer.opcode == "parameter":
            index = (n,) if fusion.shape.is_tuple else ()
            yield (fusion.row, index), (fusion.operands[int(buffer.parameter_number or 0)].row, ())


def _source(instruction: Instruction) -> Instruction:
    while instruction.opcode == "bitcast":
        (instruction,) = instruction.operands
    return instruction


def _finished(done: Instruction) -> Iterator[tuple[Value, Value]]:
    """Yields the result of an asynchronous operation, which its start has created."""
    start = done.operands[0]
    for prefix in ((), (0,), (1,)):
        if start.shape.at(prefix) == done.shape:
            yield (done.row, ()), (start.row, prefix)
            return
