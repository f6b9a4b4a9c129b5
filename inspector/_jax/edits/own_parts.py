"""Replaces gathered arrays and sums by each device's own part, in StableHLO modules.

The operations in between compute each row of a dimension alone, so that they can work on the part of a device.

Private JAX: `jaxlib.mlir` (operations, attributes and types of StableHLO).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as dialect

from inspector._jax.edits.hoisting import inline_callee

_CALL, _SLICE, _CONSTANT, _BROADCAST = (
    "func.call",
    "stablehlo.dynamic_slice",
    "stablehlo.constant",
    "stablehlo.broadcast_in_dim",
)
_BY_ELEMENT = frozenset({
    f"stablehlo.{name}"
    for name in (
        "abs", "add", "and", "cbrt", "ceil", "clamp", "compare", "convert", "cosine", "divide", "exponential", "exponential_minus_one",
        "floor", "is_finite", "log", "log_plus_one", "logistic", "maximum", "minimum", "multiply", "negate", "not", "optimization_barrier",
        "or", "power", "remainder", "round_nearest_even", "rsqrt", "select", "sign", "sine", "sqrt", "subtract", "tan", "tanh", "xor",
    )
}) | {"chlo.erf", "chlo.erfc", "chlo.lgamma", "chlo.square"}  # fmt: skip
"""Operations that combine arrays of one shape element by element."""


def keep_own_parts(module: ir.Module, collectives: Iterable[Any], scattered: Sequence[int] = ()) -> int:
    """Removes collectives and the later slices that take each device's own part.

    Args:
      module: the module.
      collectives: gathers, or sums, which are scattered instead.
      scattered: for sums, the dimension of the parts and their number.

    Returns:
      The number of collectives that were removed.
    """
    places = 0
    for each in collectives:
        if scattered:
            dimension, count = scattered
        else:
            dimension = ir.IntegerAttr(each.attributes["all_gather_dim"]).value
            before, after = (_shape(value)[dimension] for value in (each.operands[0], each.results[0]))
            count = after // before
        places += _OwnPart(module, each, dimension, count).keep()
    return places


class _OwnPart:
    """A collective with the operations between it and the slices of its rows."""

    def __init__(self, module: ir.Module, collective: Any, dimension: int, count: int) -> None:
        """Stores the collective. `_rows` has the dimension of the parts of each array that depends on it."""
        self._module, self._collective, self._count = module, collective, count
        self._rows: dict[Any, int] = {collective.results[0]: dimension}
        self._slices: list[Any] = []

    def keep(self) -> bool:
        """Computes with a device's part; returns False, without a change, if an operation needs other rows."""
        if not self._follow():
            return False
        whole = self._collective.results[0]
        computed = [(value, dimension) for value, dimension in self._rows.items() if value != whole]
        if not all(self._has_rows(value.owner.operation, dimension) for value, dimension in computed):
            return False
        for value, dimension in computed:
            self._shrink_operands(value.owner.operation, dimension)
        for value, dimension in computed:
            value.set_type(self._smaller(value, dimension))
        for each in self._slices:
            each.results[0].replace_all_uses_with(each.operands[0])
            each.erase()
        whole.replace_all_uses_with(self._part())
        self._collective.erase()
        return True

    def _part(self) -> Any:
        """Returns the own part of the collective's result."""
        collective, whole = self._collective, self._collective.results[0]
        if collective.name != "stablehlo.all_reduce":
            return collective.operands[0]
        dimension = self._rows[whole]
        place = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), dimension)
        made = ir.Operation.create(
            "stablehlo.reduce_scatter", results=[self._smaller(whole, dimension)], operands=[collective.operands[0]],
            attributes={**{each: collective.attributes[each] for each in collective.attributes}, "scatter_dimension": place},
            regions=1, loc=collective.location, ip=ir.InsertionPoint(collective),
        )  # fmt: skip
        collective.regions[0].blocks[0].append_to(made.regions[0])
        return made.results[0]

    def _follow(self) -> bool:
        waiting = [*self._rows]
        while waiting:
            value = waiting.pop()
            dimension = self._rows[value]
            while calls := [use.owner for use in value.uses if use.owner.name == _CALL]:
                inline_callee(self._module, calls[0].operation)
            for user, number in [(use.owner.operation, use.operand_number) for use in value.uses]:
                if user.name == _SLICE and number == 0 and self._takes_part(user, dimension):
                    self._slices.append(user)
                    continue
                after = _row_after(user, number, dimension)
                if after is None or self._rows.get(user.results[0], after) != after:
                    return False
                if user.results[0] not in self._rows:
                    self._rows[user.results[0]] = after
                    waiting.append(user.results[0])
        return bool(self._slices)

    def _has_rows(self, operation: Any, dimension: int) -> bool:
        """Reports whether the other operands of an operation can be made for the part: they depend on the gather, or have equal rows."""
        return all(_repeats_rows(each, dimension) for each in self._others(operation))

    def _others(self, operation: Any) -> list[Any]:
        """Returns the operands of an elementwise operation that have the shape of its result and do not depend on the gather."""
        if operation.name not in _BY_ELEMENT:
            return []
        result = _shape(operation.results[0])
        return [each for each in operation.operands if _shape(each) == result and each not in self._rows]

    def _takes_part(self, user: Any, dimension: int) -> bool:
        """Reports whether a slice has the size of a device's part, at a computed place."""
        start = user.operands[1 + dimension]
        if not isinstance(start.owner, ir.Block) and start.owner.operation.name == _CONSTANT:
            return False
        before, after = _shape(user.operands[0]), _shape(user.results[0])
        return all(
            a == (b // self._count if d == dimension else b) for d, (b, a) in enumerate(zip(before, after, strict=True))
        )

    def _smaller(self, value: Any, dimension: int) -> Any:
        shape = _shape(value)
        shape[dimension] //= self._count
        return ir.RankedTensorType.get(shape, ir.RankedTensorType(value.type).element_type)

    def _shrink_operands(self, operation: Any, dimension: int) -> None:
        """Gives the other operands of an elementwise operation, such as constants, the size of the part."""
        others = self._others(operation)
        for number, operand in enumerate(operation.operands):
            if operand not in others:
                continue
            maker, at = operand.owner.operation, ir.InsertionPoint(operation)
            smaller = self._smaller(operand, dimension)
            if maker.name == _CONSTANT:
                value = ir.DenseElementsAttr(maker.attributes["value"])
                made = ir.DenseElementsAttr.get_splat(smaller, value.get_splat_value())
                new = ir.Operation.create(_CONSTANT, [smaller], [], {"value": made}, loc=maker.location, ip=at)
            else:
                new = maker.clone(ip=at).operation
                new.results[0].set_type(smaller)
            operation.operands[number] = new.results[0]


def _repeats_rows(value: Any, dimension: int) -> bool:
    """Reports whether an array has equal rows along a dimension."""
    maker = None if isinstance(value.owner, ir.Block) else value.owner.operation
    if maker is None:
        return False
    if maker.name == _CONSTANT:
        return bool(ir.DenseElementsAttr(maker.attributes["value"]).is_splat)
    if maker.name != _BROADCAST:
        return False
    dimensions = [*ir.DenseI64ArrayAttr(maker.attributes["broadcast_dimensions"])]
    return dimension not in dimensions or _shape(maker.operands[0])[dimensions.index(dimension)] == 1


def _row_after(user: Any, number: int, dimension: int) -> int | None:
    """Returns the position of an operand's dimension in the result; None if the operation combines its rows."""
    if len(user.results) != 1 or not isinstance(user.results[0].type, ir.RankedTensorType):
        return None
    before, after = _shape(user.operands[number]), _shape(user.results[0])
    if user.name == "stablehlo.transpose":
        return [*ir.DenseI64ArrayAttr(user.attributes["permutation"])].index(dimension)
    if user.name == _BROADCAST:
        return int([*ir.DenseI64ArrayAttr(user.attributes["broadcast_dimensions"])][dimension])
    if user.name == "stablehlo.reduce":
        removed = [*ir.DenseI64ArrayAttr(user.attributes["dimensions"])]
        return None if number or dimension in removed else _left(dimension, removed)
    if user.name == "stablehlo.reshape":
        rows = math.prod(before[:dimension])
        found = [d for d, size in enumerate(after) if math.prod(after[:d]) == rows and size == before[dimension]]
        return found[0] if found else None
    if user.name == "stablehlo.dot_general":
        return _row_of_product(user, number, dimension)
    return dimension if user.name in _BY_ELEMENT and before == after else None


def _row_of_product(product: Any, number: int, dimension: int) -> int | None:
    numbers = dialect.DotDimensionNumbers(product.attributes["dot_dimension_numbers"])
    contracted = (numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions)[number]
    if numbers.lhs_batching_dimensions or dimension in contracted:
        return None
    others = len(_shape(product.operands[0])) - len(numbers.lhs_contracting_dimensions)
    return _left(dimension, contracted) + number * others


def _left(dimension: int, removed: Iterable[int]) -> int:
    """Returns the number of a dimension without others before it."""
    return dimension - sum(each < dimension for each in removed)


def _shape(value: Any) -> list[int]:
    return [*ir.RankedTensorType(value.type).shape]
