"""Products with a dimension just above a multiple of the matrix unit's side: the unit computes the padding too.

The unit keeps a block of one operand, whose dimensions are padded to its side; the rows of the other operand pass through, eight at a
time. For some of these dimensions libtpu chooses blocks that take much longer than the padding. Its own cycle estimate shows it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from inspector.analysis.cost.dot_algorithms import products
from inspector.analysis.cost.kernel_time import CYCLES
from inspector.analysis.cost.matrix_unit import filled_by, product_sizes
from inspector.analysis.findings.edits import Edit, resized
from inspector.analysis.findings.finding import Finding
from inspector.analysis.findings.products import PRODUCTS, shapes_text
from inspector.analysis.findings.subject import Subject
from inspector.errors import Unavailable
from inspector.hlo.module import Instruction
from inspector.platforms import Peak
from inspector.support.units import counted

KIND = "padding"
_LEAST_SAVED = 0.04  # of a kernel's time
_SLOW = 2.5  # times as long as the padded product at the peak; others on v5e take 1.0 to 1.45 times as long
_CAUTION = "A smaller dimension changes the model. Padding keeps it, but saves nothing if the compiler already pads well: compare both with what_if."
_CONVOLUTION = "conv_general_dilated"
_CHEAP = frozenset({
    "parameter", "constant", "broadcast", "bitcast", "reshape", "transpose", "copy", "slice", "pad", "convert", "add", "subtract", "multiply",
    "maximum", "minimum", "compare", "select", "dot", "convolution", "fusion", "tuple", "get-tuple-element", "iota",
})  # fmt: skip
_WHICH = ("number of rows", "contracted dimension", "number of columns")


class _Waste(NamedTuple):
    """A dimension of a product that is longer than a multiple of the side of the matrix unit.

    Attributes:
      which: its number in `_WHICH`.
      length: its length.
      multiple: the multiple below it.
      saved: the part of the time that the multiple saves.
      slowness: how many times longer than the padded product at the peak the kernel takes, if blocks are the reason; otherwise 0.
    """

    which: int
    length: int
    multiple: int
    saved: float
    slowness: float = 0.0


def padding(subject: Subject) -> Iterator[Finding]:
    """Yields one finding for each dimension of which the last part fills little of the matrix unit."""
    peak = subject.roofline.peak
    if isinstance(peak, Unavailable) or not peak.matrix_unit:
        return
    groups: dict[tuple[int, int, bool], list[tuple[Instruction, str, _Waste]]] = {}
    for product in products(subject.module).instructions:
        kernel = subject.kernels.kernel(product) if product.opcode in PRODUCTS else None
        if kernel is None or subject.points[kernel].bound_by != "compute":
            continue
        waste = _largest(product, peak.matrix_unit, _slowness(subject, subject.module.instruction(kernel), peak))
        if waste is not None:
            groups.setdefault((waste.which, waste.length, waste.slowness > 0), []).append((product, kernel, waste))
    for found in groups.values():
        yield _finding(subject, found, peak.matrix_unit)


def _finding(subject: Subject, found: list[tuple[Instruction, str, _Waste]], side: int) -> Finding:
    product, _, waste = found[0]
    what = "convolution" if _CONVOLUTION in product.op_name else "product"
    more = f" and {counted(len(found) - 1, f'other {what}')}" if len(found) > 1 else ""
    over = waste.length - waste.multiple
    title = (
        f"The {_WHICH[waste.which]} of the {what} {shapes_text(product)}{more} is {waste.length}, {over} more than"
        f" {waste.multiple // side} times {side}"
    )
    title += (
        f": libtpu estimates {waste.slowness:.1f} times the time that the matrix unit needs."
        if waste.slowness
        else f": the matrix unit of {side} by {side} computes {waste.multiple + side}."
    )
    return subject.finding(
        KIND, title, f"{waste.multiple} instead of {waste.length}, or pad to {waste.multiple + side}",
        is_upper_bound=bool(waste.slowness), instructions=dict.fromkeys(kernel for _, kernel, _ in found), frames=product.frames,
        saved_part=min(each.saved for _, _, each in found), caution=_CAUTION,
        edits=_shortened(subject, waste),
    )  # fmt: skip


def _shortened(subject: Subject, waste: _Waste) -> tuple[Edit, ...] | None:
    """Returns the edit for arguments with the dimension; None for several devices, whose products have parts of it."""
    program = subject.compiled.program
    return resized(program.arguments, waste.length, waste.multiple) if program.device_count == 1 else None


def _slowness(subject: Subject, kernel: Instruction, peak: Peak) -> float:
    """Returns how many times longer than its padded products at the peak a kernel takes by libtpu's estimate; 0 if other work may be the reason."""
    time = subject.kernel_times(peak).of(kernel)
    if CYCLES not in time.units or isinstance(time.filled, Unavailable) or not _CHEAP.issuperset(_operations(kernel)):
        return 0.0
    needed_s = time.units.get("matrix unit", 0.0) / time.filled
    return time.units[CYCLES] / needed_s if needed_s else 0.0


def _operations(kernel: Instruction) -> Iterator[str]:
    for called in kernel.called_computations:
        for each in called.instructions:
            yield each.opcode
            yield from _operations(each)


def _largest(product: Instruction, side: int, slowness: float) -> _Waste | None:
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
    if worst is not None and slowness > _SLOW:
        worst = worst._replace(saved=1 - 1 / slowness, slowness=slowness)
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
