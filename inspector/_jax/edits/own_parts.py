"""Replaces gathered arrays and sums by each device's own part, in StableHLO modules.

The operations in between compute each row of a dimension alone, so that they can work on the part of a device.

Private JAX: `jaxlib.mlir` (operations, attributes and types of StableHLO).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as dialect

from inspector._jax.edits.building import Builder, integer, shape_of
from inspector._jax.edits.device_groups import device_groups
from inspector._jax.edits.hoisting import inline_users

_SLICE, _CONSTANT, _BROADCAST, _IOTA = (
    "stablehlo.dynamic_slice",
    "stablehlo.constant",
    "stablehlo.broadcast_in_dim",
    "stablehlo.iota",
)
_OPERATION_AND_RETURN = 2
_MOST_FOLLOWED = 500
_BY_ELEMENT = frozenset({
    f"stablehlo.{name}"
    for name in (
        "abs", "add", "and", "cbrt", "ceil", "clamp", "compare", "convert", "cosine", "divide", "exponential", "exponential_minus_one",
        "floor", "is_finite", "log", "log_plus_one", "logistic", "maximum", "minimum", "multiply", "negate", "not", "optimization_barrier",
        "or", "power", "remainder", "round_nearest_even", "rsqrt", "select", "sign", "sine", "sqrt", "subtract", "tan", "tanh", "xor",
    )
}) | {"chlo.erf", "chlo.erfc", "chlo.lgamma", "chlo.square"}  # fmt: skip
"""Operations that combine arrays of one shape element by element."""


def keep_own_part(module: ir.Module, collective: Any, scattered: Sequence[int] = ()) -> bool:
    """Removes a collective and the later slices that take each device's own part.

    Args:
      module: the module.
      collective: a gather, or a sum, which is scattered instead.
      scattered: the dimension of the parts and their number, for a sum, or a gather along another dimension.

    Returns:
      False, without a change of values, if other parts are needed too.
    """
    dimension, count = scattered or _gathered(collective)
    return _OwnPart(module, collective, dimension, count).keep()


def reduce_parts(module: ir.Module, gather: Any) -> bool:
    """Removes a gather whose result is only reduced along the gathered dimension. Each device reduces its part, and an all-reduce follows.

    Returns:
      False, without a change of values, if other parts are needed too.
    """
    return _ReducedParts(module, gather, *_gathered(gather)).keep()


def _gathered(gather: Any) -> tuple[int, int]:
    """Returns the dimension of a gather, and the number of parts."""
    dimension = int(ir.IntegerAttr(gather.attributes["all_gather_dim"]).value)
    before, after = (shape_of(value)[dimension] for value in (gather.operands[0], gather.results[0]))
    return dimension, after // before


class _Rows:
    """A collective whose result has a dimension of parts, with the operations that compute each row along it independently."""

    def __init__(self, module: ir.Module, collective: Any, dimension: int, count: int) -> None:
        """Stores the collective. `_rows` has the dimension of the parts of each array that depends on it."""
        self._module, self._collective, self._count = module, collective, count
        self._groups = device_groups(module, collective)
        self._followed = 0
        self._rows: dict[Any, int] = {collective.results[0]: dimension}

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
        part = self._part()
        self._end()
        whole.replace_all_uses_with(part)
        self._collective.erase()
        return True

    def _takes(self, user: Any, number: int, dimension: int) -> bool:
        """Reports whether an operation needs only the own part of an operand. It is then one of the ends."""
        raise NotImplementedError

    def _end(self) -> None:
        """Changes the ends."""
        raise NotImplementedError

    def _part(self) -> Any:
        """Returns the own part of the collective's result."""
        return self._collective.operands[0]

    def _follow(self) -> bool:
        """Returns False if an operation needs other rows, or if there is no end."""
        waiting, has_end = [*self._rows], False
        while waiting:
            value = waiting.pop()
            dimension = self._rows[value]
            inline_users(self._module, value)
            for user, number in [(use.owner.operation, use.operand_number) for use in value.uses]:
                if self._takes(user, number, dimension):
                    has_end = True
                    continue
                after = _row_after(user, number, dimension)
                if after is None or self._rows.get(user.results[0], after) != after:
                    return False
                if user.results[0] not in self._rows:
                    self._rows[user.results[0]] = after
                    waiting.append(user.results[0])
        return has_end

    def _has_rows(self, operation: Any, dimension: int) -> bool:
        """Reports whether the other operands of an operation can be made for the part: they depend on the collective, or can be computed for it."""
        return all(self._can_shrink(each, dimension) for each in self._others(operation))

    def _others(self, operation: Any) -> list[Any]:
        """Returns the operands of an elementwise operation that have the shape of its result and do not depend on the collective."""
        if operation.name not in _BY_ELEMENT:
            return []
        result = shape_of(operation.results[0])
        return [each for each in operation.operands if shape_of(each) == result and each not in self._rows]

    def _smaller(self, value: Any, dimension: int) -> Any:
        shape = shape_of(value)
        shape[dimension] //= self._count
        return ir.RankedTensorType.get(shape, ir.RankedTensorType(value.type).element_type)

    def _shrink_operands(self, operation: Any, dimension: int) -> None:
        """Gives the other operands of an elementwise operation, such as constants, the size of the part."""
        others = self._others(operation)
        for number, operand in enumerate(operation.operands):
            if operand in others:
                operation.operands[number] = self._shrunk(operand, dimension, operation)

    def _can_shrink(self, value: Any, dimension: int) -> bool:
        """Reports whether an array, such as a constant or positions, can be computed for the part along a dimension.

        A value that is used several times is computed as often, so that only few are followed.
        """
        self._followed += 1
        maker = None if isinstance(value.owner, ir.Block) else value.owner.operation
        if maker is None or self._followed > _MOST_FOLLOWED:
            return False
        if maker.name == _CONSTANT:
            return bool(ir.DenseElementsAttr(maker.attributes["value"]).is_splat)
        if maker.name == _IOTA:
            return self._groups is not None
        if maker.name in _BY_ELEMENT:
            result = shape_of(maker.results[0])
            return all(shape_of(each) != result or self._can_shrink(each, dimension) for each in maker.operands)
        if maker.name != _BROADCAST:
            return False
        at = _place_in_operand(maker, dimension)
        return at is None or self._can_shrink(maker.operands[0], at)

    def _shrunk(self, value: Any, dimension: int, before: Any) -> Any:
        """Returns such an array for the part, computed in front of an operation."""
        maker, smaller = value.owner.operation, self._smaller(value, dimension)
        if maker.name == _CONSTANT:
            known = ir.DenseElementsAttr(maker.attributes["value"])
            splat = ir.DenseElementsAttr.get_splat(smaller, known.get_splat_value())
            return Builder(before, maker.location).create("constant", smaller, value=splat)
        inner = {}
        if maker.name in _BY_ELEMENT:
            result = shape_of(maker.results[0])
            inner = {n: dimension for n, each in enumerate(maker.operands) if shape_of(each) == result}
        elif maker.name == _BROADCAST and (at := _place_in_operand(maker, dimension)) is not None:
            inner = {0: at}
        operands = {n: self._shrunk(maker.operands[n], at, before) for n, at in inner.items()}
        made = maker.clone(ip=ir.InsertionPoint(before)).operation
        made.results[0].set_type(smaller)
        for number, operand in operands.items():
            made.operands[number] = operand
        if maker.name != _IOTA or ir.IntegerAttr(maker.attributes["iota_dimension"]).value != dimension:
            return made.results[0]
        build = Builder(before)
        first = build.broadcast(self._first_row(build, shape_of(value)[dimension], smaller.element_type), smaller)
        return build.create("add", smaller, made.results[0], first)

    def _first_row(self, build: Builder, size: int, element_type: Any) -> Any:
        """Returns the position of the own part's first row in a dimension of some size, as a scalar."""
        groups = np.array(self._groups)
        places = np.zeros(groups.size, np.int32)
        for group in groups:
            places[group] = np.arange(len(group), dtype=np.int32)
        integer = ir.IntegerType.get_signless(32)
        scalar, one = ir.RankedTensorType.get([], integer), ir.RankedTensorType.get([1], integer)
        rows: Any = places * np.int32(size // self._count)
        table = ir.DenseElementsAttr.get(rows)
        numbers = build.create("constant", table.type, value=table)
        unsigned = ir.RankedTensorType.get([], ir.IntegerType.get_unsigned(32))
        own = build.create("convert", scalar, build.create("partition_id", unsigned))
        row = build.create("dynamic_slice", one, numbers, own, slice_sizes=ir.DenseI64ArrayAttr.get([1]))
        return build.create("convert", ir.RankedTensorType.get([], element_type), build.create("reshape", scalar, row))


class _OwnPart(_Rows):
    """A collective after which each device takes its own rows."""

    def __init__(self, module: ir.Module, collective: Any, dimension: int, count: int) -> None:
        """Arguments as for `_Rows`."""
        super().__init__(module, collective, dimension, count)
        self._slices: list[Any] = []

    def _takes(self, user: Any, number: int, dimension: int) -> bool:
        """Reports whether a slice has the size of a device's part, at a computed place."""
        if user.name != _SLICE or number != 0:
            return False
        start = user.operands[1 + dimension]
        if not isinstance(start.owner, ir.Block) and start.owner.operation.name == _CONSTANT:
            return False
        before, after = shape_of(user.operands[0]), shape_of(user.results[0])
        sizes = [size // self._count if d == dimension else size for d, size in enumerate(before)]
        if after == sizes:
            self._slices.append(user)
        return after == sizes

    def _end(self) -> None:
        for each in self._slices:
            each.results[0].replace_all_uses_with(each.operands[0])
            each.erase()

    def _part(self) -> Any:
        collective, whole = self._collective, self._collective.results[0]
        dimension = self._rows[whole]
        if collective.name != "stablehlo.all_reduce":
            gathered, _ = _gathered(collective)
            return collective.operands[0] if gathered == dimension else self._exchanged(gathered, dimension)
        place = integer(dimension)
        made = ir.Operation.create(
            "stablehlo.reduce_scatter", results=[self._smaller(whole, dimension)], operands=[collective.operands[0]],
            attributes={**{each: collective.attributes[each] for each in collective.attributes}, "scatter_dimension": place},
            regions=1, loc=collective.location, ip=ir.InsertionPoint(collective),
        )  # fmt: skip
        collective.regions[0].blocks[0].append_to(made.regions[0])
        return made.results[0]

    def _exchanged(self, gathered: int, dimension: int) -> Any:
        """Returns the own part along another dimension than the gathered one: each device sends the others theirs."""
        collective, kept = self._collective, ("replica_groups", "channel_handle")
        return Builder(collective).create(
            "all_to_all", self._smaller(collective.results[0], dimension), collective.operands[0],
            attributes={name: collective.attributes[name] for name in kept if name in collective.attributes},
            split_dimension=integer(dimension), concat_dimension=integer(gathered), split_count=integer(self._count),
        )  # fmt: skip


class _ReducedParts(_Rows):
    """A gather after which everything reduces the rows, or takes one at an index."""

    def __init__(self, module: ir.Module, collective: Any, dimension: int, count: int) -> None:
        """Arguments as for `_Rows`."""
        super().__init__(module, collective, dimension, count)
        self._reductions: list[Any] = []
        self._picks: list[tuple[Any, int]] = []

    def _takes(self, user: Any, number: int, dimension: int) -> bool:
        if user.name == "stablehlo.reduce" and number == 0 and len(user.results) == 1:
            if dimension not in [*ir.DenseI64ArrayAttr(user.attributes["dimensions"])] or not _begins_with_identity(
                user
            ):
                return False
            if user not in self._reductions:
                self._reductions.append(user)
            return True
        if user.name == "stablehlo.gather" and number == 0 and self._groups is not None and _picks_one(user, dimension):
            self._picks.append((user, dimension))
            return True
        return False

    def _end(self) -> None:
        for each in self._reductions:
            self._combine(each, _combining(each))
        for pick, dimension in self._picks:
            self._pick(pick, dimension)

    def _combine(self, made: Any, opcode: str) -> None:
        """Combines a result of all devices."""
        collective, result = self._collective, made.results[0]
        peers = {n: collective.attributes[n] for n in collective.attributes if n != "all_gather_dim"}
        combined = Builder.behind(made).like("all_reduce", result, shape_of(result), attributes=peers, reduction=opcode)
        result.replace_all_uses_except(combined, combined.owner.operation)

    def _pick(self, pick: Any, dimension: int) -> None:
        """Takes the value at an index on the device that has it, and adds zeros of the others."""
        indices, build = pick.operands[1], Builder(pick)
        size, type_ = shape_of(pick.operands[0])[dimension], ir.RankedTensorType(indices.type)
        is_whole = pick.operands[0] == self._collective.results[0]  # the others have their new types already
        whole = size if is_whole else size * self._count
        first = build.broadcast(self._first_row(build, whole, type_.element_type), type_)
        scalar = ir.RankedTensorType.get([], type_.element_type)
        least, last, most = (
            build.create(
                "constant",
                scalar,
                value=ir.DenseElementsAttr.get_splat(scalar, ir.IntegerAttr.get(type_.element_type, n)),
            )
            for n in (0, whole - 1, whole // self._count - 1)
        )
        valid = build.create("clamp", type_, least, indices, last)  # as StableHLO does
        local = build.create("subtract", type_, valid, first)
        inside = build.create("clamp", type_, least, local, most)
        boolean = ir.IntegerType.get_signless(1)
        is_own = build.create(
            "compare", ir.RankedTensorType.get(type_.shape, boolean), local, inside,
            comparison_direction=ir.Attribute.parse("#stablehlo<comparison_direction EQ>"),
        )  # fmt: skip
        result = ir.RankedTensorType(pick.results[0].type)
        own = pick.clone(ip=ir.InsertionPoint(pick)).operation
        own.operands[1] = inside
        mask = build.create("reshape", ir.RankedTensorType.get(result.shape, boolean), is_own)
        zero = build.create(
            "constant", result, value=ir.DenseElementsAttr.get_splat(result, ir.FloatAttr.get(result.element_type, 0.0))
        )
        chosen = build.create("select", result, mask, own.results[0], zero)
        pick.results[0].replace_all_uses_with(chosen)
        self._combine(chosen.owner.operation, "stablehlo.add")
        pick.erase()


def _combining(reduction: Any) -> str:
    """Returns the operation with which a reduction combines two values; "" if it is not one alone."""
    operations = [each.operation for each in reduction.regions[0].blocks[0].operations]
    return str(operations[0].name) if len(operations) == _OPERATION_AND_RETURN else ""


def _begins_with_identity(reduction: Any) -> bool:
    """Reports whether a reduction begins with a constant that changes nothing, so that several may begin with it."""
    start = reduction.operands[1]
    maker = None if isinstance(start.owner, ir.Block) else start.owner.operation
    if maker is None or maker.name != _CONSTANT:
        return False
    known = ir.DenseElementsAttr(maker.attributes["value"])
    value: Any = known.get_splat_value()
    type_ = ir.RankedTensorType(start.type).element_type
    is_float, number = isinstance(type_, ir.FloatType), value.value
    width = ir.IntegerType(type_).width if isinstance(type_, ir.IntegerType) else 0
    identities = {
        "stablehlo.add": (0,),
        "stablehlo.maximum": (-math.inf,) if is_float else (-(1 << max(0, width - 1)), 0 if width == 1 else -math.inf),
        "stablehlo.minimum": (math.inf,) if is_float else ((1 << max(0, width - 1)) - 1,),
        "stablehlo.or": (0,),
        "stablehlo.and": (1, -1),
    }
    return number in identities.get(_combining(reduction), ())


def _picks_one(gather: Any, dimension: int) -> bool:
    """Reports whether a gather takes one float along a dimension for each index, which is a number of that dimension."""
    numbers = dialect.GatherDimensionNumbers(gather.attributes["dimension_numbers"])
    indices, result = ir.RankedTensorType(gather.operands[1].type), ir.RankedTensorType(gather.results[0].type)
    return (
        [*numbers.start_index_map] == [dimension]
        and not numbers.offset_dims
        and math.prod(indices.shape) == math.prod(result.shape)
        and isinstance(result.element_type, ir.FloatType)
    )


def _place_in_operand(broadcast: Any, dimension: int) -> int | None:
    """Returns the dimension of a broadcast's operand that is a dimension of its result; None if it repeats rows there."""
    dimensions = [*ir.DenseI64ArrayAttr(broadcast.attributes["broadcast_dimensions"])]
    if dimension not in dimensions:
        return None
    at = dimensions.index(dimension)
    return None if shape_of(broadcast.operands[0])[at] == 1 else at


def _row_after(user: Any, number: int, dimension: int) -> int | None:
    """Returns the position of an operand's dimension in the result; None if the operation combines its rows."""
    if len(user.results) != 1 or not isinstance(user.results[0].type, ir.RankedTensorType):
        return None
    before, after = shape_of(user.operands[number]), shape_of(user.results[0])
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
    others = len(shape_of(product.operands[0])) - len(numbers.lhs_contracting_dimensions)
    return _left(dimension, contracted) + number * others


def _left(dimension: int, removed: Iterable[int]) -> int:
    """Returns the number of a dimension without others before it."""
    return dimension - sum(each < dimension for each in removed)
