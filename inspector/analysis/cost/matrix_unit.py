"""How much of a TPU's matrix unit a product can fill: what padding to the unit's side and to tiles wastes.

A unit is a square of multipliers that holds a block of one operand while rows of the other pass through it, eight at a
time. Dimensions that are no multiples are padded. The rest of a product's time at its peak is then spent on zeros. Which
operand is held is the compiler's choice; the better one counts here, so the share is what can be filled at most.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from inspector.errors import Unavailable
from inspector.hlo.module import Instruction

_ROWS = 8  # of a tile: what passes through at a time

NO_UNIT = Unavailable("the chip has no matrix unit whose side is published")
NO_PRODUCT = Unavailable("it multiplies no matrices")


def filled(product: Instruction, side: int) -> float | Unavailable:
    """The share of the unit's multipliers that a product fills at most, over 0 and up to 1.

    A convolution is held to products over its input features, one for each place of its window; a compiler that lays few
    features and a window side by side fills more.

    Args:
      product: a dot or a convolution.
      side: multipliers along each side of the unit; 0 for none.
    """
    if not side:
        return NO_UNIT
    sizes = _sizes(product)
    if isinstance(sizes, Unavailable):
        return sizes
    rows, contracted, columns = sizes
    if not rows * contracted * columns:
        return Unavailable("it has no elements")
    held = _share(contracted, side)
    return held * max(_share(columns, side) * _share(rows, _ROWS), _share(rows, side) * _share(columns, _ROWS))


def mean_filled(shares: Iterable[tuple[float, float]]) -> float:
    """The share that several products fill together: pairs of a share and flops, which take time by what they fill."""
    pairs = [*shares]
    return sum(flops for _, flops in pairs) / sum(flops / share for share, flops in pairs)


def _share(length: int, multiple: int) -> float:
    return length / (math.ceil(length / multiple) * multiple)


def _sizes(product: Instruction) -> tuple[int, int, int] | Unavailable:
    """Rows, contracted and columns of one of the products of matrices that it is made of."""
    if product.opcode not in ("dot", "convolution"):
        return Unavailable(f"nothing tells how a {product.opcode} is laid out")
    left, right = (operand.shape.dimensions for operand in product.operands[:2])
    proto = product.proto
    if product.opcode == "dot":
        numbers = proto.dot_dimension_numbers
        batch = math.prod(left[d] for d in numbers.lhs_batch_dimensions)
        contracted = math.prod(left[d] for d in numbers.lhs_contracting_dimensions)
        both = max(1, batch * contracted)
        return math.prod(left) // both, contracted, math.prod(right) // both
    if proto.feature_group_count > 1 or proto.batch_group_count > 1:
        return Unavailable("its features are in groups, which compilers lay out in several ways")
    numbers = proto.convolution_dimension_numbers
    columns = right[numbers.kernel_output_feature_dimension]
    made = math.prod(product.shape.dimensions)
    return made // max(1, columns), right[numbers.kernel_input_feature_dimension], columns
