"""Computes variances over devices from sums of squares, which do not depend on the mean, in StableHLO modules.

Private JAX: `jaxlib.mlir` (operations, attributes and types of StableHLO).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

from jaxlib.mlir import ir

from inspector._jax.edits.building import Builder, adds, element_type_of, shape_of
from inspector._jax.edits.deferring import constant_behind
from inspector._jax.edits.device_groups import device_groups

_MOVES = frozenset({"stablehlo.reshape", "stablehlo.broadcast_in_dim", "stablehlo.convert"})


class _Sum(NamedTuple):
    """A sum on the device that an all-reduce adds up.

    Attributes:
      reduction: the sum.
      scale: the number by which it is multiplied before the all-reduce.
      terms: the number of terms, on all devices of a group.
    """

    reduction: Any
    scale: float
    terms: int


def sum_squares(module: ir.Module, all_reduces: Iterable[Any]) -> int:
    """Changes all-reduces of squared differences from the mean of the same values; returns how many were changed."""
    return sum(_sum_squares(module, each) for each in all_reduces)


def _sum_squares(module: ir.Module, second: Any) -> bool:
    squares = _sum_of(module, second)
    difference = None if squares is None else _squared(squares.reduction.operands[0])
    if squares is None or difference is None:
        return False
    values, (mean, mean_scale) = difference.operands[0], _unscaled(difference.operands[1])
    first = _maker(mean)
    sums = None if first is None or first.name != "stablehlo.all_reduce" else _sum_of(module, first)
    if first is None or sums is None or not _is_mean(module, first, second, sums, mean_scale):
        return False
    dimensions = [str(each.reduction.attributes["dimensions"]) for each in (sums, squares)]
    if _unscaled(sums.reduction.operands[0]) != _unscaled(values) or dimensions[0] != dimensions[1]:
        return False
    if math.prod(shape_of(mean)) != math.prod(shape_of(second.results[0])):
        return False
    type_ = ir.RankedTensorType(values.type)
    build = Builder(squares.reduction)
    squares.reduction.operands[0] = build.create("multiply", type_, values, values)
    operations = [each.operation for each in second.block.operations]
    build, result = Builder(operations[operations.index(second) + 1], second.location), second.results[0]
    wanted = ir.RankedTensorType(result.type)
    mean = build.convert(build.reshape(mean, wanted.shape), wanted.element_type)
    factor = squares.scale * squares.terms * mean_scale**2
    number = ir.DenseElementsAttr.get_splat(wanted, ir.FloatAttr.get(wanted.element_type, factor))
    square = build.create("multiply", wanted, mean, mean)
    square = build.create("multiply", wanted, square, build.create("constant", wanted, value=number))
    variance = build.create("subtract", wanted, result, square)
    result.replace_all_uses_except(variance, variance.owner.operation)
    return True


def _sum_of(module: ir.Module, all_reduce: Any) -> _Sum | None:
    """Returns the sum of floats that an all-reduce adds up; None for others."""
    groups = device_groups(module, all_reduce)
    if groups is None or len(all_reduce.operands) != 1 or not adds(all_reduce):
        return None
    local, scale = _unscaled(all_reduce.operands[0])
    reduction = _maker(local)
    if reduction is None or reduction.name != "stablehlo.reduce" or len(reduction.results) != 1 or not adds(reduction):
        return None
    if not isinstance(element_type_of(local), ir.FloatType):
        return None
    terms = math.prod(shape_of(reduction.operands[0])) // max(1, math.prod(shape_of(local)))
    return _Sum(reduction, scale, terms * len(groups[0]))


def _is_mean(module: ir.Module, first: Any, second: Any, sums: _Sum, scale: float) -> bool:
    """Reports whether a scaled sum over the same devices is the mean of its terms."""
    same = device_groups(module, first) == device_groups(module, second)
    return same and math.isclose(sums.scale * scale * sums.terms, 1.0, rel_tol=1e-3)


def _squared(value: Any) -> Any | None:
    """Returns the difference whose square a value is; None for others."""
    maker = _maker(value)
    if maker is None:
        return None
    is_square = maker.name == "chlo.square" or (
        maker.name == "stablehlo.multiply" and maker.operands[0] == maker.operands[1]
    )
    difference = _maker(maker.operands[0]) if is_square else None
    return difference if difference is not None and difference.name == "stablehlo.subtract" else None


def _unscaled(value: Any) -> tuple[Any, float]:
    """Returns the value behind moves, conversions and products with constants, and the product of the constants."""
    scale = 1.0
    while (maker := _maker(value)) is not None:
        if maker.name in _MOVES:
            value = maker.operands[0]
            continue
        numbers = [_number(each) for each in maker.operands] if len(maker.operands) == 2 else []
        if maker.name == "stablehlo.divide" and numbers[1]:
            value, scale = maker.operands[0], scale / numbers[1]
        elif maker.name == "stablehlo.multiply" and any(number is not None for number in numbers):
            is_first = numbers[0] is not None
            value, scale = maker.operands[is_first], scale * (numbers[not is_first] or 0.0)
        else:
            break
    return value, scale


def _number(value: Any) -> float | None:
    """Returns the number that an array has everywhere; None if it is not one constant."""
    constant = constant_behind(value)
    if constant is None or not isinstance(element_type_of(value), ir.FloatType):
        return None
    values: Any = ir.DenseElementsAttr(constant.attributes["value"])
    return float(values.get_splat_value().value) if values.is_splat else None


def _maker(value: Any) -> Any | None:
    """Returns the operation that makes a value; None for an argument."""
    return None if isinstance(value.owner, ir.Block) else value.owner.operation
