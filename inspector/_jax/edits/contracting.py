"""Replaces sums of elementwise products, or of squared differences, by matrix products.

A term of the sum may have further factors and divisors that belong to one of the two arrays, or to the summed dimensions. They scale the
arrays in front of the matrix product. A condition is a factor of ones and zeros.

Private JAX: `jaxlib.mlir` (operations, attributes and types of StableHLO).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple

from jaxlib.mlir import ir

from inspector._jax.edits.building import Builder, adds, element_type_of, shape_of
from inspector._jax.edits.deferring import is_zero
from inspector._jax.edits.factors import Factor, dimensions_of, factor_of, is_float, maker_of
from inspector._jax.edits.hoisting import inline_callee


class _Terms(NamedTuple):
    """The terms of a sum.

    Attributes:
      left, right: the arrays that are multiplied or subtracted.
      left_scales, right_scales: the further factors of each array. Those of differences belong to the square, and are the same.
      are_differences: whether squares of differences are summed.
    """

    left: Factor
    right: Factor
    left_scales: Sequence[Factor]
    right_scales: Sequence[Factor]
    are_differences: bool


def contract_sums(module: ir.Module, reductions: Iterable[Any]) -> int:
    """Replaces reductions that add up products, or squares of differences, of two repeated arrays; returns how many were replaced."""
    return sum(_contract(module, reduction) for reduction in reductions)


def _contract(module: ir.Module, reduction: Any) -> bool:
    if len(reduction.operands) != 2 or not is_zero(reduction.operands[1]) or not adds(reduction):
        return False
    if parts := _split(module, reduction):
        return sum(_contract(module, each) for each in parts) > 0
    user, number = _past_conversions(module, reduction, 0)
    summed = frozenset(ir.DenseI64ArrayAttr(reduction.attributes["dimensions"]))
    factors = _factors(module, user, number)
    terms = _squared_differences(module, factors, summed) or _products(factors)
    product = user.operands[number]
    if terms is None or not _are_contracted(terms.left.dimensions, terms.right.dimensions, summed):
        return False
    wanted = [d for d in dimensions_of(product) if d not in summed]
    if {*wanted} - {*terms.left.dimensions, *terms.right.dimensions}:
        return False
    build = Builder(reduction)
    is_plain = not terms.are_differences and not terms.left_scales and not terms.right_scales
    types = {element_type_of(each.value) for each in (terms.left, terms.right)}
    element_type = types.pop() if is_plain and len(types) == 1 else element_type_of(product)
    arrays = [_scaled(build, each, (), element_type) for each in (terms.left, terms.right)]
    scaled = [
        _scaled(build, each, scales, element_type)
        for each, scales in ((terms.left, terms.left_scales), (terms.right, terms.right_scales))
    ]
    result = ir.RankedTensorType(reduction.results[0].type)
    made = _product(build, scaled[0], arrays[1] if terms.are_differences else scaled[1], summed, result.element_type)
    if terms.are_differences:
        type_ = ir.RankedTensorType(made.type)
        squares = build.create("add", type_, *(
            _squares(build, *pair, summed, reduction.operands[1], type_, wanted) for pair in zip(arrays, scaled, strict=True)
        ))  # fmt: skip
        made = build.create("subtract", type_, squares, build.create("add", type_, made, made))
    reduction.results[0].replace_all_uses_with(build.reshape(made, result.shape))
    return True


def _split(module: ir.Module, reduction: Any) -> list[Any]:
    """Replaces the sum of an array that adds up or subtracts two others by the sums of both, and returns these; [] for other arrays."""
    user, number = _past_conversions(module, reduction, 0)
    terms = user.operands[number]
    maker = maker_of(terms) if is_float(terms) else None
    if maker is None or maker.name not in ("stablehlo.add", "stablehlo.subtract"):
        return []
    build, element_type = Builder(reduction), element_type_of(reduction.operands[0])
    operands = [build.convert(_operand(module, maker, number), element_type) for number in range(2)]
    parts = [reduction.clone(ip=ir.InsertionPoint(reduction)).operation for _ in operands]
    for part, operand in zip(parts, operands, strict=True):
        part.operands[0] = operand
    result = ir.RankedTensorType(reduction.results[0].type)
    both = build.create(maker.name.removeprefix("stablehlo."), result, *(part.results[0] for part in parts))
    reduction.results[0].replace_all_uses_with(both)
    return parts


def _are_contracted(left: Collection[int], right: Collection[int], summed: frozenset[int]) -> bool:
    """Reports whether both arrays have all summed dimensions."""
    return bool(summed) and summed <= {*left} & {*right}


def _operand(module: ir.Module, user: Any, number: int) -> Any:
    """Returns an operand. A call that makes it is inlined."""
    while (maker := maker_of(user.operands[number])) is not None and maker.name == "func.call":
        inline_callee(module, maker)
    return user.operands[number]


def _past_conversions(module: ir.Module, user: Any, number: int) -> tuple[Any, int]:
    """Returns the operation that takes an operand before it is converted, and the number of the operand."""
    while (maker := maker_of(_operand(module, user, number))) is not None and maker.name == "stablehlo.convert":
        if not is_float(maker.results[0]) or not is_float(maker.operands[0]):
            break
        user, number = maker, 0
    return user, number


def _factors(module: ir.Module, user: Any, number: int, divides: bool = False) -> list[Factor]:
    """Returns the factors and divisors of an operand."""
    user, number = _past_conversions(module, user, number)
    value = user.operands[number]
    maker = maker_of(value) if is_float(value) else None
    if maker is not None and maker.name == "chlo.square":
        return 2 * _factors(module, maker, 0, divides)
    if (
        maker is not None
        and maker.name == "stablehlo.select"
        and not divides
        and is_zero(factor_of(maker.operands[2]).value)
    ):
        return [factor_of(maker.operands[0]), *_factors(module, maker, 1)]
    if maker is not None and maker.name in ("stablehlo.multiply", "stablehlo.divide"):
        other = divides ^ (maker.name == "stablehlo.divide")
        return _factors(module, maker, 0, divides) + _factors(module, maker, 1, other)
    return [factor_of(value)._replace(divides=divides)]


def _squared_differences(module: ir.Module, factors: Sequence[Factor], summed: frozenset[int]) -> _Terms | None:
    """Returns terms that are squares of differences, with factors that vary in summed dimensions only; None for others."""
    makers = [maker_of(each.value) for each in factors]
    squared = [
        each
        for each, maker in zip(factors, makers, strict=True)
        if maker is not None and maker.name == "stablehlo.subtract" and not each.divides
    ]
    scales = [each for each in factors if each not in squared]
    if len(squared) != 2 or squared[0] != squared[1] or any({*each.dimensions} - summed for each in scales):
        return None
    subtraction = squared[0].value.owner.operation
    left, right = (factor_of(_operand(module, subtraction, number)) for number in range(2))
    order = dict(zip(dimensions_of(squared[0].value), squared[0].dimensions, strict=True))
    left, right = (each._replace(dimensions=tuple(order[d] for d in each.dimensions)) for each in (left, right))
    return _Terms(left, right, scales, scales, are_differences=True)


def _products(factors: Sequence[Factor]) -> _Terms | None:
    """Returns terms that are products of the two arrays with the most dimensions, if each other factor varies in dimensions of one of them."""
    numbers = [number for number, each in enumerate(factors) if not each.divides]
    size: Callable[[int], int] = lambda number: len(factors[number].dimensions)  # noqa: E731
    first = max(numbers, key=size, default=None)
    if first is None:
        return None
    of_first = {*factors[first].dimensions}
    second = max((n for n in numbers if {*factors[n].dimensions} - of_first), key=size, default=None)
    if second is None:
        return None
    left, right = (factors[number] for number in sorted((first, second)))
    scales: tuple[list[Factor], list[Factor]] = ([], [])
    for number, each in enumerate(factors):
        if number not in (first, second):
            fitting = [side for side, of in enumerate((left, right)) if {*each.dimensions} <= {*of.dimensions}]
            if not fitting:
                return None
            scales[fitting[0]].append(each)
    return _Terms(left, right, *scales, are_differences=False)


def _scaled(build: Builder, factor: Factor, scales: Sequence[Factor], element_type: Any) -> Factor:
    """Returns an array of an element type, without dimensions of one element, times its further factors."""
    squeezed = [
        build.convert(build.reshape(each.value, [n for n in shape_of(each.value) if n > 1]), element_type)
        for each in (factor, *scales)
    ]
    value = squeezed[0]
    for scale, number in zip(scales, squeezed[1:], strict=True):
        places = ir.DenseI64ArrayAttr.get([factor.dimensions.index(d) for d in scale.dimensions])
        repeated = build.create("broadcast_in_dim", value.type, number, broadcast_dimensions=places)
        value = build.create(
            "divide" if scale.divides else "multiply", ir.RankedTensorType(value.type), value, repeated
        )
    return Factor(value, factor.dimensions)


def _product(build: Builder, left: Factor, right: Factor, summed: frozenset[int], element_type: Any) -> Any:
    """Returns the matrix product of two arrays, with its dimensions in the order of the terms."""
    shared = [d for d in left.dimensions if d in right.dimensions]
    batch, contracted = ([d for d in shared if (d in summed) == is_summed] for is_summed in (False, True))
    free = [[d for d in each.dimensions if d not in shared] for each in (left, right)]
    places = [[[each.dimensions.index(d) for d in group] for each in (left, right)] for group in (batch, contracted)]
    (left_batch, right_batch), (left_contracted, right_contracted) = places
    numbers = ir.Attribute.parse(
        f"#stablehlo.dot<lhs_batching_dimensions = {left_batch}, rhs_batching_dimensions = {right_batch},"
        f" lhs_contracting_dimensions = {left_contracted}, rhs_contracting_dimensions = {right_contracted}>"
    )
    sizes = {d: n for each in (left, right) for d, n in zip(each.dimensions, shape_of(each.value), strict=True)}
    order = [*batch, *free[0], *free[1]]
    type_ = ir.RankedTensorType.get([sizes[d] for d in order], element_type)
    made = build.create("dot_general", type_, left.value, right.value, dot_dimension_numbers=numbers)
    return build.transpose(made, [order.index(d) for d in sorted(order)])


def _squares(
    build: Builder,
    array: Factor,
    scaled: Factor,
    summed: frozenset[int],
    zero: Any,
    type_: Any,
    wanted: Sequence[int],
) -> Any:
    """Returns the sums of the squares of an array, repeated in the dimensions that only the other array has.

    Args:
      build: builds the operations.
      array: the array.
      scaled: the array times the further factors.
      summed: the summed dimensions.
      zero: the number 0.
      type_: the type of the result.
      wanted: the dimensions of the result.
    """
    squared = build.create("multiply", ir.RankedTensorType(array.value.type), scaled.value, array.value)
    squared = build.convert(squared, type_.element_type)
    removed = ir.DenseI64ArrayAttr.get([n for n, d in enumerate(array.dimensions) if d in summed])
    kept = [d for d in array.dimensions if d not in summed]
    shape = [n for d, n in zip(array.dimensions, shape_of(squared), strict=True) if d in kept]
    sums = build.like("reduce", squared, shape, zero, reduction="stablehlo.add", dimensions=removed)
    places = ir.DenseI64ArrayAttr.get([wanted.index(d) for d in kept])
    return build.create("broadcast_in_dim", type_, sums, broadcast_dimensions=places)
