"""Matrix products of operands that were converted to a wider type, so that the matrix unit runs at the wide type's rate.

A product of two bfloat16 arrays with a float32 result has the same terms and the same float32 sums without the conversions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from inspector.analysis.cost.dot_algorithms import Algorithm, algorithm_of, by_type
from inspector.analysis.findings.before import moved_from
from inspector.analysis.findings.dataflow import Value
from inspector.analysis.findings.edits import NarrowProducts
from inspector.analysis.findings.finding import Finding
from inspector.analysis.findings.products import PRODUCTS, optimized_products, shapes_text
from inspector.analysis.findings.subject import Subject
from inspector.errors import Unavailable
from inspector.hlo.module import Instruction
from inspector.hlo.shape import element_bits
from inspector.hlo.source import Frame, own_frame
from inspector.platforms import Peak
from inspector.support.units import counted

KIND = "upcast-product"
_CUDNN = "__cudnn$conv"  # computes no float32 result from narrower operands
_NAMES = {"bf16": "bfloat16", "f16": "float16", "f32": "float32", "f64": "float64"}


class _Product(NamedTuple):
    """A product with converted operands.

    `converted` has the numbers of the operands that were converted, `arguments` the arguments that they are.
    """

    value: Value
    name: str
    narrow: str
    wide: str
    converted: tuple[int, ...]
    arguments: tuple[str, ...]


def upcast_product(subject: Subject) -> Iterator[Finding]:
    """Yields one finding for each line with such products that would be faster in the narrower type."""
    if subject.calls is None:
        return
    groups: dict[tuple[Frame | None, str, str, bool], list[_Product]] = {}
    for value, name in subject.calls.values(PRODUCTS):
        product = _converted(subject, value, name)
        if product is not None:
            key = own_frame(value.instruction.frames), product.narrow, product.wide, len(product.converted) == 2
            groups.setdefault(key, []).append(product)
    for (_, narrow, wide, both), products in groups.items():
        kernels, saved = _saved(subject, products, narrow)
        if kernels and saved > 0:
            yield _finding(subject, products, narrow, wide, both, kernels, saved)


def _finding(
    subject: Subject, products: list[_Product], narrow: str, wide: str, both: bool, kernels: list[str], saved: float
) -> Finding:
    first = products[0].value.instruction
    narrow_name, wide_name = _NAMES[narrow], _NAMES[wide]
    names = " and ".join(f"`{each}`" for each in products[0].arguments if each)
    what = "Both operands" if both else "One operand"
    more = f" ({names})" if names else ""
    times = f" and {counted(len(products) - 1, 'other product')}" if len(products) > 1 else ""
    title = (
        f"{what}{more} of the product {shapes_text(first)}{times} {'are' if both else 'is'} converted from {narrow_name} to {wide_name}"
        f" first, so the product runs at the rate of {wide_name}."
    )
    remedy = f"jnp.matmul(a, b, preferred_element_type=jnp.{wide_name})  # with a and b in {narrow_name}, without .astype(jnp.{wide_name})"
    caution = "" if both else f"The other operand is rounded to {narrow_name}. Keep it if its last digits matter."
    return subject.finding(
        KIND, title, remedy, instructions=kernels, frames=first.frames, saved_part=saved, caution=caution,
        edits=(NarrowProducts(tuple(dict.fromkeys(p.name for p in products)), narrow),),
    )  # fmt: skip


def _converted(subject: Subject, value: Value, name: str) -> _Product | None:
    """Returns the product if operands were converted from one narrower float type and the others are wide."""
    wide = value.instruction.operands[0].shape.element_type
    if wide not in ("f32", "f64") or value.instruction.operands[1].shape.element_type != wide:
        return None
    narrow, converted, arguments = set[str](), list[int](), list[str]()
    for number in (0, 1):
        source = moved_from(value.operand(number))
        if source.instruction.opcode != "convert":
            continue
        kind = source.instruction.operands[0].shape.element_type
        if kind in _NAMES and element_bits(kind) < element_bits(wide):
            narrow.add(kind)
            converted.append(number)
            arguments.append(subject.argument(moved_from(source.operand(0))))
    if len(narrow) != 1:
        return None
    return _Product(value, name, narrow.pop(), wide, tuple(converted), tuple(arguments))


def _saved(subject: Subject, products: list[_Product], narrow: str) -> tuple[list[str], float]:
    """Returns the kernels of the products that are computed in the wide type, and the part of their time that is saved."""
    kernels, spent, saved = list[str](), 0.0, 0.0
    wide = {product.wide for product in products}
    for instruction, kernel in optimized_products(subject, [(product.value, product.name) for product in products]):
        is_wide = instruction.operands[0].shape.element_type in wide
        if kernel in kernels or not is_wide or instruction.custom_call_target.startswith(_CUDNN):
            continue
        time_s, part = subject.points[kernel].least_s, _part(subject, instruction, kernel, narrow)
        if isinstance(time_s, Unavailable):
            time_s = subject.accessed(kernel)
        kernels.append(kernel)
        spent += float(time_s)
        saved += float(time_s) * part
    return kernels, saved / spent if spent else 0.0


def _part(subject: Subject, product: Instruction, kernel: str, narrow: str) -> float:
    """Returns the part of a kernel's time that is saved, by the rates of the matrix unit and of the main memory."""
    peak, point = subject.roofline.peak, subject.points[kernel]
    if isinstance(peak, Unavailable):
        return (
            0.0 if product.operands[0].shape.element_type == "f32" else 0.5
        )  # CPUs compute narrower floats in float32
    ratio = rates_ratio(product, narrow, peak)
    if isinstance(point.least_s, Unavailable) or isinstance(point.flops, Unavailable) or not point.least_s:
        return 0.0
    bytes_ = 0.0 if isinstance(point.main_memory_bytes, Unavailable) else float(point.main_memory_bytes)
    memory_s = bytes_ / peak.memory_bytes_per_s
    after = max(float(point.least_s) * ratio, min(memory_s, float(point.least_s)))
    return max(0.0, 1 - after / float(point.least_s))


def rates_ratio(product: Instruction, narrow: str, peak: Peak) -> float:
    """Returns the time of a product in a narrower type, relative to its present time at the matrix unit's peaks."""
    now, then = algorithm_of(product, peak), by_type(narrow, 0, peak)
    if not isinstance(now, Algorithm) or not isinstance(then, Algorithm):
        return 1.0
    return min(1.0, (then.passes / peak.flops_per_s[then.peak_name]) / (now.passes / peak.flops_per_s[now.peak_name]))
