"""Gives fused matrices an order of columns in which each device has its columns of every matrix, in StableHLO modules.

Of N matrices side by side and D devices, the device with number d has columns d of D of each matrix, one matrix after the other. An
array of all columns is then one of shape [..., D, N, columns], of which a matrix is a slice.

Private JAX: `jaxlib.mlir` (operations and attributes of StableHLO).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jaxlib.mlir import ir

from inspector._jax.edits.building import Builder, shape_of

_PAD = "stablehlo.pad"
CUTS = frozenset({"stablehlo.slice", "stablehlo.concatenate", _PAD})


def interleave_columns(cuts: Iterable[Any], width: int, count: int, devices: int) -> int:
    """Changes the operations that cut matrices out of an array of all columns, and those that put their gradients together.

    Args:
      cuts: the operations.
      width: the number of all columns.
      count: the number of matrices.
      devices: the number of devices over which the columns are split.

    Returns:
      The number of changed operations.
    """
    places = 0
    for cut in cuts:
        whole = cut.operands[0] if cut.name == "stablehlo.slice" else cut.results[0]
        if shape_of(whole)[-1] == width and (made := _interleaved(cut, count, devices)) is not None:
            cut.results[0].replace_all_uses_with(made)
            cut.erase()
            places += 1
    return places


def _interleaved(cut: Any, count: int, devices: int) -> Any | None:
    """Returns the result of an operation with the new order; None for an operation on other parts than whole matrices."""
    is_slice = cut.name == "stablehlo.slice"
    *rows, width = shape_of(cut.operands[0] if is_slice else cut.results[0])
    last, size = len(rows), width // count
    parts = [cut.results[0]] if is_slice else [*cut.operands][: 1 if cut.name == _PAD else None]
    number = _number(cut, last, size)
    if number is None or any(shape_of(each) != [*rows, size] for each in parts):
        return None
    build, at = Builder(cut), last + 1
    whole, one = ([*rows, devices, n, size // devices] for n in (count, 1))
    if is_slice:
        apart = build.reshape(cut.operands[0], whole)
        return build.reshape(build.part(apart, at, number, number + 1), [*rows, size])
    apart = [build.reshape(each, one) for each in parts]
    if cut.name == _PAD:
        amounts = {"edge_padding_low": number, "edge_padding_high": count - 1 - number, "interior_padding": 0}
        paddings = {
            name: ir.DenseI64ArrayAttr.get([n * (d == at) for d in range(last + 3)]) for name, n in amounts.items()
        }
        joined = build.like("pad", apart[0], whole, cut.operands[1], **paddings)
    else:
        joined = build.concatenate(apart, at)
    return build.reshape(joined, [*rows, width])


def _number(cut: Any, last: int, size: int) -> int | None:
    """Returns the number of the matrix of a slice or a padding, and 0 for a concatenation; None if it is along another dimension."""
    if cut.name == "stablehlo.concatenate":
        return 0 if ir.IntegerAttr(cut.attributes["dimension"]).value == last else None
    start, spacing, fewest = (
        ("edge_padding_low", "interior_padding", 0) if cut.name == _PAD else ("start_indices", "strides", 1)
    )
    starts, spacings = ([*ir.DenseI64ArrayAttr(cut.attributes[name])] for name in (start, spacing))
    if starts[last] % size or any(starts[:last]) or any(n != fewest for n in spacings):
        return None
    return int(starts[last]) // size
