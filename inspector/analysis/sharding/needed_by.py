"""For which instruction the partitioner changes how an array is split, and how what that takes and gives was to be split.

The program that the partitioner takes has whole arrays, each with its sharding. What it inserts carries the name stack and
the line of the instruction that it was working on.
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
"""What takes no array apart or together itself."""

_MIXING = frozenset({
    "cholesky", "concatenate", "convolution", "custom-call", "dot", "dynamic-slice", "dynamic-update-slice", "fft", "gather",
    "pad", "reduce", "reduce-window", "reverse", "scatter", "select-and-scatter", "slice", "sort", "topk", "transpose",
    "triangular-solve",
})  # fmt: skip
"""What needs elements at other indices, so that arrays that are split alike may still have to travel."""

_RESHARDING = frozenset({"all-gather", "all-to-all", "collective-permute"})
"""What splits an array anew, where others put results together."""

_MOST_NAMED = 3

_Key: TypeAlias = tuple[str, tuple[Frame, ...]]


@dataclasses.dataclass(frozen=True, slots=True)
class SplitInstruction:
    """An instruction on whole arrays, as the partitioner took it.

    Attributes:
      names: its own; of all that are alike in what follows, as unrolled layers are.
      opcode: HLO's.
      operands: the whole arrays that it takes and how each is split, such as "f32[64,128] (data, model)".
      result: likewise.
    """

    names: tuple[str, ...]
    opcode: str
    operands: tuple[str, ...]
    result: str

    def __str__(self) -> str:
        names, taken = (format_list(list(each), most=_MOST_NAMED) for each in (self.names, self.operands))
        return f"{names}: {self.opcode} of {taken} gives {self.result}"


class SplitInstructions:
    """Those of the module that the partitioner takes."""

    def __init__(self, module: Module, mesh: Mesh | None) -> None:
        """Of whole arrays with their shardings: `inspector.stages.passes.CompilerPasses.before_partitioning`."""
        self._mesh = mesh
        self._by_key: dict[_Key, list[Instruction]] = defaultdict(list)
        for each in module.instructions():
            if each.op_name:
                self._by_key[_key(each.origin)].append(each)

    def needing(self, collective: Collective) -> tuple[SplitInstruction, ...]:
        """Those that a collective may be there for: of its name stack and line, with arrays that are split in several ways.

        What splits an array anew has the name stack of what takes it or of what made it, as compilers differ.

        Several where these do not tell, or where the collective does what several instructions need; none where it has lost
        its name stack.
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
        found: dict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
        for each in fitting or working:
            found[each.opcode, working[each]].append(each.name)
        return tuple(
            SplitInstruction(tuple(names), opcode, arrays[:-1], arrays[-1])
            for (opcode, arrays), names in found.items()
        )  # fmt: skip

    def _takes(self, instruction: Instruction, sizes: Collection[int]) -> bool:
        """Reports whether a device's part of one of the operands has one of these numbers of elements."""
        return any(self._part_size(each) in sizes for each in instruction.operands)

    def _part_size(self, instruction: Instruction) -> int:
        """The elements of one device's part; -1 where it is unknown."""
        array = value_sharding(instruction, self._mesh)
        if array is None or isinstance(array.sharding, Unavailable):
            return -1
        return math.prod(array.sharding.part_shape)

    def _arrays(self, instruction: Instruction) -> tuple[str, ...]:
        """Operands and result; none where all are split alike, element by element, or one is no array."""
        if instruction.opcode in _WITHOUT_WORK:
            return ()
        texts = [self._text(each) for each in instruction.operands if each.shape.dimensions]
        known = tuple(text for text in (*texts, self._text(instruction)) if text is not None)
        if len(known) <= len(texts) or (len({*known}) == 1 and instruction.opcode not in _MIXING):
            return ()
        return known

    def _text(self, instruction: Instruction) -> str | None:
        """Each array of a result and how it is split; None where one is not the partitioner's to split."""
        shapes = instruction.shape.leaves
        arrays = [*value_shardings(instruction, self._mesh)]
        if not shapes or len(arrays) < len(shapes):
            return None
        return format_list([f"{shape.without_layout()} {_split(a)}" for shape, a in zip(shapes, arrays, strict=True)])


def _split(array: ArraySharding) -> str:
    return array.text if isinstance(array.sharding, Unavailable) else spec_text(array.sharding.axes)


def _sizes(collective: Collective) -> frozenset[int]:
    """The elements that one device puts in, of each array that is sharded: compilers cut the operand of an all-to-all in blocks."""
    sizes = [math.prod(shape.dimensions) for shape in collective.operand_shapes]
    return frozenset([sum(sizes)] if collective.opcode == "all-to-all" else sizes)


def _key(origin: Origin) -> _Key:
    return origin.op_name, origin.frames[:1]
