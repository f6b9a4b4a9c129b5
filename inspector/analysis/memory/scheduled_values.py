"""Live ranges of the values of a scheduled module without a buffer assignment.

The schedule determines when each value is created and when it is last used. Values that XLA keeps in one buffer in any
case, such as those that a loop carries, are one value here. XLA can also reuse the buffer of an operand that is not used
again, which is not known without the assignment. So the peak is an estimate.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from inspector.analysis.memory.live_ranges import Curve, Life, Space
from inspector.analysis.memory.timeline import Timeline, capacity
from inspector.compilation.memory import space_name
from inspector.errors import Unavailable
from inspector.hlo.buffer_assignment import flattened
from inspector.hlo.module import Instruction, Module
from inspector.hlo.shape import Shape
from inspector.platforms import Peak

Index = tuple[int, ...]
Value = tuple[int, Index]  # row of an instruction, and index of a leaf
_SMALLEST_PART = 100
"""Buffers below this part of the largest one are not joined with results of their size: their number does not change the sum."""


def is_scheduled(module: Module) -> bool:
    """Reports whether a module has a schedule."""
    return bool(module.columns.module.HasField("schedule"))


def scheduled_timeline(module: Module, platform: str, peak: Peak | Unavailable) -> Timeline:
    """Returns the live ranges of the values of a scheduled module.

    Args:
      module: a module with a schedule.
      platform: "cpu", "gpu" or "tpu", for the names of memory spaces.
      peak: the chip's figures, for the capacities.
    """
    order = [module.instruction(name) for name in flattened(module)]
    buffers = _Buffers(module, order)
    lives = tuple(buffers.lives(platform))
    names = sorted({life.space for life in lives}, key=lambda name: name != space_name(platform, 0))
    curves = {name: _curve(lives, name, len(order)) for name in names}
    schedule = tuple(instruction.name for instruction in order)
    spaces = {
        name: _space([life for life in lives if life.space == name], curves[name], schedule, capacity(name, peak))
        for name in names
    }
    return Timeline(lives, spaces, schedule, curves, module.origins(), is_estimated=True)


def buffers_of(module: Module) -> tuple[list[Buffer], int]:
    """Returns the buffers of a scheduled module, and the number of instructions that are executed in order.

    An operand whose last use computes a result of its size element by element ends before the result starts: XLA keeps both in one buffer.
    Donated arguments and their results are two buffers.
    """
    order = [module.instruction(name) for name in flattened(module)]
    joined = _Buffers(module, order, joins_donated=False)
    buffers = joined.buffers()
    least = max((each.byte_size for each in buffers.values()), default=0) // _SMALLEST_PART

    def ends(operand: Instruction, position: int) -> bool:
        buffer = buffers.get(joined.root((operand.row, ())))
        return buffer is not None and buffer.end == position and buffer.byte_size > least

    for position, instruction in enumerate(order):
        if not any(ends(operand, position) for operand in instruction.operands):
            continue
        taken = set[Index]()
        for operand, index in in_place(instruction):
            value = (instruction.row, index)
            reused, made = buffers.get(joined.root((operand.row, ()))), buffers.get(joined.root(value))
            if reused is None or made is None or reused is made or not reused.end == position == made.start:
                continue
            if reused.parameter is None:
                if index in taken:
                    continue
                taken.add(index)
            reused.end -= 1
    return [*buffers.values()], len(order)


@dataclasses.dataclass(slots=True)
class Buffer:
    """Values that share a buffer.

    Attributes:
      start, end: positions in the schedule: where it is created, and where it is last used.
      first: the first value.
      byte_size: size in bytes.
      space: number of the memory space.
      parameter: number of the argument that it holds; None for other buffers.
      outputs: numbers of the results that it holds.
      is_constant: whether it holds a constant.
    """

    start: int
    end: int
    first: Value
    byte_size: int = 0
    space: int = 0
    parameter: int | None = None
    outputs: set[int] = dataclasses.field(default_factory=set)
    is_constant: bool = False

    @property
    def kind(self) -> str:
        if self.parameter is not None:
            return "donated" if self.outputs else "argument"
        if self.outputs:
            return "output"
        return "constant" if self.is_constant else "temporary"


class _Buffers:
    """The buffers of all values in execution order."""

    def __init__(self, module: Module, order: Sequence[Instruction], *, joins_donated: bool = True) -> None:
        self._module, self._order = module, order
        self._same: dict[Value, Value] = {}
        self._by_shape: dict[int, list[tuple[Index, int, int]]] = {}
        for instruction in order:
            for one, other in _shared(instruction):
                self._join(one, other)
        for entry in module.columns.module.input_output_alias.entries if joins_donated else ():
            parameter = module.entry.parameters[entry.parameter_number]
            self._join(
                (module.entry.root.row, tuple(entry.output_shape_index)),
                (parameter.row, tuple(entry.parameter_shape_index)),
            )

    def lives(self, platform: str) -> Iterator[Life]:
        """Yields the live ranges."""
        last = len(self._order) - 1
        for number, buffer in enumerate(self.buffers().values()):
            if not buffer.byte_size:  # a token
                continue
            row, index = buffer.first
            is_temporary = buffer.kind == "temporary"
            yield Life(
                self._module.at(row).name,
                index,
                buffer.byte_size,
                buffer.start if is_temporary else 0,
                buffer.end if is_temporary else last,
                space_name(platform, buffer.space),
                buffer.kind,
                number,
                0,
                buffer.parameter,
            )

    def buffers(self) -> dict[Value, Buffer]:
        """Returns the buffers by one of their values."""
        buffers: dict[Value, Buffer] = {}
        entry = self._module.entry
        for position, instruction in enumerate(self._order):
            for index, byte_size, space in self._leaves(instruction):
                value = (instruction.row, index)
                root = self.root(value)
                buffer = buffers.get(root) or buffers.setdefault(root, Buffer(position, position, value))
                buffer.byte_size = max(buffer.byte_size, byte_size)
                buffer.space = max(buffer.space, space)
                buffer.is_constant |= instruction.opcode == "constant"
                if instruction.opcode == "parameter" and instruction.computation.is_entry:
                    buffer.parameter = int(instruction.proto.parameter_number)
                if instruction.is_root and instruction.computation.number == entry.number:
                    buffer.outputs.add(index[0] if index else 0)
            if instruction.opcode not in _NAMING:
                for operand in instruction.operands:
                    for index, _, _ in self._leaves(operand):
                        if (used := buffers.get(self.root((operand.row, index)))) is not None:
                            used.end = max(used.end, position)
        return buffers

    def _leaves(self, instruction: Instruction) -> list[tuple[Index, int, int]]:
        """Returns the index, the size and the memory space of each array of a value; equal shapes are read once."""
        known = self._by_shape.get(instruction.shape_number)
        if known is None:
            known = [
                (index, shape.padded_byte_size, shape.layout.memory_space if shape.layout else 0)
                for index, shape in leaves(instruction.shape)
            ]
            self._by_shape[instruction.shape_number] = known
        return known

    def root(self, value: Value) -> Value:
        """Returns the value that stands for all values in the buffer of a value."""
        while (parent := self._same.get(value, value)) != value:
            self._same[value] = self._same.get(parent, parent)
            value = parent
        return value

    def _join(self, one: Value, other: Value) -> None:
        first, second = self.root(one), self.root(other)
        if first != second:
            self._same[first] = second


def leaves(shape: Shape, index: Index = ()) -> Iterator[tuple[Index, Shape]]:
    """Yields the arrays of a shape with their indices."""
    if not shape.is_nested:
        yield index, shape
    for n, element in enumerate(shape.tuple_shapes):
        yield from leaves(element, (*index, n))


_NAMING = frozenset({"tuple", "get-tuple-element", "bitcast", "opt-barrier", "domain", "add-dependency", "parameter"})
_UPDATING = ("dynamic-update-slice", "scatter")
_PASSING = frozenset({"bitcast", "opt-barrier", "domain", "add-dependency"})


def _shared(instruction: Instruction) -> Iterator[tuple[Value, Value]]:
    """Yields pairs of values that are in one buffer in any case (`HloDataflowAnalysis`)."""
    operands, opcode, row = instruction.operands, instruction.opcode, instruction.row
    if opcode == "tuple":
        for n, operand in enumerate(operands):
            yield from _pairs(operand.shape, (row, (n,)), (operand.row, ()))
    elif opcode == "get-tuple-element":
        yield from _pairs(instruction.shape, (row, ()), (operands[0].row, (int(instruction.proto.tuple_index),)))
    elif opcode in _PASSING:
        yield from _pairs(instruction.shape, (row, ()), (operands[0].row, ()))
    elif opcode == "while":
        for computation in instruction.called_computations:
            yield from _pairs(instruction.shape, (row, ()), (computation.parameters[0].row, ()))
            if computation.root.shape.is_tuple or not instruction.shape.is_tuple:
                yield from _pairs(computation.root.shape, (row, ()), (computation.root.row, ()))
        yield from _pairs(instruction.shape, (row, ()), (operands[0].row, ()))
    elif opcode in ("call", "conditional"):
        yield from _called(instruction)
    elif opcode in _UPDATING:
        yield (row, ()), (operands[0].row, ())
    elif opcode == "fusion":
        yield from _updated(instruction)
    elif opcode == "copy-start":
        yield from _pairs(operands[0].shape, (row, (1,)), (operands[0].row, ()))
    elif opcode == "async-start":
        for n, (operand, parameter) in enumerate(
            zip(operands, instruction.called_computations[0].parameters, strict=False)
        ):
            yield from _pairs(operand.shape, (row, (0, n)), (operand.row, ()))
            yield from _pairs(operand.shape, (parameter.row, ()), (operand.row, ()))
    elif opcode.endswith("-done"):
        yield from _finished(instruction)


def _pairs(shape: Shape, one: Value, other: Value) -> Iterator[tuple[Value, Value]]:
    for index, _ in leaves(shape):
        yield (one[0], (*one[1], *index)), (other[0], (*other[1], *index))


def _called(instruction: Instruction) -> Iterator[tuple[Value, Value]]:
    is_call = instruction.opcode == "call"
    for n, computation in enumerate(instruction.called_computations):
        yield from _pairs(instruction.shape, (instruction.row, ()), (computation.root.row, ()))
        passed = instruction.operands if is_call else instruction.operands[n + 1 : n + 2]
        for parameter, operand in zip(computation.parameters, passed, strict=False):
            yield from _pairs(operand.shape, (operand.row, ()), (parameter.row, ()))


def _updated(fusion: Instruction) -> Iterator[tuple[Value, Value]]:
    """Yields the results that are operands with a part replaced."""
    (computation,) = fusion.called_computations
    results = computation.root.operands if computation.root.opcode == "tuple" else (computation.root,)
    for n, result in enumerate(results):
        update = _source(result)
        buffer = _source(update.operands[0]) if update.opcode in _UPDATING else None
        if buffer is not None and buffer.opcode == "parameter":
            index = (n,) if fusion.shape.is_tuple else ()
            yield (fusion.row, index), (fusion.operands[int(buffer.proto.parameter_number)].row, ())


def _source(instruction: Instruction) -> Instruction:
    while instruction.opcode == "bitcast":
        (instruction,) = instruction.operands
    return instruction


def _finished(done: Instruction) -> Iterator[tuple[Value, Value]]:
    """Yields the result of an asynchronous operation, which its start has created."""
    start = done.operands[0]
    for prefix in ((), (0,), (1,)):
        if start.shape.at(prefix) == done.shape:
            yield from _pairs(done.shape, (done.row, ()), (start.row, prefix))
            return


def _curve(lives: Sequence[Life], space: str, count: int) -> Curve:
    """Returns the bytes of live temporaries, as pairs of a position and the bytes from there on."""
    changes = np.zeros(count + 1, np.int64)
    for life in lives:
        if life.space == space and life.kind == "temporary":
            changes[life.start] += life.byte_size
            changes[life.end + 1] -= life.byte_size
    live = np.cumsum(changes[:-1]).tolist()
    return tuple(next(points) for _, points in itertools.groupby(enumerate(live), key=lambda point: point[1]))


def _space(lives: Sequence[Life], curve: Curve, schedule: Sequence[str], capacity_bytes: int | Unavailable) -> Space:
    sums: collections.Counter[str] = collections.Counter()
    for life in lives:
        sums[life.kind] += life.byte_size
    position, live = max(curve, key=lambda point: point[1], default=(0, 0))
    return Space(
        argument_bytes=sums["argument"] + sums["donated"],
        output_bytes=sums["output"] + sums["donated"],
        alias_bytes=sums["donated"],
        constant_bytes=sums["constant"],
        temp_bytes=live,
        live_bytes=live,
        peak_instruction=schedule[position] if live else "",
        capacity_bytes=capacity_bytes,
    )


_ELEMENTWISE = frozenset({
    "abs", "add", "and", "atan2", "bitcast", "cbrt", "ceil", "clamp", "compare", "convert", "copy", "cosine", "divide", "erf", "exponential",
    "exponential-minus-one", "floor", "log", "log-plus-one", "logistic", "maximum", "minimum", "multiply", "negate", "not", "or", "power",
    "remainder", "round-nearest-afz", "round-nearest-even", "rsqrt", "select", "shift-left", "shift-right-arithmetic", "shift-right-logical",
    "sign", "sine", "sqrt", "subtract", "tan", "tanh", "xor",
})  # fmt: skip


_COMPUTING = _ELEMENTWISE - {"copy", "bitcast"}


def in_place(instruction: Instruction) -> Iterator[tuple[Instruction, Index]]:
    """Yields operands that an operation may overwrite with its result, each with the index of the result: both have equal sizes."""
    if instruction.opcode != "fusion":
        if instruction.opcode in _COMPUTING:
            alike = (o for o in instruction.operands if o.shape.padded_byte_size == instruction.shape.padded_byte_size)
            yield from ((operand, ()) for operand in alike)
        return
    (computation,) = instruction.called_computations
    by_element: dict[int, int] = {}  # the parameters from which a value is computed element by element: a bit for each
    otherwise: dict[int, int] = {}
    for each in computation.instructions:
        if each.opcode == "parameter":
            by_element[each.row], otherwise[each.row] = 1 << int(each.proto.parameter_number), 0
            continue
        same = moved = 0
        for operand in each.operands:
            same |= by_element[operand.row]
            moved |= otherwise[operand.row]
        is_same = each.opcode in _ELEMENTWISE or each.opcode == "tuple"
        by_element[each.row], otherwise[each.row] = (same, moved) if is_same else (0, same | moved)
    root = computation.root
    results = root.operands if root.opcode == "tuple" else (root,)
    moved = otherwise[root.row]
    for number, result in enumerate(results):
        same = by_element[result.row] & ~moved
        for parameter, operand in enumerate(instruction.operands):
            if same >> parameter & 1 and operand.shape.padded_byte_size == result.shape.padded_byte_size:
                yield operand, (number,) if instruction.shape.is_tuple else ()
