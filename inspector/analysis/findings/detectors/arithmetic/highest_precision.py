"""Products at a higher precision than the default, which take several passes or a slower type of the matrix unit."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from inspector.analysis.cost.dot_algorithms import Algorithm, product_flops
from inspector.analysis.findings.before import moved_from
from inspector.analysis.findings.dataflow import Value
from inspector.analysis.findings.edits import DefaultPrecision, stacks_of
from inspector.analysis.findings.finding import Finding
from inspector.analysis.findings.kernel_calls import kernels_of_libtpu
from inspector.analysis.findings.products import (
    PRODUCTS,
    Saved,
    optimized_products,
    part_of_named,
    product_word,
    saved_by_type,
    shapes_text,
)
from inspector.analysis.findings.subject import Subject
from inspector.errors import Unavailable
from inspector.hlo.module import Instruction
from inspector.hlo.source import Frame, own_frame
from inspector.platforms import Peak
from inspector.support.units import counted

KIND = "highest-precision"
_CAUTION = "The default rounds the operands: check the accuracy of the results, for example of a loss over some training steps."
_OTHERS = "The kernels also do other work, which may take as long: the proof shows the gain."
_NUMERICAL = re.compile(
    r"\b(qr|householder\w*|svd|eigh?|cholesky\w*|lu\w*|triangular_solve|solve\w*|inv|pinv|expm|schur|polar|lstsq|det|slogdet|fft\w*)\b"
)
"""JAX's own linear algebra, which sets the precision that it needs."""


def highest_precision(subject: Subject) -> Iterator[Finding]:
    """Yields one finding for each line with such products, or one for the program if all products are such."""
    if subject.calls is None or isinstance(subject.roofline.peak, Unavailable):
        return
    raised: list[tuple[Value, str]] = []
    is_all = True
    for value, name in subject.calls.values(PRODUCTS):
        if _is_raised(value.instruction) and not _NUMERICAL.search(name):
            raised.append((value, name))
        else:
            is_all = False
    lines: dict[Frame | None, list[tuple[Value, str]]] = {}
    for value, name in raised:
        lines.setdefault(None if is_all else own_frame(value.instruction.frames), []).append((value, name))
    for products in lines.values():
        found = [*optimized_products(subject, products)]
        kind = products[0][0].instruction.operands[0].shape.element_type
        saved = saved_by_type(subject, found, kind)
        named = part_of_named(subject, products)
        saved = saved._replace(part=saved.part * named, most=saved.most * named)
        saved = _less_rounding(subject, products, saved)
        if saved.part > 0 or (not found and _has_unknown_kernel(subject)):
            yield _finding(subject, products, found, saved)


def _less_rounding(subject: Subject, products: Sequence[tuple[Value, str]], saved: Saved) -> Saved:
    """Returns the saved time without that of rounding whole weights in front of a loop.

    A TPU's compiler rounds the float32 operands of a product in a loop to bfloat16 before the loop, all iterations at once.
    The kernel takes at least the time of its accesses to main memory.
    """
    peak, whole_s = subject.roofline.peak, subject.seconds(saved.kernels)
    program = subject.compiled.program
    if isinstance(peak, Unavailable) or isinstance(whole_s, Unavailable) or program.platform != "tpu" or not whole_s:
        return saved
    in_loops = [value for value, _ in products if _is_in_loop(value)]
    operands = {moved_from(value.operand(number)) for value in in_loops for number in (0, 1)}
    outside = [each for each in operands if not _is_in_loop(each) and each.instruction.shape.element_type == "f32"]
    if not outside:
        return saved
    rounded = sum(each.instruction.shape.byte_size for each in outside)
    most = saved.most - 1.5 * rounded / peak.memory_bytes_per_s / whole_s
    return saved._replace(part=most, most=most, is_upper_bound=True)


def _has_unknown_kernel(subject: Subject) -> bool:
    """Reports whether a kernel that libtpu made of the program's operations cannot be read, so that it may compute the products."""
    return any(subject.costs[call.name].body is None for call in kernels_of_libtpu(subject))


def _is_in_loop(value: Value) -> bool:
    return any(call.opcode == "while" for call in value.calls)


def _finding(
    subject: Subject, products: Sequence[tuple[Value, str]], found: Sequence[tuple[Instruction, str]], saved: Saved
) -> Finding:
    peak, first = subject.roofline.peak, max((value.instruction for value, _ in products), key=_size)
    now = "" if isinstance(peak, Unavailable) else _slowest(subject, found, peak)
    are_many = len(products) > 1
    more = f" and {counted(len(products) - 1, 'other product')}" if are_many else ""
    title = (
        f"The {product_word(first)} {shapes_text(first)}{more} {'are' if are_many else 'is'} computed at a higher precision than the default"
        f"{f': {now} on the matrix unit' if now else ''}."
    )
    cautions = [_CAUTION, *([_OTHERS] if saved.is_upper_bound else [])]
    unknown = [each.name for each in subject.points.values() if isinstance(each.least_s, Unavailable)]
    if len(found) < len(products) and unknown and subject.compiled.program.platform == "tpu":
        cautions.append(f"The gain leaves out products in kernels whose cost is unknown, such as `{unknown[0]}`.")
    elif not found:
        cautions.append(
            "The gain is unknown because the kernel that computes them cannot be read: the proof may show it."
        )
    return subject.finding(
        KIND, title, 'precision="default"  # or jax.default_matmul_precision("default")', instructions=saved.kernels,
        frames=first.frames, saved_part=saved.part, is_upper_bound=saved.is_upper_bound,
        caution=" ".join(cautions),
        edits=(
            DefaultPrecision(
                tuple(dict.fromkeys(name for _, name in products)),
                stacks_of(value.instruction.frames for value, _ in products),
            ),
        ),
    )  # fmt: skip


def _size(product: Instruction) -> int:
    """Returns a number that grows with the work of a product."""
    return math.prod(math.prod(each.shape.dimensions) for each in (product, *product.operands[:2]))


def _slowest(subject: Subject, found: Sequence[tuple[Instruction, str]], peak: Peak) -> str:
    """Returns the arithmetic of products with the most passes; "" if it is unknown."""
    algorithms = [algorithm for product, _ in found for algorithm, _ in product_flops(product, subject.costs, peak)]
    known = [each for each in algorithms if isinstance(each, Algorithm)]
    return str(max(known, key=lambda each: each.passes / peak.flops_per_s[each.peak_name])) if known else ""


def _is_raised(product: Instruction) -> bool:
    config = product.proto.precision_config
    return bool(config.algorithm) or any(precision > 0 for precision in config.operand_precision)
