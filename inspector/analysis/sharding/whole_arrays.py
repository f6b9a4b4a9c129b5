"""Which argument or result a collective changes, and how the whole of it is split before and after.

A collective of a partitioned program has one device's part only. Where that is an argument's, or becomes a
result's, the compiler tells how the whole array lies over the mesh.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from inspector.analysis.collectives.collective import Collective
from inspector.analysis.sharding.array_sharding import Sharding
from inspector.analysis.sharding.program_shardings import ArraySharding, Shardings
from inspector.errors import Unavailable
from inspector.hlo.devices.sharding_axes import spec_text
from inspector.hlo.module import Instruction, Module
from inspector.hlo.shape import Shape

_SAME = ("convert", "copy", "copy-done", "copy-start")
"""What leaves every element at its indices."""

_Turn = tuple[int, ...]
"""Of each dimension of a value, which one of another value it is."""


@dataclasses.dataclass(frozen=True, slots=True)
class WholeArray:
    """An array whose split a collective changes.

    Attributes:
      names: "argument w", "result[0]"; both where it goes from the one to the other.
      before, after: the axes of each dimension, such as "(data, -)"; "" where the compiler does not tell.
    """

    names: tuple[str, ...]
    before: str
    after: str


class WholeArrays:
    """Those at the ends of a program."""

    def __init__(self, module: Module, shardings: Shardings) -> None:
        """Of a partitioned program."""
        self._module = module
        self._arguments: Mapping[int, ArraySharding] = {
            each.number: each for each in shardings if each.kind == "argument" and each.number is not None
        }
        self._results: Mapping[int, ArraySharding] = {
            each.number: each for each in shardings if each.kind == "result" and each.number is not None
        }

    def of(self, collective: Collective) -> WholeArray | None:
        """None where it takes no argument's part alone and gives no result's."""
        if collective.computation != self._module.entry.name or len(collective.operand_shapes) != 1:
            return None
        first = self._module.instruction(collective.name)
        last = self._module.instruction(collective.done) if collective.done else first
        given, returned = self._argument(first.operands[0]), self._result(last)
        known, before, after = [], "", ""
        if given is not None:
            array, turn = given
            known.append(array)
            before = _text(array.sharding, [turn.index(d) for d in range(len(turn))], collective.operand_shapes[0])
            if before and collective.opcode == "all-gather":
                after = _gathered(array.sharding, turn, collective)
        if returned is not None:
            array, turn = returned
            known.append(array)
            after = _text(array.sharding, turn, collective.result_shapes[0])
        return WholeArray(tuple(map(_name, known)), before, after) if before or after else None

    def _argument(self, instruction: Instruction) -> tuple[ArraySharding, _Turn] | None:
        """With the argument's dimension for each of the instruction's."""
        source, turn = _source(instruction)
        found = None if source.parameter_number is None else self._arguments.get(source.parameter_number)
        return None if found is None else (found, turn)

    def _result(self, instruction: Instruction) -> tuple[ArraySharding, _Turn] | None:
        """With the instruction's dimension for each of the result's."""
        turn = _same(instruction)
        position = 0
        while not instruction.is_root:
            if len(instruction.users) != 1:
                return None
            (user,) = instruction.users
            if user.opcode == "tuple" and user.is_root:
                places = [i for i, operand in enumerate(user.operands) if operand == instruction]
                if len(places) != 1:
                    return None
                position = places[0]
                break
            step = _turn(user)
            if step is None:
                return None
            instruction, turn = user, tuple(turn[d] for d in step)
        found = self._results.get(position)
        return None if found is None else (found, turn)


def _source(instruction: Instruction) -> tuple[Instruction, _Turn]:
    """What an instruction is, but for the order of its dimensions, with its dimension for each of the instruction's."""
    turn = _same(instruction)
    while (step := _turn(instruction)) is not None:
        instruction, turn = instruction.operands[0], tuple(step[d] for d in turn)
    return instruction, turn


def _turn(instruction: Instruction) -> _Turn | None:
    """The operand's dimension for each of the instruction's, where it has the operand's elements and no others."""
    match instruction.opcode:
        case "transpose":
            return instruction.dimensions
        case "fusion":
            (called,) = instruction.called_computations
            source, turn = _source(called.root)
            return turn if source.opcode == "parameter" and len(called.parameters) == 1 else None
        case "bitcast":
            return _of_layouts(instruction.operands[0].shape, instruction.shape)
        case opcode if opcode in _SAME:
            return _same(instruction)
        case _:
            return None


def _same(instruction: Instruction) -> _Turn:
    return tuple(range(len(instruction.shape.leaves[0].dimensions)))


def _of_layouts(before: Shape, after: Shape) -> _Turn | None:
    """Of the same bytes read otherwise: which dimension is which, where they lie in memory alike."""
    if before.layout is None or after.layout is None:
        return None
    old, new = before.layout.minor_to_major, after.layout.minor_to_major
    if [before.dimensions[d] for d in old] != [after.dimensions[d] for d in new]:
        return None
    which = dict(zip(new, old, strict=True))
    return tuple(which[d] for d in range(len(after.dimensions)))


def _text(sharding: Sharding | Unavailable, turn: Sequence[int], part: Shape) -> str:
    """The axes of each dimension; "" where a device's part would be another than it is."""
    if isinstance(sharding, Unavailable) or sharding.part_shape != tuple(part.dimensions[d] for d in turn):
        return ""
    return spec_text(sharding.axes)


def _gathered(before: Sharding | Unavailable, turn: _Turn, collective: Collective) -> str:
    """Without the axes that are gathered; "" where these are not what splits the dimension last."""
    if isinstance(before, Unavailable) or isinstance(collective.axes, Unavailable) or len(collective.dimensions) != 1:
        return ""
    dimension, over, axes = turn[collective.dimensions[0]], tuple(map(str, collective.axes)), list(before.axes)
    if not over or axes[dimension][-len(over) :] != over:
        return ""
    axes[dimension] = axes[dimension][: -len(over)]
    whole = dataclasses.replace(before, axes=tuple(axes))
    return _text(whole, [turn.index(d) for d in range(len(turn))], collective.result_shapes[0])


def _name(array: ArraySharding) -> str:
    return array.name if array.kind == "result" else f"argument {array.name}"
