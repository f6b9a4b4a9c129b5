"""Matrix products of operands that were converted to a wider type, so that the matrix unit runs at the wide type's rate.

A product of two bfloat16 arrays with a float32 result has the same terms and the same float32 sums without the conversions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from inspector.analysis.findings.before import MOVING, moved_from
from inspector.analysis.findings.dataflow import Value
from inspector.analysis.findings.edits import NarrowProducts, stacks_of
from inspector.analysis.findings.exchange_chains import makers_of, readers_of
from inspector.analysis.findings.finding import Finding
from inspector.analysis.findings.products import (
    PRODUCTS,
    Saved,
    are_of_backward_pass,
    backward_remedy,
    number_of_terms,
    optimized_products,
    part_of_named,
    product_word,
    saved_by_type,
    shapes_text,
)
from inspector.analysis.findings.subject import Subject
from inspector.errors import Unavailable
from inspector.hlo.module import Instruction
from inspector.hlo.shape import element_bits
from inspector.hlo.source import Frame, own_frame, phases
from inspector.support.units import counted, format_array

KIND = "upcast-product"
_CUDNN = "__cudnn$conv"  # computes no float32 result from narrower operands
_COMBINES_INSIDE = (0, 12)
_NAMES = {"bf16": "bfloat16", "f16": "float16", "f32": "float32"}  # `float64` finds wider ones


_BESIDE_CAUTION = "Collectives run beside these products. XLA may order them in another way if the products are shorter: the proof shows the gain."


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
    groups: dict[tuple[Frame | None, str, str], list[_Product]] = {}
    for value, name in subject.calls.values(PRODUCTS):
        product = _converted(subject, value, name)
        if product is not None:
            key = own_frame(value.instruction.frames), product.narrow, product.wide
            groups.setdefault(key, []).append(product)
    for (_, narrow, wide), products in groups.items():
        both = all(len(product.converted) == 2 for product in products)
        wide_products = [
            (instruction, kernel)
            for instruction, kernel in optimized_products(subject, [(p.value, p.name) for p in products])
            if instruction.operands[0].shape.element_type == wide
            and not instruction.custom_call_target.startswith(_CUDNN)
        ]
        # XLA may combine products of several lines
        own, whole = (
            sum(map(number_of_terms, found))
            for found in ((p.value.instruction for p in products), {each for each, _ in wide_products})
        )
        part = min(part_of_named(subject, [(p.value, p.name) for p in products]), own / whole if whole else 1.0)
        saved = saved_by_type(subject, wide_products, narrow)
        rounding = _rounding_part(subject, products, wide_products, narrow, saved.kernels)
        saved = saved._replace(part=part * saved.part - rounding)
        if saved.kernels and saved.part > 0:
            yield _finding(subject, products, narrow, wide, both, saved)
        elif not both and (stored := _stored(subject, wide_products, narrow)):
            yield _stored_finding(subject, products, narrow, wide, stored)


class _Stored(NamedTuple):
    """The kernels that write and read the wide operand of a product, and would round it.

    Attributes:
      operands: the kernels that write it.
      saved: the part of the time of all kernels that is saved, by name.
    """

    operands: tuple[Instruction, ...]
    saved: Mapping[str, float]


def _stored(subject: Subject, wide_products: Sequence[tuple[Instruction, str]], narrow: str) -> _Stored | None:
    """Returns the kernels that write the wide operand of products of GPUs, and only for them; None if that takes no time."""
    if subject.compiled.program.platform != "gpu":
        return None
    operands, saved = list[Instruction](), dict[str, float]()
    for product, kernel in wide_products:
        reader = subject.module.instruction(kernel)
        for maker in {*makers_of(reader)}:
            is_read_wide = any(_read_from(operand, reader) is maker for operand in product.operands)
            is_alone = maker.name in subject.points and {*readers_of(maker)} == {reader} and not maker.shape.is_tuple
            if not is_read_wide or not is_alone or maker.shape.element_type != product.operands[0].shape.element_type:
                continue
            bytes_ = maker.shape.byte_size * (1 - element_bits(narrow) / element_bits(maker.shape.element_type))
            for each in (maker.name, kernel):
                point = subject.points[each]
                runs = 1.0 if isinstance(point.executions, Unavailable) else float(point.executions)
                if point.limited_by == "main memory" and (accessed := subject.accessed(each)):
                    saved[each] = min(1.0, bytes_ * runs / accessed)
            operands.append(maker)
    return _Stored(tuple(operands), saved) if saved else None


def _read_from(operand: Instruction, kernel: Instruction) -> Instruction | None:
    """Returns the kernel that makes an operand of a product in a kernel, if it is only moved in between; None for others."""
    value = operand
    while value.opcode in MOVING:
        value = value.operands[0]
    if kernel.opcode == "fusion":
        if value.parameter_number is None:
            return None
        value = kernel.operand(value.parameter_number)
    while value.opcode in MOVING:
        value = value.operands[0]
    return value


def _stored_finding(subject: Subject, products: list[_Product], narrow: str, wide: str, stored: _Stored) -> Finding:
    first = products[0].value.instruction
    narrow_name, wide_name = _NAMES[narrow], _NAMES[wide]
    times = f" and {counted(len(products) - 1, 'other product')}" if len(products) > 1 else ""
    size = max((each.shape for each in stored.operands), key=lambda shape: shape.byte_size)
    title = (
        f"One operand of the {product_word(first)} {shapes_text(first)}{times} is converted from {narrow_name} to {wide_name}, so the other one,"
        f" {format_array(size.element_type, size.dimensions)}, is written and read in {wide_name}."
    )
    half = 1 - element_bits(narrow) / element_bits(wide)
    at_peak = subject.at_peak or {}
    remedy = f"jnp.matmul(a, b.astype(jnp.{narrow_name}), preferred_element_type=jnp.{wide_name})  # with a in {narrow_name}, and b the other operand"
    if are_of_backward_pass(product.name for product in products):
        remedy = backward_remedy(narrow_name, wide_name)
    return subject.finding(
        KIND, title, remedy,
        saved=stored.saved, frames=first.frames, gain_bytes=int(half * sum(at_peak.get(each.name, 0) for each in stored.operands)),
        caution=f"The wide operand is rounded to {narrow_name}. Keep it if its last digits matter.",
        edits=(_narrowing(products, narrow),),
    )  # fmt: skip


def _narrowing(products: Sequence[_Product], narrow: str) -> NarrowProducts:
    names = tuple(dict.fromkeys(p.name for p in products))
    return NarrowProducts(names, narrow, stacks_of(p.value.instruction.frames for p in products))


def _rounding_part(
    subject: Subject,
    products: Sequence[_Product],
    wide_products: Sequence[tuple[Instruction, str]],
    narrow: str,
    kernels: Sequence[str],
) -> float:
    """Returns the time of the kernels that round the other operands first, relative to that of the products.

    XLA rounds them in the kernel of the product, unless it calls a library, or combines several products and is older than in
    jaxlib 0.12.
    """
    numbers = {number for each in products for number in (0, 1) if number not in each.converted}
    peak, whole = subject.roofline.peak, subject.seconds(kernels)
    if isinstance(peak, Unavailable) or isinstance(whole, Unavailable) or not whole:
        return 0.0
    terms = [number_of_terms(each.value.instruction) for each in products]
    is_combined_apart = _version(subject.compiled.versions.get("jaxlib", "")) < _COMBINES_INSIDE
    accessed = 0.0
    for instruction, kernel in wide_products:
        is_combined = max(terms) < number_of_terms(instruction) <= sum(terms)
        if instruction.opcode == "custom-call" or (is_combined and is_combined_apart):
            runs = subject.points[kernel].executions
            sizes = [instruction.operands[number].shape for number in numbers]
            bytes_ = sum(
                each.byte_size * (1 + element_bits(narrow) / element_bits(each.element_type)) for each in sizes
            )
            accessed += bytes_ * (1.0 if isinstance(runs, Unavailable) else float(runs))
    return accessed / peak.memory_bytes_per_s / whole


def _version(text: str) -> tuple[int, ...]:
    """Returns the first two numbers of a version; () if it is unknown."""
    return tuple(int(part) for part in text.split(".")[:2] if part.isdecimal())


def _finding(subject: Subject, products: list[_Product], narrow: str, wide: str, both: bool, saved: Saved) -> Finding:
    first = products[0].value.instruction
    narrow_name, wide_name = _NAMES[narrow], _NAMES[wide]
    arguments = [f"`{each}`" for each in products[0].arguments if each]
    are_both = len(products[0].converted) == 2
    what = "Both operands" if are_both else "One operand"
    names = " and ".join(arguments)
    if are_both and len(arguments) == 1:
        names = f"{names} and a computed array"
    more = f" ({names})" if names else ""
    times = f" and {counted(len(products) - 1, 'other product')}" if len(products) > 1 else ""
    title = (
        f"{what}{more} of the {product_word(first)} {shapes_text(first)}{times} {'are' if are_both else 'is'} converted from {narrow_name} to {wide_name}"
        f" first, so the product runs at the rate of {wide_name}."
    )
    remedy = f"jnp.matmul(a, b, preferred_element_type=jnp.{wide_name})  # with a and b in {narrow_name}, without .astype(jnp.{wide_name})"
    caution = "" if both else f"The wide operand is rounded to {narrow_name}. Keep it if its last digits matter."
    if any(
        "backward" in phases(product.name) for product in products
    ):  # preferred_element_type leaves their gradients wide
        remedy = backward_remedy(narrow_name, wide_name)
        caution = f"{caution} The result of the forward product is rounded to {narrow_name} too.".strip()
    if subject.are_beside_collectives(saved.kernels):
        caution = f"{caution} {_BESIDE_CAUTION}".strip()
    return subject.finding(
        KIND, title, remedy, instructions=saved.kernels, frames=first.frames, saved_part=saved.part, is_upper_bound=saved.is_upper_bound, caution=caution,
        edits=(_narrowing(products, narrow),),
    )  # fmt: skip


def _converted(subject: Subject, value: Value, name: str) -> _Product | None:
    """Returns the product if operands were converted from one narrower float type and the others are wide."""
    wide = value.instruction.operands[0].shape.element_type
    if wide != "f32" or value.instruction.operands[1].shape.element_type != wide:
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
