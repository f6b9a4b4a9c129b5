"""Reorders the columns of fused matrices so that each device has its columns of every matrix, in StableHLO modules.

With N matrices and D devices, device d has the d-th of D blocks of columns of each matrix. The columns then have the shape
[D, N, columns], and a matrix is a slice of it.

Private JAX: `jaxlib.mlir` (operations and attributes of StableHLO).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as dialect

from inspector._jax.edits.building import Builder, element_type_of, shape_of

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
    columns = devices, count, width // (devices * count)
    products: dict[Any, Any] = {}
    places = 0
    for cut in cuts:
        made = _cut_apart(cut, columns, products) if cut.name == "stablehlo.slice" else _put_together(cut, columns)
        if made is not None:
            cut.results[0].replace_all_uses_with(made)
            cut.erase()
            places += 1
    return places


def _cut_apart(cut: Any, columns: Sequence[int], products: dict[Any, Any]) -> Any | None:
    """Returns a matrix of an array of all columns; None for another slice.

    Args:
      cut: the slice.
      columns: the numbers of devices, of matrices, and of a device's columns of a matrix.
      products: products that have a dimension for each of these, by those that do not; one may be added.
    """
    whole, matrix, (devices, count, size) = cut.operands[0], shape_of(cut.results[0]), columns
    *rows, width = shape_of(whole)
    number = _number(cut, len(rows), devices * size)
    if width != devices * count * size or matrix != [*rows, devices * size] or number is None:
        return None
    build, maker = Builder(cut), None if isinstance(whole.owner, ir.Block) else whole.owner.operation
    if maker is None or maker.name != "stablehlo.dot_general" or not _has_columns(maker):
        apart = build.reshape(whole, [*rows, *columns])
    else:
        if whole not in products:
            products[whole] = _product(maker, columns)
        apart = products[whole]
    return build.reshape(build.part(apart, len(rows) + 1, number, number + 1), matrix)


def _has_columns(product: Any) -> bool:
    """Reports whether the last dimension of a product is that of a matrix on the right."""
    numbers = dialect.DotDimensionNumbers(product.attributes["dot_dimension_numbers"])
    return len(shape_of(product.operands[1])) == 2 and [*numbers.rhs_contracting_dimensions] == [0]


def _product(product: Any, columns: Sequence[int]) -> Any:
    """Returns a product with a weight that has dimensions for the devices, the matrices and their columns. XLA for TPUs copies reshaped products."""
    result, weight = product.results[0], product.operands[1]
    apart = Builder(product).reshape(weight, [*shape_of(weight)[:-1], *columns])
    made = product.clone(ip=ir.InsertionPoint(product)).operation
    made.operands[1] = apart
    made.results[0].set_type(ir.RankedTensorType.get([*shape_of(result)[:-1], *columns], element_type_of(result)))
    return made.results[0]


def _put_together(cut: Any, columns: Sequence[int]) -> Any | None:
    """Returns the array of all columns for a concatenation of matrices, or for one matrix that is padded with zeros; None for other operations."""
    (*rows, width), (devices, count, size) = shape_of(cut.results[0]), columns
    matrices = [*cut.operands][: 1 if cut.name == _PAD else None]
    number, at = _number(cut, len(rows), devices * size), len(rows) + 1
    is_matrix = all(shape_of(each) == [*rows, devices * size] for each in matrices)
    if width != devices * count * size or number is None or not is_matrix:
        return None
    build = Builder(cut)
    apart = [build.reshape(each, [*rows, devices, 1, size]) for each in matrices]
    if cut.name != _PAD:
        return build.reshape(build.concatenate(apart, at), [*rows, width])
    amounts = {"edge_padding_low": number, "edge_padding_high": count - 1 - number, "interior_padding": 0}
    paddings = {name: ir.DenseI64ArrayAttr.get([n * (d == at) for d in range(at + 2)]) for name, n in amounts.items()}
    return build.reshape(build.like("pad", apart[0], [*rows, *columns], cut.operands[1], **paddings), [*rows, width])


def _number(cut: Any, last: int, size: int) -> int | None:
    """Returns the number of the matrix of a slice or a padding, and 0 for a concatenation; None if it is along another dimension."""
    if cut.name == "stablehlo.concatenate":  # of matrices in their order
        return 0 if ir.IntegerAttr(cut.attributes["dimension"]).value == last else None
    start, spacing, fewest = (
        ("edge_padding_low", "interior_padding", 0) if cut.name == _PAD else ("start_indices", "strides", 1)
    )
    starts, spacings = ([*ir.DenseI64ArrayAttr(cut.attributes[name])] for name in (start, spacing))
    if starts[last] % size or any(starts[:last]) or any(n != fewest for n in spacings):
        return None
    return int(starts[last]) // size
