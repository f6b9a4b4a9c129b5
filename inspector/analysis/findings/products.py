"""Matrix products before optimization, and what became of them.

The time that products save in another type follows from the peaks of the chip. Only TPU compilers count cycles, which contain more than
that; the figures for these are fractions of the chip's own peaks and clock, fitted to libtpu's cycles of kernels of v5e and v6e. Compiles of
both forms of products alone, with a tanh, and with a GELU and a softmax agree within 4 % on v4 and v5p; on v6e the first two agree within 6 %.
Targets without
cycles, such as GPUs and CPUs with measured roofs, use none of these figures.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from inspector.analysis.cost.dot_algorithms import Algorithm, by_type, product_flops
from inspector.analysis.cost.kernel_time import CYCLES
from inspector.analysis.findings.before import full_name, uses
from inspector.analysis.findings.dataflow import Value
from inspector.analysis.findings.kernel_calls import kernels_of_libtpu
from inspector.analysis.findings.subject import Subject
from inspector.compilation.kernels.costs import KERNEL
from inspector.errors import Unavailable
from inspector.hlo.module import Instruction
from inspector.hlo.source import Frame, merged_names, own_frame, phases
from inspector.platforms import Peak

PRODUCTS = ("dot", "convolution")
_LIBRARIES = ("__cublas", "__cudnn$conv")


def optimized_products(subject: Subject, products: Iterable[tuple[Value, str]]) -> Iterator[tuple[Instruction, str]]:
    """Yields the products of the optimized HLO that come from given ones, each with the name of its kernel.

    They have the same full name and line, or those of a transpose of the product, because XLA merges the two. Compilers write batched
    products as other ones, without names: those of the same size count. So do kernels that libtpu makes of an attention, with names of
    its own.

    Args:
      subject: the program.
      products: products of the HLO before optimization, and their full names.
    """
    pairs = list(products)
    names = [{name: own_frame(value.instruction.frames), **_transposes(value)} for value, name in pairs]
    lines = {pair for each in names for pair in each.items()}
    named = [
        i
        for i in subject.kernels.named(name for name, _ in lines)
        if _is_product(subject, i) and any((name, own_frame(i.frames)) in lines for name in merged_names(i.op_name))
    ]
    known = {i.op_name for i in named}
    sizes = {_size(value.instruction) for (value, _), each in zip(pairs, names, strict=True) if not known & each.keys()}
    nameless = [i for i in _nameless(subject) if _size(i) in sizes] if sizes else []
    terms = {float(number_of_terms(value.instruction)) for value, _ in pairs}
    nameless += [call for call in kernels_of_libtpu(subject) if call not in named and _terms_of(subject, call) in terms]
    for instruction in (*named, *nameless):
        kernel = subject.kernels.kernel(instruction)
        if kernel is not None:
            yield instruction, kernel


def _transposes(product: Value) -> dict[str, Frame | None]:
    """Returns the full names of the transposes of a product, and their lines."""
    users = (use.user for use in uses(product))
    return {
        full_name(user): own_frame(user.instruction.frames)
        for user in users
        if user is not None and user.instruction.opcode == "transpose"
    }


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


class Saved(NamedTuple):
    """The time that products save.

    Attributes:
      kernels: the names of their kernels.
      part: the part of the kernels' time that is saved, from 0 to 1.
      most: an upper bound of it.
      is_upper_bound: whether `part` is the upper bound.
    """

    kernels: list[str]
    part: float
    most: float
    is_upper_bound: bool


def saved_by_type(subject: Subject, products: Iterable[tuple[Instruction, str]], element_type: str) -> Saved:
    """Returns the part of the time of optimized products that another type of the operands would save.

    The compiler's cycles of a TPU do not show how much of them the products take. The part is then the mean of a lower and an upper
    bound if they are close, and the upper bound otherwise.

    Args:
      subject: the program.
      products: products and the names of their kernels.
      element_type: the type in HLO's notation, at the default precision.
    """
    by_kernel: dict[str, dict[str, Instruction]] = {}
    for instruction, kernel in products:
        by_kernel.setdefault(kernel, {})[instruction.name] = instruction
    spent = least = most = 0.0
    for kernel, found in by_kernel.items():
        time_s = subject.points[kernel].least_s
        bounds = _parts(subject, [*found.values()], kernel, element_type)
        seconds = subject.accessed(kernel) if isinstance(time_s, Unavailable) else float(time_s)
        spent, least, most = spent + seconds, least + seconds * bounds[0], most + seconds * bounds[1]
    is_upper_bound = most - least > _CLOSE * (most + least)
    saved = most if is_upper_bound else (least + most) / 2
    whole = spent or 1.0
    return Saved([*by_kernel], saved / whole, most / whole, is_upper_bound)


_CLOSE = 0.1  # the mean of two bounds is then at most 10 % from both
_MEMORY = (1.2, 1.7)
"""Time of the main memory in a TPU compiler's cycles, relative to its peak: 1.24 to 1.66 in kernels of v4, v5e, v5p and v6e."""
_VECTOR, _TRANSCENDENTAL = 2.0, 12.0
"""Time of the vector unit in the cycles, relative to its peaks: a function such as `tanh` is several operations."""
_CYCLES_OF_TILE = 4.0  # to round 1,024 float32 values
_TILE_BYTES = 4096


def _parts(subject: Subject, products: Sequence[Instruction], kernel: str, element_type: str) -> tuple[float, float]:
    """Returns the smallest and the largest part of a kernel's time that is saved, by the rates of its units."""
    peak, point = subject.roofline.peak, subject.points[kernel]
    if isinstance(peak, Unavailable):
        half = 0.0 if products[0].operands[0].shape.element_type == "f32" else 0.5
        return half, half  # CPUs compute narrower floats in float32
    if isinstance(point.least_s, Unavailable) or isinstance(point.flops, Unavailable) or not point.least_s:
        return 0.0, 0.0
    times = subject.kernel_times(peak).of(subject.module.instruction(kernel))
    units = times.units
    longest_s = max(units.values())
    matrix_s, saved_s = units.get("matrix unit", 0.0), _saved_s(subject, products, element_type, peak)
    if saved_s <= 0:  # the other type takes as many passes: the rest of the kernel stays as it is
        return 0.0, 0.0
    if times.unit != CYCLES:
        other_s = max((seconds for unit, seconds in units.items() if unit != "matrix unit"), default=0.0)
        part = max(0.0, 1 - max(matrix_s - saved_s, other_s) / longest_s)
        return part, part
    memory_s, rounded = units.get("main memory", 0.0), sum(o.shape.byte_size for p in products for o in p.operands[:2])
    clock = 1.0 if isinstance(peak.clock, Unavailable) else peak.clock.per_s
    vector_s = _VECTOR * units.get("vector unit", 0.0) + _TRANSCENDENTAL * units.get("transcendental unit", 0.0)
    most_after_s = (
        matrix_s - saved_s + max(0.0, longest_s - matrix_s),
        vector_s,
        _CYCLES_OF_TILE * rounded / _TILE_BYTES / clock,
        _MEMORY[1] * memory_s,
    )
    least_after_s = matrix_s - saved_s, units.get("VMEM", 0.0), _MEMORY[0] * memory_s
    least, most = (max(0.0, 1 - max(seconds) / longest_s) for seconds in (most_after_s, least_after_s))
    return least, most


def _saved_s(subject: Subject, products: Sequence[Instruction], element_type: str, peak: Peak) -> float:
    """Returns the time on the matrix unit that another type of the operands saves."""
    saved = 0.0
    for product in products:
        for algorithm, flops in product_flops(product, subject.costs, peak):
            if isinstance(algorithm, Algorithm) and not isinstance(flops, Unavailable):
                seconds = float(flops) * algorithm.passes / peak.flops_per_s[algorithm.peak_name]
                saved += seconds * (1 - _rates_ratio(algorithm, element_type, peak))
    return saved


def _rates_ratio(now: Algorithm, element_type: str, peak: Peak) -> float:
    """Returns the time of a product in another type, relative to its present time at the matrix unit's peaks."""
    then = by_type(element_type, 0, peak)
    if not isinstance(then, Algorithm):
        return 1.0
    return min(1.0, (then.passes / peak.flops_per_s[then.peak_name]) / (now.passes / peak.flops_per_s[now.peak_name]))


def product_word(product: Instruction) -> str:
    """Returns "convolution", or "product" for others."""
    return "convolution" if product.opcode == "convolution" else "product"


def shapes_text(product: Instruction) -> str:
    """Returns the shapes of a product's operands, such as "32x256 times 256x512"."""
    return " times ".join("x".join(map(str, o.shape.dimensions)) for o in product.operands[:2])


def _is_product(subject: Subject, instruction: Instruction) -> bool:
    if instruction.custom_call_target == KERNEL:  # such as an attention that libtpu puts together
        body = subject.costs[instruction.name].body
        return body is not None and bool(body.products)
    return instruction.opcode in PRODUCTS or instruction.custom_call_target.startswith(_LIBRARIES)


def _nameless(subject: Subject) -> Iterator[Instruction]:
    for row in subject.module.columns.rows_of(PRODUCTS.__contains__):
        instruction = subject.module.at(row)
        if not instruction.op_name:
            yield instruction


def _terms_of(subject: Subject, kernel: Instruction) -> float:
    """Returns the number of terms that the products of a kernel add up; 0 if its body is unknown."""
    body = subject.costs[kernel.name].body
    return 0.0 if body is None else sum(flops for _, _, flops in body.products) / 2


def _size(product: Instruction) -> tuple[int, int]:
    """Returns the number of elements of the result, and of the terms of each."""
    result = math.prod(product.shape.dimensions)
    if product.opcode != "dot":
        return result, 0
    left = product.operands[0].shape.dimensions
    return result, math.prod(left[d] for d in product.proto.dot_dimension_numbers.lhs_contracting_dimensions)


def are_of_backward_pass(names: Iterable[str]) -> bool:
    """Reports whether JAX made all of some products for a backward pass, by their names."""
    return all("backward" in phases(name) for name in names)


def backward_remedy(narrow: str, wide: str) -> str:
    """Returns how the products of a backward pass get narrower gradients."""
    return (
        f"y = jnp.matmul(a, b).astype(jnp.{wide})  # in the forward pass, without preferred_element_type=jnp.{wide}, so that the gradient of the"
        f" product is {narrow}"
    )
