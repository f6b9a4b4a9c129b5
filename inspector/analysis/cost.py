"""What each instruction costs, and how often it runs: XLA counts modules, this puts them together.

`hlo/single.py` makes a module of each instruction, `engines/counting.py` has XLA count them, and here
the numbers come back to the instructions. An instruction's numbers hold what it calls: a fusion's all
that is fused, a `while`'s its body and condition once. So the entry computation's instructions sum to
the module's own totals. Float rounding apart (XLA adds in single precision) they do so exactly, but for
bytes on TPUs: there the sizes of tiled arrays are those of whole tiles, as the TPU's own analysis counts
them; it also counts a whole tile for each row of a gather or slice, which this does not.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

from inspector.compilation.compiled import Cost
from inspector.errors import Unavailable
from inspector.hlo.module import Computation, Instruction, Module
from inspector.hlo.shape import Shape
from inspector.hlo.single import FLOW, FREE, Single

Counts = Mapping[str, float]
Number = float | Unavailable

_BYTES = "bytes accessed"
_POINTER_BYTES = 8
_UNTILED = 8 * 128


@dataclasses.dataclass(frozen=True, slots=True)
class InstructionCost(Cost):
    """What one execution of an instruction costs, with all that it calls.

    Attributes:
      main_memory_bytes: that part of `bytes_accessed` that lies in the main memory: on TPUs without what
        lies in vector memory.
    """

    main_memory_bytes: float | Unavailable


_NOTHING = InstructionCost(0.0, 0.0, 0.0, 0.0)


def costs(
    module: Module, singles: Sequence[Single], counts: Sequence[Counts | Unavailable] | Unavailable
) -> dict[str, InstructionCost]:
    """The cost of one execution of every instruction, by name.

    Args:
      module: the module.
      singles: `singles(module)`.
      counts: XLA's cost analysis of each, or why there is none.
    """
    given = [counts] * len(singles) if isinstance(counts, Unavailable) else counts
    by_name = {name: count for single, count in zip(singles, given, strict=True) for name in single.names}
    summed = _Sum(by_name)
    return {instruction.name: summed.of(instruction) for instruction in module.instructions()}


def total(module: Module, costs: Mapping[str, InstructionCost]) -> InstructionCost:
    """What one execution of the module costs, as XLA counts it.

    Bodies of loops count once and what is unknown as nothing, unless nothing is known at all.
    """
    counted = [costs[i.name] for i in module.entry.instructions]
    summed = _added(counted)
    unknown = next((c for c in counted if isinstance(c.flops, Unavailable)), None)
    return unknown if unknown is not None and summed == _NOTHING else summed


def uncounted(module: Module, costs: Mapping[str, InstructionCost]) -> tuple[str, ...]:
    """The instructions that run and whose operations XLA does not count, such as custom calls."""
    fused = {c.name for i in module.instructions() if i.opcode not in FLOW for c in i.called_computations}
    return tuple(
        i.name
        for i in module.instructions()
        if isinstance(costs[i.name].flops, Unavailable) and i.computation.name not in fused
    )


class _Sum:
    """Costs of instructions, each computation's total made once."""

    def __init__(self, counts: Mapping[str, Counts | Unavailable]) -> None:
        self._counts = counts
        self._totals: dict[int, InstructionCost] = {}

    def of(self, instruction: Instruction) -> InstructionCost:
        if instruction.opcode in FREE:
            return _NOTHING
        if instruction.opcode in FLOW:
            called = [self._total(computation) for computation in instruction.called_computations]
            return _largest(called) if instruction.opcode == "conditional" else _added(called)
        return _single_cost(instruction, self._counts[instruction.name])

    def _total(self, computation: Computation) -> InstructionCost:
        if computation.id not in self._totals:
            self._totals[computation.id] = _added([self.of(i) for i in computation.instructions])
        return self._totals[computation.id]


def _single_cost(instruction: Instruction, counts: Counts | Unavailable) -> InstructionCost:
    if isinstance(counts, Unavailable):
        return InstructionCost(counts, counts, counts, counts)
    if counts.get("flops", 0.0) < 0:  # how XLA says that it does not know
        unknown = Unavailable(f"XLA does not know what a call to {instruction.custom_call_target!r} costs")
        return InstructionCost(unknown, unknown, unknown, unknown)
    moved, main = _bytes(instruction, counts)
    return InstructionCost(counts.get("flops", 0.0), counts.get("transcendentals", 0.0), moved, main)


def _bytes(instruction: Instruction, counts: Counts) -> tuple[float, float]:
    """Bytes accessed, those of tiled arrays in whole tiles, and the part of them in the main memory."""
    operands = instruction.operands
    shapes = {f"{_BYTES}{n}{{}}": operand.shape for n, operand in enumerate(operands)}
    shapes[f"{_BYTES}out{{}}"] = instruction.shape
    leaves = [leaf for shape in shapes.values() for leaf in shape.leaves]
    if not any(leaf.layout and leaf.layout.tiles for leaf in leaves):  # not a TPU's
        moved_by_all = counts.get(_BYTES, 0.0)
        return moved_by_all, moved_by_all
    moved = {name: _padded(counts[name], shape) for name, shape in shapes.items() if name in counts}
    if instruction.opcode == "copy-start":  # its result has the operand in it once more
        shapes[f"{_BYTES}out{{}}"] = instruction.shape.tuple_shapes[0]
        copied = [leaf for shape in shapes.values() for leaf in shape.leaves if _in_main_memory(leaf)]
        main = float(sum(map(_tpu_bytes, copied)))
    else:
        main = sum(value * _main_part(shapes[name]) for name, value in moved.items())
    return sum(moved.values()), 0.0 if instruction.opcode == "copy-done" else main


def _main_part(shape: Shape) -> float:
    """Which part of a value lies in the main memory."""
    here = sum(_tpu_bytes(leaf) for leaf in shape.leaves if _in_main_memory(leaf))
    return here / max(1, sum(map(_tpu_bytes, shape.leaves)))


def _in_main_memory(leaf: Shape) -> bool:
    return leaf.layout is None or leaf.layout.memory_space == 0


def _padded(counted: float, shape: Shape) -> float:
    if shape.is_tuple and counted <= _POINTER_BYTES * len(shape.tuple_shapes):
        return counted  # of the table alone
    return counted * sum(map(_tpu_bytes, shape.leaves)) / max(1, shape.byte_size)


def _tpu_bytes(leaf: Shape) -> int:
    """As libtpu's cost analysis sizes an array, which gives one without tiles whole tiles of 8 x 128 all the same."""
    if leaf.layout is None or leaf.layout.tiles:
        return leaf.padded_byte_size
    return leaf.byte_size * _UNTILED // max(1, min(_UNTILED, math.prod(leaf.dimensions)))


_NUMBERS = tuple(field.name for field in dataclasses.fields(InstructionCost))


def _added(costs: Sequence[InstructionCost]) -> InstructionCost:
    return InstructionCost(*(sum(_known(getattr(c, name)) for c in costs) for name in _NUMBERS))


def _largest(costs: Sequence[InstructionCost]) -> InstructionCost:
    """XLA's way to count a conditional: each number from the branch where it is largest."""
    return InstructionCost(*(max((_known(getattr(c, name)) for c in costs), default=0.0) for name in _NUMBERS))


def _known(value: Number) -> float:
    return 0.0 if isinstance(value, Unavailable) else value
