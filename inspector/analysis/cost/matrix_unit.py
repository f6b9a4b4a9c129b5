"""The share of a TPU's matrix unit that a product can use, after padding to the unit's side and to tiles.

A unit is a square array of multipliers. It keeps a block of one operand while rows of the other operand pass through it,
eight at a time. Dimensions that are not multiples of these sizes are padded, and part of the time at the peak is spent
on zeros. The compiler chooses which operand the unit keeps. The better choice is assumed here, so the share is an upper
bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from inspector.errors import Unavailable
from inspector.hlo.module import Instruction

_ROWS = 8  # rows of a tile, which pass through at the same time

NO_UNIT = Unavailable("the chip has no matrix unit of published size")
NO_PRODUCT = Unavailable("it has no matrix products")


def filled(product: Instruction, side: int) -> float | Unavailable:
    """Returns an upper bound for the share of the unit's multipliers that a product uses, above 0 and up to 1.

    A convolution is treated as products over its input features, one for each position of its window. A compiler that
    combines few features with the window uses more.

    Args:
      product: a dot or a convolution.
      side: number of multipliers along each side of the unit; 0 if there is no unit.
    """
    if not side:
        return NO_UNIT
    sizes = product_sizes(product)
    return sizes if isinstance(sizes, Unavailable) else filled_by(*sizes, side)


def filled_by(rows: int, contracted: int, columns: int, side: int) -> float | Unavailable:
    """Returns the share as `filled` for a product of the given sizes."""
    if not rows * contracted * columns:
        return Unavailable("it has no elements")
    depth = _share(contracted, side)
    return depth * max(_share(columns, side) * _share(rows, _ROWS), _share(rows, side) * _share(columns, _ROWS))


def mean_filled(shares: Iterable[tuple[float, float]]) -> float:
    """Returns the mean share of several products, weighted by their time.

    Args:
      shares: pairs of a product's share and its FLOPs.
    """
    pairs = [*shares]
    return sum(flops for _, flops in pairs) / sum(flops / share for share, flops in pairs)


def _share(length: int, multiple: int) -> float:
    return length / (math.ceil(length / multiple) * multiple)


def product_sizes(product: Instruction) -> tuple[int, int, int] | Unavailable:
    """Returns rows, contracted size and columns of the matrix products that make up the instruction."""
    if product.opcode not in ("dot", "convolution"):
        return Unavailable(f"the layout of a {product.opcode} in the matrix unit is unknown")
    left, right = (operand.shape.dimensions for operand in product.operands[:2])
    proto = product.proto
    if product.opcode == "dot":
        numbers = proto.dot_dimension_numbers
        batch = math.prod(left[d] for d in numbers.lhs_batch_dimensions)
        contracted = math.prod(left[d] for d in numbers.lhs_contracting_dimensions)
        both = max(1, batch * contracted)
        return math.prod(left) // both, contracted, math.prod(right) // both
    if proto.feature_group_count > 1 or proto.batch_group_count > 1:
        return Unavailable("its features are grouped, and compilers lay out groups in several ways")
    numbers = proto.convolution_dimension_numbers
    columns = right[numbers.kernel_output_feature_dimension]
    # A TPU's form of a product with batch dimensions: each becomes a window that meets the same number of one operand only.
    batch = math.prod(d.size for d in proto.window.dimensions if d.base_dilation == d.size == d.stride + 1)
    made = math.prod(product.shape.dimensions) // batch
    return made // max(1, columns), right[numbers.kernel_input_feature_dimension], columns
