"""For which instruction the partitioner changes how an array is split, and how what that takes and gives was to be split.

The program that the partitioner takes has whole arrays, each with its sharding. What it inserts carries the name stack and
the line of the instruction that it was working on.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from typing import TypeAlias

from inspector.analysis.collective import Collective
from inspector.analysis.program_shardings import value_sharding
from inspector.errors import Unavailable
from inspector.hlo.mesh import Mesh
from inspector.hlo.module import Instruction, Module
from inspector.hlo.sharding_axes import spec_text
from inspector.hlo.source import Frame, Origin
from inspector.units import format_list

_WITHOUT_WORK = frozenset({"parameter", "constant", "tuple", "get-tuple-element", "while", "conditional", "call"})
"""What takes no array apart or together itself."""

_MIXING = frozenset({
    "cholesky", "concatenate", "convolution", "custom-call", "dot", "dynamic-slice", "dynamic-update-slice", "fft", "gather",
    "reduce", "reduce-window", "reverse", "scatter", "select-and-scatter", "sort", "transpose", "triangular-solve",
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

        Several where these do not tell; none where the collective has lost them, or does what several asked for.
        """
        if len(collective.operand_shapes) != 1 or not collective.origin.op_name:
            return ()
        candidates = self._by_key.get(_key(collective.origin), [])
        if collective.opcode in _RESHARDING:
            unplaced = self._by_key.get((collective.origin.op_name, ()), [])  # an argument has no line
            users = [user for each in (*candidates, *unplaced) for user in each.users]
            candidates = [*dict.fromkeys((*candidates, *users))]
            candidates = [each for each in candidates if self._takes(each, collective)] or candidates
        found: dict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
        for each in candidates:
            arrays = self._arrays(each)
            if arrays:
                found[each.opcode, arrays].append(each.name)
        return tuple(
            SplitInstruction(tuple(names), opcode, arrays[:-1], arrays[-1])
            for (opcode, arrays), names in found.items()
        )  # fmt: skip

    def _takes(self, instruction: Instruction, collective: Collective) -> bool:
        """Whether a device's part of one of the operands is what the collective takes, but for the order of dimensions."""
        part = sorted(collective.operand_shapes[0].dimensions)
        known = [value_sharding(each, self._mesh) for each in instruction.operands]
        return any(
            each is not None and not isinstance(each.sharding, Unavailable) and sorted(each.sharding.part_shape) == part
            for each in known
        )

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
        array = value_sharding(instruction, self._mesh)
        if array is None:
            return None
        how = array.text if isinstance(array.sharding, Unavailable) else spec_text(array.sharding.axes)
        return f"{instruction.shape.without_layout()} {how}"


def _key(origin: Origin) -> _Key:
    return origin.op_name, origin.frames[:1]
