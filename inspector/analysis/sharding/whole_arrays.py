"""The arguments and results that a collective reshards, with the sharding of the whole array before and after.

A collective of a partitioned program only has one device's part of an array. If that is a part of an argument, or
becomes a part of a result, the compiler reports the sharding of the whole array.
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
"""Opcodes that keep every element at its indices."""

_Turn = tuple[int, ...]
"""A permutation: for each dimension of one value, the corresponding dimension of another."""


@dataclasses.dataclass(frozen=True, slots=True)
class WholeArray:
    """An array that a collective reshards.

    Attributes:
      names: "argument w" or "result[0]"; both if an argument becomes a result.
      before, after: axes of each dimension, such as "(data, -)"; "" if the compiler does not report them.
    """

    names: tuple[str, ...]
    before: str
    after: str


class WholeArrays:
    """The arguments and results of a partitioned program."""

    def __init__(self, module: Module, shardings: Shardings) -> None:
        """Indexes the arguments and results by number.

        Args:
          module: the partitioned program.
          shardings: its shardings.
        """
        self._module = module
        self._arguments: Mapping[int, ArraySharding] = {
            each.number: each for each in shardings if each.kind == "argument" and each.number is not None
        }
        self._results: Mapping[int, ArraySharding] = {
            each.number: each for each in shardings if each.kind == "result" and each.number is not None
        }

    def of(self, collective: Collective) -> WholeArray | None:
        """Returns the array that a collective reshards; None if it is neither an argument nor a result of the program."""
        if collective.computation != self._module.entry.name or len(collective.operand_shapes) != 1:
            return None
        first = self._module.instruction(collective.name)
        last = self._module.instruction(collective.done) if collective.done else first
        argument, returned = self._argument(first.operands[0]), self._result(last)
        known, before, after = [], "", ""
        if argument is not None:
            array, turn = argument
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
        """Returns the argument behind an instruction, with the argument's dimension for each of the instruction's."""
        source, turn = _source(instruction)
        argument = None if source.parameter_number is None else self._arguments.get(source.parameter_number)
        return None if argument is None else (argument, turn)

    def _result(self, instruction: Instruction) -> tuple[ArraySharding, _Turn] | None:
        """Returns the result that an instruction becomes, with the instruction's dimension for each of the result's."""
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
        result = self._results.get(position)
        return None if result is None else (result, turn)


def _source(instruction: Instruction) -> tuple[Instruction, _Turn]:
    """Returns the source of an instruction that only permutes dimensions, with its dimension for each of the instruction's."""
    turn = _same(instruction)
    while (step := _turn(instruction)) is not None:
        instruction, turn = instruction.operands[0], tuple(step[d] for d in turn)
    return instruction, turn


def _turn(instruction: Instruction) -> _Turn | None:
    """Returns the operand's dimension for each of the instruction's, if the instruction only permutes dimensions."""
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
    """Returns the permutation of a bitcast; None if the dimensions do not correspond in memory."""
    if before.layout is None or after.layout is None:
        return None
    old, new = before.layout.minor_to_major, after.layout.minor_to_major
    if [before.dimensions[d] for d in old] != [after.dimensions[d] for d in new]:
        return None
    which = dict(zip(new, old, strict=True))
    return tuple(which[d] for d in range(len(after.dimensions)))


def _text(sharding: Sharding | Unavailable, turn: Sequence[int], part: Shape) -> str:
    """Formats the axes of each dimension; "" if the sharding does not give the part that the device has."""
    if isinstance(sharding, Unavailable) or sharding.part_shape != tuple(part.dimensions[d] for d in turn):
        return ""
    return spec_text(sharding.axes)


def _gathered(before: Sharding | Unavailable, turn: _Turn, collective: Collective) -> str:
    """Formats the axes after an all-gather; "" if the gathered axes are not the last ones that split the dimension."""
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
