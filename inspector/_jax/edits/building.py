"""Builds operations in front of another one, in StableHLO modules.

Private JAX: `jaxlib.mlir` (operations, attributes and types of StableHLO).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxlib.mlir import ir


def shape_of(value: Any) -> list[int]:
    """Returns the shape of an array."""
    return [*ir.RankedTensorType(value.type).shape]


def element_type_of(value: Any) -> Any:
    """Returns the element type of an array."""
    return ir.RankedTensorType(value.type).element_type


def adds(operation: Any) -> bool:
    """Reports whether the region of a reduction or a collective adds up two values."""
    names = [each.operation.name for each in operation.regions[0].blocks[0].operations]
    return names == ["stablehlo.add", "stablehlo.return"]


def integer(number: int) -> Any:
    """Returns a 64-bit integer attribute."""
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), number)


class Builder:
    """Builds operations in front of another one."""

    def __init__(self, anchor: Any, location: Any = None) -> None:
        """Stores the place.

        Args:
          anchor: the operation in front of which others are built.
          location: their location; by default, that of the operation.
        """
        self._place, self._location = ir.InsertionPoint(anchor), location or anchor.location

    @classmethod
    def behind(cls, operation: Any) -> Builder:
        """Returns a builder of operations right behind another one, with its location."""
        operations = [each.operation for each in operation.block.operations]
        return cls(operations[operations.index(operation) + 1], operation.location)

    def create(
        self, name: str, type_: Any, *operands: Any, attributes: Any = None, reduction: str = "", **more: Any
    ) -> Any:
        """Builds an operation of StableHLO and returns its result.

        Args:
          name: its name, without the dialect.
          type_: the type of its result.
          *operands: its operands.
          attributes: its attributes by their names.
          reduction: for a collective that reduces, the operation that combines two values, such as "stablehlo.add".
          **more: further attributes.
        """
        made = ir.Operation.create(
            f"stablehlo.{name}", results=[type_], operands=[*operands], attributes={**(attributes or {}), **more},
            regions=int(bool(reduction)), loc=self._location, ip=self._place,
        )  # fmt: skip
        if reduction:
            scalar = ir.RankedTensorType.get([], type_.element_type)
            block = made.regions[0].blocks.append(scalar, scalar, arg_locs=[self._location] * 2)
            inside = {"loc": self._location, "ip": ir.InsertionPoint(block)}
            combined = ir.Operation.create(reduction, results=[scalar], operands=[*block.arguments], **inside)
            ir.Operation.create("stablehlo.return", results=[], operands=[combined.results[0]], **inside)
        return made.results[0]

    def like(self, name: str, value: Any, shape: Sequence[int], *operands: Any, **attributes: Any) -> Any:
        """Returns the result of a new operation: an array of another shape with the element type of a value.

        Args:
          name: its name, without the dialect.
          value: its first operand.
          shape: the shape of its result.
          *operands: its other operands.
          **attributes: as for `create`.
        """
        return self.create(
            name, ir.RankedTensorType.get([*shape], element_type_of(value)), value, *operands, **attributes
        )

    def reshape(self, value: Any, shape: Sequence[int]) -> Any:
        """Returns a value in another shape."""
        return value if shape_of(value) == [*shape] else self.like("reshape", value, shape)

    def convert(self, value: Any, element_type: Any) -> Any:
        """Returns a value in another element type."""
        if element_type_of(value) == element_type:
            return value
        return self.create("convert", ir.RankedTensorType.get(shape_of(value), element_type), value)

    def transpose(self, value: Any, order: Sequence[int]) -> Any:
        """Returns a value with its dimensions in another order."""
        if [*order] == sorted(order):
            return value
        shape = [shape_of(value)[d] for d in order]
        return self.like("transpose", value, shape, permutation=ir.DenseI64ArrayAttr.get([*order]))

    def concatenate(self, values: Sequence[Any], dimension: int) -> Any:
        """Returns values one after the other along a dimension."""
        first, *rest = values
        shape = shape_of(first)
        shape[dimension] = sum(shape_of(each)[dimension] for each in values)
        return self.like("concatenate", first, shape, *rest, dimension=integer(dimension))

    def part(self, value: Any, dimension: int, start: int, end: int) -> Any:
        """Returns a slice of a value along a dimension."""
        shape, array = shape_of(value), ir.DenseI64ArrayAttr.get
        starts = [start if d == dimension else 0 for d in range(len(shape))]
        ends = [end if d == dimension else size for d, size in enumerate(shape)]
        sizes = [b - a for a, b in zip(starts, ends, strict=True)]
        return self.like(
            "slice", value, sizes, start_indices=array(starts), limit_indices=array(ends), strides=array([1] * len(shape))
        )  # fmt: skip

    def broadcast(self, scalar: Any, type_: Any) -> Any:
        """Returns an array of one value."""
        return self.create("broadcast_in_dim", type_, scalar, broadcast_dimensions=ir.DenseI64ArrayAttr.get([]))
