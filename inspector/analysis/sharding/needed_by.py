"""The instructions for which the partitioner reshards arrays, with the shardings of their operands and results.

The partitioner's input program has whole arrays, each with its sharding. The instructions that the partitioner inserts
have the name stack and source line of the instruction that it was partitioning.
"""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Collection
from typing import TypeAlias

from inspector.analysis.collectives.collective import Collective
from inspector.analysis.sharding.program_shardings import ArraySharding, value_sharding, value_shardings
from inspector.errors import Unavailable
from inspector.hlo.devices.mesh import Mesh
from inspector.hlo.devices.sharding_axes import spec_text
from inspector.hlo.module import Instruction, Module
from inspector.hlo.source import Frame, Origin, merged_names
from inspector.support.units import format_list

_WITHOUT_WORK = frozenset({"parameter", "constant", "tuple", "get-tuple-element", "while", "conditional", "call"})
"""Opcodes that do not compute with arrays themselves."""

_MIXING = frozenset({
    "cholesky", "concatenate", "convolution", "custom-call", "dot", "dynamic-slice", "dynamic-update-slice", "fft", "gather",
    "pad", "reduce", "reduce-window", "reverse", "scatter", "select-and-scatter", "slice", "sort", "topk", "transpose",
    "triangular-solve",
})  # fmt: skip
"""Opcodes whose result needs operand elements at other indices, so that even equally sharded arrays may be communicated."""

_RESHARDING = frozenset({"all-gather", "all-to-all", "collective-permute"})
"""Collectives that reshard an array; the others combine results."""

_MOST_NAMED = 3

_Key: TypeAlias = tuple[str, tuple[Frame, ...]]


@dataclasses.dataclass(frozen=True, slots=True)
class SplitInstruction:
    """An instruction on whole arrays in the partitioner's input.

    Attributes:
      names: names of the instruction, and of all others with the same opcode, operands and result, such as those of
        unrolled layers.
      opcode: HLO opcode.
      operands: whole arrays with their shardings, such as "f32[64,128] (data, model)".
      result: the result, in the same form.
    """

    names: tuple[str, ...]
    opcode: str
    operands: tuple[str, ...]
    result: str

    def __str__(self) -> str:
        names, taken = (format_list(list(each), most=_MOST_NAMED) for each in (self.names, self.operands))
        return f"{names}: {self.opcode} of {taken} gives {self.result}"


class SplitInstructions:
    """The instructions of the partitioner's input."""

    def __init__(self, module: Module, mesh: Mesh | None) -> None:
        """Indexes a module of whole arrays with their shardings.

        Args:
          module: `inspector.stages.passes.CompilerPasses.before_partitioning`.
          mesh: the program's mesh.
        """
        self._mesh = mesh
        self._by_key: dict[_Key, list[Instruction]] = defaultdict(list)
        for each in module.instructions():
            if each.op_name:
                self._by_key[_key(each.origin)].append(each)

    def needing(self, collective: Collective) -> tuple[SplitInstruction, ...]:
        """Returns the instructions that may need a collective: those with its name stack and line, and different shardings.

        A collective that reshards an array has the name stack of the array's user or of its producer, depending on the
        compiler.

        The result has several instructions if name stack and line are ambiguous, or if several instructions need the
        collective. It is empty if the collective has lost its name stack.
        """
        sizes = _sizes(collective)
        candidates: list[Instruction] = []
        for name in dict.fromkeys((collective.origin.op_name, *merged_names(collective.origin.op_name))):
            named = self._by_key.get((name, collective.origin.frames[:1]), []) if name else []
            if name and collective.opcode in _RESHARDING:
                unplaced = self._by_key.get((name, ()), [])  # an argument has no line
                named = [*named, *(user for each in (*named, *unplaced) for user in each.users)]
            candidates += named
        working = {each: arrays for each in dict.fromkeys(candidates) if (arrays := self._arrays(each))}
        if collective.opcode in _RESHARDING:
            fitting = [each for each in working if self._takes(each, sizes)]
        else:
            fitting = [each for each in working if len(sizes) == 1 or self._part_size(each) in sizes]
        alike: dict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
        for each in fitting or working:
            alike[each.opcode, working[each]].append(each.name)
        return tuple(
            SplitInstruction(tuple(names), opcode, arrays[:-1], arrays[-1])
            for (opcode, arrays), names in alike.items()
        )  # fmt: skip

    def _takes(self, instruction: Instruction, sizes: Collection[int]) -> bool:
        """Reports whether one device's part of any operand has one of these numbers of elements."""
        return any(self._part_size(each) in sizes for each in instruction.operands)

    def _part_size(self, instruction: Instruction) -> int:
        """Returns the number of elements of one device's part; -1 if unknown."""
        array = value_sharding(instruction, self._mesh)
        if array is None or isinstance(array.sharding, Unavailable):
            return -1
        return math.prod(array.sharding.part_shape)

    def _arrays(self, instruction: Instruction) -> tuple[str, ...]:
        """Returns the texts of operands and result; () if an elementwise operation has one sharding, or the result has none."""
        if instruction.opcode in _WITHOUT_WORK:
            return ()
        texts = [self._text(each) for each in instruction.operands if each.shape.dimensions]
        known = tuple(text for text in (*texts, self._text(instruction)) if text is not None)
        if len(known) <= len(texts) or (len({*known}) == 1 and instruction.opcode not in _MIXING):
            return ()
        return known

    def _text(self, instruction: Instruction) -> str | None:
        """Returns the arrays of a result with their shardings; None if the partitioner does not split one of them."""
        shapes = instruction.shape.leaves
        arrays = [*value_shardings(instruction, self._mesh)]
        if not shapes or len(arrays) < len(shapes):
            return None
        return format_list([f"{shape.without_layout()} {_split(a)}" for shape, a in zip(shapes, arrays, strict=True)])


def _split(array: ArraySharding) -> str:
    return array.text if isinstance(array.sharding, Unavailable) else spec_text(array.sharding.axes)


def _sizes(collective: Collective) -> frozenset[int]:
    """Returns the number of elements that one device contributes of each sharded array.

    The operands of an all-to-all are blocks of one array, so they are summed.
    """
    sizes = [math.prod(shape.dimensions) for shape in collective.operand_shapes]
    return frozenset([sum(sizes)] if collective.opcode == "all-to-all" else sizes)


def _key(origin: Origin) -> _Key:
    return origin.op_name, origin.frames[:1]
