"""Computes variances over devices from sums of squares, which do not depend on the mean, in StableHLO modules.

The sum of (x - mean)² over N values is that of x², minus N times mean².

Private JAX: `jaxlib.mlir` (operations, attributes and types of StableHLO).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from jaxlib.mlir import ir

from inspector._jax.edits.building import Builder, adds, shape_of
from inspector._jax.edits.device_groups import device_groups
from inspector._jax.edits.factors import Factor, dimensions_of, factor_of, is_float, maker_of, number_of

_ALL_REDUCE, _REDUCE = "stablehlo.all_reduce", "stablehlo.reduce"


class _Scaled(NamedTuple):
    """An array that is repeated and multiplied by a number.

    Attributes:
      factor: the array, and its dimensions in the result.
      scale: the number.
    """

    factor: Factor
    scale: float


class _Sum(NamedTuple):
    """A sum on the device that an all-reduce adds up.

    Attributes:
      reduction: the sum.
      terms: its terms, without the number by which they are multiplied.
      scale: the number by which the terms and their sum are multiplied.
      number_of_terms: the number of terms on all devices of a group.
    """

    reduction: Any
    terms: Factor
    scale: float
    number_of_terms: int


def sum_squares(module: ir.Module, all_reduces: Iterable[Any]) -> int:
    """Changes all-reduces of squared differences from the mean of the same values; returns how many were changed."""
    return sum(_sum_squares(module, each) for each in all_reduces)


def _sum_squares(module: ir.Module, second: Any) -> bool:
    squares = _sum_of(module, second)
    difference = None if squares is None else _squared(squares.terms.value)
    if squares is None or difference is None:
        return False
    for values, mean in (difference.operands, reversed([*difference.operands])):
        scaled = _scaled(mean)
        first = maker_of(scaled.factor.value)
        sums = None if first is None or first.name != _ALL_REDUCE else _sum_of(module, first)
        if sums is not None and _is_mean(module, first, second, sums, scaled, squares, values):
            _change(second, squares, values, scaled)
            return True
    return False


def _change(second: Any, squares: _Sum, values: Any, mean: _Scaled) -> None:
    """Gives an all-reduce the squares of values, and subtracts the square of the mean."""
    build, reduced = Builder(squares.reduction), squares.reduction.operands[0]
    type_ = ir.RankedTensorType(reduced.type)
    values = build.convert(values, type_.element_type)
    scale = _scaled(reduced).scale
    square = build.create("multiply", type_, values, values)
    squares.reduction.operands[0] = square if scale == 1 else _times(build, square, scale)
    build, result = Builder.behind(second), second.results[0]
    wanted = ir.RankedTensorType(result.type)
    whole = build.convert(build.reshape(mean.factor.value, wanted.shape), wanted.element_type)
    square = build.create("multiply", wanted, whole, whole)
    square = _times(build, square, squares.scale * squares.number_of_terms * mean.scale**2)
    variance = build.create("subtract", wanted, result, square)
    result.replace_all_uses_except(variance, variance.owner.operation)


def _times(build: Builder, value: Any, number: float) -> Any:
    type_ = ir.RankedTensorType(value.type)
    numbers = ir.DenseElementsAttr.get_splat(type_, ir.FloatAttr.get(type_.element_type, number))
    return build.create("multiply", type_, value, build.create("constant", type_, value=numbers))


def _sum_of(module: ir.Module, all_reduce: Any) -> _Sum | None:
    """Returns the sum of floats that an all-reduce, and nothing else, adds up; None for others."""
    groups = device_groups(module, all_reduce)
    if groups is None or len(all_reduce.operands) != 1 or not adds(all_reduce) or not is_float(all_reduce.operands[0]):
        return None
    local = _scaled(all_reduce.operands[0])
    reduction = maker_of(local.factor.value)
    if reduction is None or reduction.name != _REDUCE or len(reduction.results) != 1 or not adds(reduction):
        return None
    kept = dimensions_of(all_reduce.operands[0])
    if local.factor.dimensions != kept:  # it is repeated
        return None
    terms = _scaled(reduction.operands[0])
    if terms.factor.dimensions != dimensions_of(reduction.operands[0]):
        return None
    count = math.prod(shape_of(reduction.operands[0])) // max(1, math.prod(shape_of(reduction.results[0])))
    return _Sum(reduction, terms.factor, local.scale * terms.scale, count * len(groups[0]))


def _is_mean(module: ir.Module, first: Any, second: Any, sums: _Sum, mean: _Scaled, squares: _Sum, values: Any) -> bool:
    """Reports whether a repeated number for each row is the mean of the row's values over the same devices.

    Args:
      module: the module.
      first: the all-reduce of the sums.
      second: that of the squares.
      sums: the sums.
      mean: the sums times a number, repeated.
      squares: the squares.
      values: the values.
    """
    summed = [*ir.DenseI64ArrayAttr(squares.reduction.attributes["dimensions"])]
    own = _scaled(values)
    return (
        device_groups(module, first) == device_groups(module, second)
        and math.isclose(sums.scale * mean.scale * sums.number_of_terms, own.scale, rel_tol=1e-3)
        and [*ir.DenseI64ArrayAttr(sums.reduction.attributes["dimensions"])] == summed
        and sums.terms == own.factor
        and shape_of(sums.reduction.operands[0]) == shape_of(values)
        and [*mean.factor.dimensions] == [d for d in dimensions_of(values) if d not in summed]
        and _is_used_once(second, squares.reduction)
    )


def _is_used_once(all_reduce: Any, reduction: Any) -> bool:
    """Reports whether only an all-reduce uses a sum."""
    value = all_reduce.operands[0]
    while (maker := maker_of(value)) is not None and sum(1 for _ in value.uses) == 1:
        if maker == reduction:
            return True
        value = next(operand for operand in maker.operands if number_of(operand) is None)
    return False


def _squared(value: Any) -> Any | None:
    """Returns the difference whose square a value is; None for others."""
    maker = maker_of(value)
    if maker is None:
        return None
    is_product = maker.name == "stablehlo.multiply" and maker.operands[0] == maker.operands[1]
    difference = maker_of(maker.operands[0]) if is_product or maker.name == "chlo.square" else None
    return difference if difference is not None and difference.name == "stablehlo.subtract" else None


def _scaled(value: Any) -> _Scaled:
    """Returns the array behind moves, conversions between floats, and products with constants."""
    scale, dimensions = 1.0, {d: d for d in range(len(shape_of(value)))}
    while True:
        factor = factor_of(value)
        value, dimensions = (
            factor.value,
            dict(zip(dimensions_of(factor.value), (dimensions[d] for d in factor.dimensions), strict=True)),
        )
        found = next(_products(value), None)
        if found is None:
            return _Scaled(Factor(value, tuple(dimensions.values())), scale)
        value, scale = found[0], scale * found[1]


def _products(value: Any) -> Iterator[tuple[Any, float]]:
    """Yields the other factor and the number, if a value is the product with a number, or the quotient by one."""
    maker = maker_of(value)
    if maker is not None and maker.name == "stablehlo.divide" and (number := number_of(maker.operands[1])):
        yield maker.operands[0], 1 / number
    elif maker is not None and maker.name == "stablehlo.multiply":
        for mine, other in ((0, 1), (1, 0)):
            if (number := number_of(maker.operands[mine])) is not None:
                yield maker.operands[other], number
