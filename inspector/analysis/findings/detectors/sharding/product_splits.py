"""The mesh axes that split the arguments of a program, the arrays of its constraints, and the results of its products."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from inspector.analysis.findings.before import Before
from inspector.analysis.findings.dataflow import Value, source
from inspector.analysis.findings.detectors.sharding.constraint_detours import is_constraint
from inspector.analysis.findings.subject import Subject
from inspector.errors import Unavailable
from inspector.hlo.devices.mesh import Mesh
from inspector.hlo.devices.sharding_axes import axes_of

Axes: TypeAlias = Sequence[Sequence[str]]
"""The mesh axes that split each dimension of an array."""


class Splits(NamedTuple):
    """The mesh axes that split arrays of the program.

    Attributes:
      sizes: number of devices along each axis.
      parameters: those of its parameters, by number.
      constraints: those of constraints, by name.
    """

    sizes: Mapping[str, int]
    parameters: Mapping[int, Axes]
    constraints: Mapping[str, Axes]

    def count(self, axes: Iterable[str]) -> int:
        """Returns the number of devices along axes."""
        return math.prod(self.sizes[axis] for axis in axes)


def splits_of(subject: Subject, before: Before) -> Splits:
    """Returns the axes that split arguments and the arrays of constraints."""
    parameters = dict[int, Axes]()
    mesh: Mesh | None = None
    for each in subject.shardings:
        if each.kind == "argument" and each.number is not None and not isinstance(each.sharding, Unavailable):
            parameters[each.number], mesh = each.sharding.axes, each.sharding.mesh
    constraints = dict[str, Axes]()
    for row in before.module.calls_to(("Sharding",)) if mesh is not None else ():
        call = before.module.at(row)
        axes = axes_of(call.proto.sharding, mesh, len(call.shape.dimensions)) if is_constraint(call) and mesh else None
        if axes is not None:
            constraints[call.name] = axes
    sizes = {} if mesh is None else dict(zip(map(str, mesh.axis_names), mesh.axis_sizes, strict=True))
    return Splits(sizes, parameters, constraints)


def axes_of_result(product: Value, dimension: int, splits: Splits) -> Sequence[str]:
    """Returns the axes that split a dimension of a product's result, by the argument or constraint that the dimension comes from."""
    instruction = product.instruction
    numbers = instruction.proto.dot_dimension_numbers
    batch = len(numbers.lhs_batch_dimensions)
    position = dimension - batch
    sides = (
        (numbers.lhs_batch_dimensions, numbers.lhs_contracting_dimensions),
        (numbers.rhs_batch_dimensions, numbers.rhs_contracting_dimensions),
    )
    if dimension < batch:
        both = (
            axes_of_value(Value(operand, product.calls), batched[dimension], splits)
            for operand, (batched, _) in zip(instruction.operands, sides, strict=True)
        )
        return next(filter(None, both), ())
    for number, (batched, contracted) in enumerate(sides):
        rank = len(instruction.operands[number].shape.dimensions)
        free = [d for d in range(rank) if d not in {*batched, *contracted}]
        if position < len(free):
            return axes_of_value(Value(instruction.operand(number), product.calls), free[position], splits)
        position -= len(free)
    return ()


def axes_of_value(value: Value, dimension: int, splits: Splits) -> Sequence[str]:
    """Returns the axes that split a dimension of a value that is an argument, or a layer of stacked arguments; () if it is unknown."""
    while True:
        if is_constraint(value.instruction):
            known = splits.constraints.get(value.instruction.name, ())
            return known[dimension] if dimension < len(known) else ()
        value = source(value)
        instruction = value.instruction
        if instruction.opcode == "parameter" and not value.calls and instruction.parameter_number is not None:
            known = splits.parameters.get(instruction.parameter_number, ())
            return known[dimension] if dimension < len(known) else ()
        if instruction.opcode == "transpose":
            dimension = instruction.dimensions[dimension]
        elif instruction.opcode == "reshape":
            before, after = instruction.operands[0].shape.dimensions, instruction.shape.dimensions
            if before[len(before) - len(after) :] != after or any(n != 1 for n in before[: len(before) - len(after)]):
                return ()
            dimension += len(before) - len(after)
        elif instruction.opcode in ("dynamic-slice", "slice"):
            if instruction.shape.dimensions[dimension] != instruction.operands[0].shape.dimensions[dimension]:
                return ()
        elif instruction.opcode != "convert":
            return ()
        value = Value(instruction.operand(0), value.calls)
