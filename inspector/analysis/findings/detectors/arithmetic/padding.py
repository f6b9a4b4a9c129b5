"""Products with a dimension just above a multiple of the matrix unit's side: the unit computes the padding too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from inspector.analysis.cost.dot_algorithms import products
from inspector.analysis.cost.matrix_unit import filled_by, product_sizes
from inspector.analysis.findings.finding import Finding
from inspector.analysis.findings.products import PRODUCTS, shapes_text
from inspector.analysis.findings.subject import Subject
from inspector.errors import Unavailable
from inspector.hlo.module import Instruction
from inspector.support.units import counted

KIND = "padding"
_LEAST_SAVED = 0.02  # of a kernel's time
_CAUTION = "Padding does not help: the compiler pads already. A smaller dimension changes the model."
_CONVOLUTION = "conv_general_dilated"
_WHICH = ("number of rows", "contracted dimension", "number of columns")


class _Waste(NamedTuple):
    """A dimension of a product, the multiple below it, and the part of the time that its rest takes."""

    which: int
    length: int
    multiple: int
    saved: float


def padding(subject: Subject) -> Iterator[Finding]:
    """Yields one finding for each dimension of which the last part fills little of the matrix unit."""
    peak = subject.roofline.peak
    if isinstance(peak, Unavailable) or not peak.matrix_unit:
        return
    groups: dict[tuple[int, int], list[tuple[Instruction, str, _Waste]]] = {}
    for product in products(subject.module).instructions:
        kernel = subject.kernels.kernel(product) if product.opcode in PRODUCTS else None
        if kernel is None or subject.points[kernel].bound_by != "compute":
            continue
        waste = _largest(product, peak.matrix_unit)
        if waste is not None:
            groups.setdefault((waste.which, waste.length), []).append((product, kernel, waste))
    for found in groups.values():
        yield _finding(subject, found, peak.matrix_unit)


def _finding(subject: Subject, found: list[tuple[Instruction, str, _Waste]], side: int) -> Finding:
    product, _, waste = found[0]
    what = "convolution" if _CONVOLUTION in product.op_name else "product"
    more = f" and {counted(len(found) - 1, f'other {what}')}" if len(found) > 1 else ""
    over = waste.length - waste.multiple
    title = (
        f"The {_WHICH[waste.which]} of the {what} {shapes_text(product)}{more} is {waste.length}, {over} more than"
        f" {waste.multiple // side} times {side}: the matrix unit of {side} by {side} computes {waste.multiple + side}."
    )
    return subject.finding(
        KIND, title, f"{waste.multiple} instead of {waste.length}, or {waste.multiple + side} for the same time",
        instructions=dict.fromkeys(kernel for _, kernel, _ in found), frames=product.frames,
        saved_part=min(each.saved for _, _, each in found), caution=_CAUTION,
    )  # fmt: skip


def _largest(product: Instruction, side: int) -> _Waste | None:
    """Returns the dimension that wastes most time; None if no dimension is just above a multiple."""
    sizes = product_sizes(product)
    if isinstance(sizes, Unavailable):
        return None
    wastes = []
    for which, length in enumerate(sizes):
        over = length % side
        if length > side and 0 < over <= side // 4 and _is_possible(product, which, length, length - over):
            trimmed = [*sizes]
            trimmed[which] = length - over
            saved = 1 - _time(trimmed, side) / _time(sizes, side)
            wastes.append(_Waste(which, length, length - over, saved))
    worst = max(wastes, key=lambda each: each.saved, default=None)
    return None if worst is None or worst.saved < _LEAST_SAVED else worst


def _is_possible(product: Instruction, which: int, length: int, smaller: int) -> bool:
    """Reports whether a smaller dimension of the arrays makes a side of the product smaller.

    The rows of a convolution are several dimensions together, such as 288 for a window of 3 by 3 and 32 channels: no number of channels makes
    them 256.
    """
    if product.opcode != "convolution" or which:
        return True
    feature = product.proto.convolution_dimension_numbers.output_feature_dimension
    sizes = [size for d, size in enumerate(product.shape.dimensions) if d != feature]
    return any(smaller * size % length == 0 for size in sizes)


def _time(sizes: tuple[int, int, int] | list[int], side: int) -> float:
    """Returns the multiplications of a product with its padding."""
    rows, contracted, columns = sizes
    share = filled_by(rows, contracted, columns, side)
    return float(rows * contracted * columns) / (1.0 if isinstance(share, Unavailable) else share)
