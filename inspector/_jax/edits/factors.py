"""Arrays that operations repeat: the array behind broadcasts, reshapes and conversions, and its dimensions in the result.

Private JAX: `jaxlib.mlir` (operations, attributes and types of StableHLO).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from jaxlib.mlir import ir

from inspector._jax.edits.building import element_type_of, shape_of
from inspector._jax.edits.deferring import constant_behind


class Factor(NamedTuple):
    """A factor of elementwise products, or a divisor.

    Attributes:
      value: the array that is repeated.
      dimensions: for each dimension of `value` with more than one element, its dimension in the array of the products.
      divides: True for a divisor.
    """

    value: Any
    dimensions: tuple[int, ...]
    divides: bool = False


def factor_of(value: Any) -> Factor:
    """Returns the array that a value repeats, without dimensions of one element and before it is converted to floats."""
    shape, maker = shape_of(value), maker_of(value)
    here = dimensions_of(value)
    if maker is not None and maker.name == "stablehlo.broadcast_in_dim":
        order = [*ir.DenseI64ArrayAttr(maker.attributes["broadcast_dimensions"])]
        inner = factor_of(maker.operands[0])
        return Factor(inner.value, tuple(order[d] for d in inner.dimensions))
    if maker is not None and maker.name == "stablehlo.reshape":
        before = shape_of(maker.operands[0])
        kept = dimensions_of(maker.operands[0])
        if [before[d] for d in kept] == [shape[d] for d in here]:
            inner = factor_of(maker.operands[0])
            return Factor(inner.value, tuple(here[kept.index(d)] for d in inner.dimensions))
    if maker is not None and maker.name == "stablehlo.convert" and is_float(value):
        return factor_of(maker.operands[0])
    return Factor(value, here)


def dimensions_of(value: Any) -> tuple[int, ...]:
    """Returns the dimensions of an array with more than one element."""
    return tuple(d for d, size in enumerate(shape_of(value)) if size > 1)


def is_float(value: Any) -> bool:
    """Reports whether the elements of an array are real floats."""
    return isinstance(element_type_of(value), ir.FloatType)


def number_of(value: Any) -> float | None:
    """Returns the float that an array has everywhere; None if it is not one constant."""
    constant = constant_behind(value)
    if constant is None or not is_float(value):
        return None
    values: Any = ir.DenseElementsAttr(constant.attributes["value"])
    return float(values.get_splat_value().value) if values.is_splat else None


def maker_of(value: Any) -> Any | None:
    """Returns the operation that makes a value; None for an argument."""
    return None if isinstance(value.owner, ir.Block) else value.owner.operation
