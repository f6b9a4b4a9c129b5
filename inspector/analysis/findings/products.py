"""Matrix products before optimization, and what became of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from inspector.analysis.findings.dataflow import Value
from inspector.analysis.findings.subject import Subject
from inspector.hlo.module import Instruction

PRODUCTS = ("dot", "convolution")
_LIBRARIES = ("__cublas", "__cudnn$conv")


def optimized_products(subject: Subject, products: Iterable[tuple[Value, str]]) -> Iterator[tuple[Instruction, str]]:
    """Yields the products of the optimized HLO that come from given ones, each with the name of its kernel.

    They have the same full name. Compilers write batched products as other ones, without names: those of the same size count.

    Args:
      subject: the program.
      products: products of the HLO before optimization, and their full names.
    """
    pairs = list(products)
    named = [i for i in subject.kernels.named(name for _, name in pairs) if _is_product(i)]
    known = {name for i in named for name in (i.op_name,)}
    sizes = {_size(value.instruction) for value, name in pairs if name not in known}
    nameless = [i for i in _nameless(subject) if _size(i) in sizes] if sizes else []
    for instruction in (*named, *nameless):
        kernel = subject.kernels.kernel(instruction)
        if kernel is not None:
            yield instruction, kernel


def shapes_text(product: Instruction) -> str:
    """Returns the shapes of a product's operands, such as "32x256 times 256x512"."""
    return " times ".join("x".join(map(str, o.shape.dimensions)) for o in product.operands[:2])


def _is_product(instruction: Instruction) -> bool:
    return instruction.opcode in PRODUCTS or instruction.custom_call_target.startswith(_LIBRARIES)


def _nameless(subject: Subject) -> Iterator[Instruction]:
    for row in subject.module.columns.rows_of(PRODUCTS.__contains__):
        instruction = subject.module.at(row)
        if not instruction.op_name:
            yield instruction


def _size(product: Instruction) -> tuple[int, int]:
    """Returns the number of elements of the result, and of the terms of each."""
    result = math.prod(product.shape.dimensions)
    if product.opcode != "dot":
        return result, 0
    left = product.operands[0].shape.dimensions
    return result, math.prod(left[d] for d in product.proto.dot_dimension_numbers.lhs_contracting_dimensions)
