"""Replaces sorts by `top_k`, where only values at one end are used.

Private JAX: `jaxlib.mlir` (operations, attributes and types of StableHLO and CHLO).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from jaxlib.mlir import ir

from inspector._jax.edits.building import Builder, integer
from inspector._jax.modules.stablehlo import zero_of


def sorts_to_top_k(sorts: Iterable[Any], k: int, *, is_last: bool, has_barrier: bool = False) -> int:
    """Replaces sorts; returns how many were replaced.

    Results keep the length of the sort. All values but `k` are zeros, which the program does not use.

    Args:
      sorts: sorts in ascending order, of values alone or with their positions.
      k: how many values are used.
      is_last: whether these are the last ones, not the first ones.
      has_barrier: whether an optimization barrier keeps slices of the results from being merged with `top_k`.
    """
    return sum(_replace(sort, k, is_last=is_last, has_barrier=has_barrier) for sort in sorts)


def _replace(sort: Any, k: int, *, is_last: bool, has_barrier: bool) -> bool:
    dimension = ir.IntegerAttr(sort.attributes["dimension"]).value
    keys = sort.operands[0]
    type_ = ir.RankedTensorType(keys.type)
    positions = [_position(each, dimension) for each in [*sort.operands][1:]]
    if not _is_ascending(sort) or not all(positions):
        return False
    order = [d for d in range(type_.rank) if d != dimension] + [dimension]
    at, where = ir.InsertionPoint(sort), sort.location
    build = Builder(sort, where)
    values = build.transpose(keys, order)
    moved = ir.RankedTensorType(values.type)
    if not is_last:
        values = build.create("negate" if _is_float(moved) else "not", moved, values)
    shape = [*moved.shape[:-1], k]
    top = ir.Operation.create(
        "chlo.top_k",
        [ir.RankedTensorType.get(shape, moved.element_type), ir.RankedTensorType.get(shape, ir.IntegerType.get_signless(32))],
        [values], {"k": integer(k)}, loc=where, ip=at,
    ).results  # fmt: skip
    if has_barrier:
        types = [each.type for each in top]
        top = ir.Operation.create("stablehlo.optimization_barrier", types, [*top], loc=where, ip=at).results
    for number, old in enumerate(sort.results):
        new = top[min(number, 1)]
        type_ = ir.RankedTensorType(new.type)
        if number and positions[number - 1] == "descending":
            last = ir.DenseElementsAttr.get_splat(type_, ir.IntegerAttr.get(type_.element_type, moved.shape[-1] - 1))
            new = build.create("subtract", type_, build.create("constant", type_, value=last), new)
        if is_last:
            new = build.create("reverse", type_, new, dimensions=ir.DenseI64ArrayAttr.get([len(type_.shape) - 1]))
        elif number == 0:
            new = build.create("negate" if _is_float(type_) else "not", type_, new)
        wanted = ir.RankedTensorType(old.type)
        new = _padded(build, new, wanted.shape[dimension] - k, is_low=is_last)
        new = build.convert(new, wanted.element_type)
        old.replace_all_uses_with(build.transpose(new, [order.index(d) for d in range(len(order))]))
    sort.erase()
    return True


def _padded(build: Builder, value: Any, count: int, *, is_low: bool) -> Any:
    """Adds zeros along the last dimension, in front or behind."""
    type_ = ir.RankedTensorType(value.type)
    element = ir.RankedTensorType.get([], type_.element_type)
    zero = ir.DenseElementsAttr.get_splat(element, zero_of(type_.element_type))
    filling = build.create("constant", element, value=zero)
    none = [0] * type_.rank
    along = [*none[:-1], count]
    return build.like(
        "pad", value, [*type_.shape[:-1], type_.shape[-1] + count], filling,
        edge_padding_low=ir.DenseI64ArrayAttr.get(along if is_low else none),
        edge_padding_high=ir.DenseI64ArrayAttr.get(none if is_low else along),
        interior_padding=ir.DenseI64ArrayAttr.get(none),
    )  # fmt: skip


def _is_float(type_: Any) -> bool:
    return isinstance(type_.element_type, ir.FloatType)


def _is_ascending(sort: Any) -> bool:
    """Reports whether a sort compares its first operand alone, and puts smaller values first."""
    block = sort.regions[0].blocks[0]
    if any(any(True for _ in argument.uses) for argument in [*block.arguments][2:]):
        return False
    compared = block.operations[len(block.operations) - 1].operands[0].owner
    if compared.name != "stablehlo.compare" or "LT" not in str(compared.attributes["comparison_direction"]):
        return False
    return [_argument(each) for each in compared.operands] == [*block.arguments][:2]


def _argument(value: Any) -> Any:
    """Returns the argument from which a comparator computes a value, past what makes equal of -0.0 and 0.0, or of NaNs."""
    while isinstance(value.owner, (ir.Operation, ir.OpView)):
        value = value.owner.operands[2 if value.owner.name == "stablehlo.select" else 0]
    return value


def _position(value: Any, dimension: int) -> Literal["", "ascending", "descending"]:
    """Returns the order of the positions along a dimension that an array has at each place; "" for another array."""
    is_reversed = False
    while isinstance(value.owner, (ir.Operation, ir.OpView)):
        made = value.owner.operation
        if made.name == "stablehlo.broadcast_in_dim":
            kept = [*ir.DenseI64ArrayAttr(made.attributes["broadcast_dimensions"])]
            if dimension not in kept:
                return ""
            dimension = kept.index(dimension)
        elif made.name == "stablehlo.reverse":
            is_reversed ^= dimension in ir.DenseI64ArrayAttr(made.attributes["dimensions"])
        elif made.name != "stablehlo.convert":
            is_iota = made.name == "stablehlo.iota"
            if not is_iota or ir.IntegerAttr(made.attributes["iota_dimension"]).value != dimension:
                return ""
            return "descending" if is_reversed else "ascending"
        value = made.operands[0]
    return ""
