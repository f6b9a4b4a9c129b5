"""Matrix products before optimization, and what became of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from inspector.analysis.cost.dot_algorithms import Algorithm, algorithm_of, by_type
from inspector.analysis.findings.dataflow import Value
from inspector.analysis.findings.subject import Subject
from inspector.errors import Unavailable
from inspector.hlo.module import Instruction
from inspector.hlo.source import merged_names, own_frame
from inspector.platforms import Peak

PRODUCTS = ("dot", "convolution")
_LIBRARIES = ("__cublas", "__cudnn$conv")


def optimized_products(subject: Subject, products: Iterable[tuple[Value, str]]) -> Iterator[tuple[Instruction, str]]:
    """Yields the products of the optimized HLO that come from given ones, each with the name of its kernel.

    They have the same full name and line. Compilers write batched products as other ones, without names: those of the same size count.

    Args:
      subject: the program.
      products: products of the HLO before optimization, and their full names.
    """
    pairs = list(products)
    lines = {(name, own_frame(value.instruction.frames)) for value, name in pairs}
    named = [
        i
        for i in subject.kernels.named(name for _, name in pairs)
        if _is_product(i) and any((name, own_frame(i.frames)) in lines for name in merged_names(i.op_name))
    ]
    known = {name for i in named for name in (i.op_name,)}
    sizes = {_size(value.instruction) for value, name in pairs if name not in known}
    nameless = [i for i in _nameless(subject) if _size(i) in sizes] if sizes else []
    for instruction in (*named, *nameless):
        kernel = subject.kernels.kernel(instruction)
        if kernel is not None:
            yield instruction, kernel


def part_of_named(subject: Subject, products: Sequence[tuple[Value, str]]) -> float:
    """Returns the FLOPs of products over those of all products with their names and lines, from 0 to 1.

    The products of a line often have the same name, so that the optimized ones cannot be told apart.

    Args:
      subject: the program.
      products: products of the HLO before optimization, and their full names.
    """
    keys = {(name, own_frame(value.instruction.frames)) for value, name in products}
    alike = () if subject.calls is None else subject.calls.values(PRODUCTS)
    same = (each for each, name in alike if (name, own_frame(each.instruction.frames)) in keys)
    whole = sum(number_of_terms(each.instruction) for each in same)
    return min(1.0, sum(number_of_terms(each.instruction) for each, _ in products) / whole) if whole else 1.0


def number_of_terms(product: Instruction) -> int:
    """Returns the number of terms that a product adds up; the elements of its result for a convolution or a library call."""
    elements, terms = _size(product)
    return elements * max(1, terms)


def saved_by_type(
    subject: Subject, products: Iterable[tuple[Instruction, str]], element_type: str
) -> tuple[list[str], float]:
    """Returns the kernels of optimized products, and the part of their time that another type of the operands would save.

    Args:
      subject: the program.
      products: products and the names of their kernels.
      element_type: the type in HLO's notation, at the default precision.
    """
    kernels, spent, saved = list[str](), 0.0, 0.0
    for instruction, kernel in products:
        if kernel in kernels:
            continue
        time_s, part = subject.points[kernel].least_s, _part(subject, instruction, kernel, element_type)
        if isinstance(time_s, Unavailable):
            time_s = subject.accessed(kernel)
        kernels.append(kernel)
        spent += float(time_s)
        saved += float(time_s) * part
    return kernels, saved / spent if spent else 0.0


def _part(subject: Subject, product: Instruction, kernel: str, element_type: str) -> float:
    """Returns the part of a kernel's time that is saved, by the rates of the matrix unit and of the main memory."""
    peak, point = subject.roofline.peak, subject.points[kernel]
    if isinstance(peak, Unavailable):
        return (
            0.0 if product.operands[0].shape.element_type == "f32" else 0.5
        )  # CPUs compute narrower floats in float32
    ratio = _rates_ratio(product, element_type, peak)
    if isinstance(point.least_s, Unavailable) or isinstance(point.flops, Unavailable) or not point.least_s:
        return 0.0
    bytes_ = 0.0 if isinstance(point.main_memory_bytes, Unavailable) else float(point.main_memory_bytes)
    memory_s = bytes_ / peak.memory_bytes_per_s
    after = max(float(point.least_s) * ratio, min(memory_s, float(point.least_s)))
    return max(0.0, 1 - after / float(point.least_s))


def _rates_ratio(product: Instruction, element_type: str, peak: Peak) -> float:
    """Returns the time of a product in another type, relative to its present time at the matrix unit's peaks."""
    now, then = algorithm_of(product, peak), by_type(element_type, 0, peak)
    if not isinstance(now, Algorithm) or not isinstance(then, Algorithm):
        return 1.0
    return min(1.0, (then.passes / peak.flops_per_s[then.peak_name]) / (now.passes / peak.flops_per_s[now.peak_name]))


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
