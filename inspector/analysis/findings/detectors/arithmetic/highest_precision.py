"""Products at a higher precision than the default, which take several passes or a slower type of the matrix unit."""

from __future__ import annotations

import re
from collections.abc import Iterator

from inspector.analysis.cost.dot_algorithms import algorithm_of
from inspector.analysis.findings.dataflow import Value
from inspector.analysis.findings.edits import DefaultPrecision, stacks_of
from inspector.analysis.findings.finding import Finding
from inspector.analysis.findings.products import PRODUCTS, optimized_products, part_of_named, saved_by_type, shapes_text
from inspector.analysis.findings.subject import Subject
from inspector.errors import Unavailable
from inspector.hlo.module import Instruction
from inspector.hlo.source import Frame, own_frame
from inspector.support.units import counted

KIND = "highest-precision"
_CAUTION = "The default rounds the operands: check the accuracy of the results, for example of a loss over some training steps."
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
        kernels, saved = saved_by_type(subject, found, kind)
        saved *= part_of_named(subject, products)
        if saved > 0:
            yield _finding(subject, products, found[0][0], kernels, saved)


def _finding(
    subject: Subject, products: list[tuple[Value, str]], optimized: Instruction, kernels: list[str], saved: float
) -> Finding:
    peak, first = subject.roofline.peak, products[0][0].instruction
    now = "" if isinstance(peak, Unavailable) else str(algorithm_of(optimized, peak))
    are_many = len(products) > 1
    more = f" and {counted(len(products) - 1, 'other product')}" if are_many else ""
    title = (
        f"The product {shapes_text(first)}{more} {'are' if are_many else 'is'} computed at a higher precision than the default:"
        f" {now} on the matrix unit."
    )
    return subject.finding(
        KIND, title, 'precision="default"  # or jax.default_matmul_precision("default")', instructions=kernels,
        frames=first.frames, saved_part=saved, caution=_CAUTION,
        edits=(
            DefaultPrecision(
                tuple(dict.fromkeys(name for _, name in products)),
                stacks_of(value.instruction.frames for value, _ in products),
            ),
        ),
    )  # fmt: skip


def _is_raised(product: Instruction) -> bool:
    config = product.proto.precision_config
    return bool(config.algorithm) or any(precision > 0 for precision in config.operand_precision)
