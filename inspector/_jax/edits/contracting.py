"""Replaces sums of elementwise products by matrix products.

Private JAX: `jaxlib.mlir` (operations, attributes and types of StableHLO).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from jaxlib.mlir import ir


class _Factor(NamedTuple):
    """A factor of an elementwise product.

    Attributes:
      value: the array that is repeated.
      dimensions: for each dimension of `value` with more than one element, its dimension in the product.
    """

    value: Any
    dimensions: tuple[int, ...]


def contract_sums(reductions: Iterable[Any]) -> int:
    """Replaces each reduction that adds up products of two repeated arrays; returns how many were replaced."""
    return sum(_contract(reduction) for reduction in reductions)


def _contract(reduction: Any) -> bool:
    product = _without_conversions(reduction.operands[0])
    if len(reduction.operands) != 2 or _maker(product) != "stablehlo.multiply":
        return False
    left, right = (_factor(operand) for operand in product.owner.operands)
    if len({ir.RankedTensorType(each.value.type).element_type for each in (left, right)}) != 1:
        return False
    summed = {*ir.DenseI64ArrayAttr(reduction.attributes["dimensions"])}
    shared = [d for d in left.dimensions if d in right.dimensions]
    batch, contracted = ([d for d in shared if (d in summed) == is_summed] for is_summed in (False, True))
    free = [[d for d in each.dimensions if d not in shared] for each in (left, right)]
    if not contracted or summed - {*contracted} or summed & {*free[0], *free[1]}:
        return False
    places = [[[each.dimensions.index(d) for d in group] for each in (left, right)] for group in (batch, contracted)]
    (left_batch, right_batch), (left_contracted, right_contracted) = places
    numbers = ir.Attribute.parse(
        f"#stablehlo.dot<lhs_batching_dimensions = {left_batch}, rhs_batching_dimensions = {right_batch},"
        f" lhs_contracting_dimensions = {left_contracted}, rhs_contracting_dimensions = {right_contracted}>"
    )
    left, right = (_squeezed(each, reduction) for each in (left, right))
    result = ir.RankedTensorType(reduction.results[0].type)
    sizes = ir.RankedTensorType(product.type).shape
    order = [*batch, *free[0], *free[1]]
    at, where = ir.InsertionPoint(reduction), reduction.location
    made = ir.Operation.create(
        "stablehlo.dot_general", [ir.RankedTensorType.get([sizes[d] for d in order], result.element_type)],
        [left.value, right.value], {"dot_dimension_numbers": numbers}, loc=where, ip=at,
    ).results[0]  # fmt: skip
    wanted = sorted(order)
    if wanted != order:
        permutation = ir.DenseI64ArrayAttr.get([order.index(d) for d in wanted])
        type_ = ir.RankedTensorType.get([sizes[d] for d in wanted], result.element_type)
        made = ir.Operation.create(
            "stablehlo.transpose", [type_], [made], {"permutation": permutation}, loc=where, ip=at
        ).results[0]
    if made.type != result:  # dimensions of one element
        made = ir.Operation.create("stablehlo.reshape", [result], [made], loc=where, ip=at).results[0]
    reduction.results[0].replace_all_uses_with(made)
    return True


def _factor(value: Any) -> _Factor:
    """Returns the array that an operand of the product repeats, without dimensions of one element."""
    shape = ir.RankedTensorType(value.type).shape
    here = tuple(d for d, size in enumerate(shape) if size > 1)
    maker = _maker(value)
    if maker == "stablehlo.broadcast_in_dim":
        order = [*ir.DenseI64ArrayAttr(value.owner.attributes["broadcast_dimensions"])]
        inner = _factor(value.owner.operands[0])
        return _Factor(inner.value, tuple(order[d] for d in inner.dimensions))
    if maker == "stablehlo.reshape":
        operand = value.owner.operands[0]
        before = ir.RankedTensorType(operand.type).shape
        kept = [d for d, size in enumerate(before) if size > 1]
        if [before[d] for d in kept] == [shape[d] for d in here]:
            inner = _factor(operand)
            return _Factor(inner.value, tuple(here[kept.index(d)] for d in inner.dimensions))
    if maker == "stablehlo.convert":
        return _factor(value.owner.operands[0])
    return _Factor(value, here)


def _squeezed(factor: _Factor, before: Any) -> _Factor:
    """Returns a factor whose array has no dimensions of one element, made in front of an operation."""
    type_ = ir.RankedTensorType(factor.value.type)
    if len(type_.shape) == len(factor.dimensions):
        return factor
    squeezed = ir.RankedTensorType.get([size for size in type_.shape if size > 1], type_.element_type)
    made = ir.Operation.create(
        "stablehlo.reshape", [squeezed], [factor.value], loc=before.location, ip=ir.InsertionPoint(before)
    )
    return _Factor(made.results[0], factor.dimensions)


def _without_conversions(value: Any) -> Any:
    while _maker(value) == "stablehlo.convert":
        value = value.owner.operands[0]
    return value


def _maker(value: Any) -> str:
    """Returns the name of the operation that makes a value; "" for the argument of a function."""
    owner = value.owner
    return str(owner.operation.name) if isinstance(owner, (ir.Operation, ir.OpView)) else ""
