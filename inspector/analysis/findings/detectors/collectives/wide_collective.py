"""Collectives that send a wider float type than the values need.

XLA sends the narrower type by itself if every use of the result converts to it. It does not for sums, because that rounds them, nor on
TPUs for values that stay wide after the exchange.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from inspector.analysis.collectives.collective import over
from inspector.analysis.findings.at_line import is_same_line, lines_of
from inspector.analysis.findings.before import Use, full_name, is_scale, moved_from
from inspector.analysis.findings.dataflow import Value
from inspector.analysis.findings.detectors.collectives.operation_keys import function_of
from inspector.analysis.findings.edits import NarrowCollectives, NarrowProducts, stacks_of
from inspector.analysis.findings.exchange_chains import made_by, readers_of
from inspector.analysis.findings.exchanges import Exchange, pricing_of
from inspector.analysis.findings.finding import Finding
from inspector.analysis.findings.products import are_of_backward_pass, backward_remedy
from inspector.analysis.findings.storage import (
    FLOATS,
    computes_in,
    narrow_type,
    narrower_part,
    stored_uses,
    widened_type,
)
from inspector.analysis.findings.subject import Subject
from inspector.hlo.module import Instruction
from inspector.hlo.shape import NUMPY_TYPES, Shape, element_bits
from inspector.hlo.source import Origin, merged_names, phases
from inspector.support.units import format_array, format_bytes, format_list

KIND = "wide-collective"
_PRODUCT = "dot"
_SUMS = frozenset({"all-reduce", "reduce-scatter"})
_MOVES = frozenset({"all-gather", "all-to-all", "collective-permute"})
_ROUNDED = "The sum is then rounded to {narrow}: {wide} may be intended for its accuracy."


class _Wide(NamedTuple):
    """A collective, or a product of whose parts the partitioner makes one.

    Attributes:
      value: the operation before optimization.
      narrow: the narrower type; "" if it needs its type.
    """

    value: Value
    narrow: str


class _Match(NamedTuple):
    """A compiled collective, with the operations that became it."""

    exchange: Exchange
    found: tuple[_Wide, ...]


def wide_collective(subject: Subject) -> Iterator[Finding]:
    """Yields a finding for the collectives of each line."""
    if subject.calls is None:
        return
    exchanges = [each for each in subject.exchanges if _wide_type(each) in FLOATS]
    by_name: dict[str, list[_Wide]] = {}
    sent = {_wide_type(each) for each in exchanges}
    for value, name in subject.calls.values((*_SUMS, *_MOVES, _PRODUCT)) if exchanges else ():
        if value.instruction.shape.element_type in sent:
            by_name.setdefault(name, []).append(_Wide(value, _narrow(value)))
    groups: dict[tuple[object, ...], list[_Match]] = {}
    made = [_made_of(each, by_name) for each in exchanges]
    left = [each for named in by_name.values() for each in named if not any(each in found for found in made)]
    for each, named in zip(exchanges, made, strict=True):
        found = _narrow_only(named or _combined(each, by_name, left))
        narrow = {one.narrow for one in found}
        if len(narrow) == 1 and computes_in(next(iter(narrow)), subject):
            collective, first = each.collective, found[0].value.instruction
            key = (first.frames, first.opcode, collective.opcode, _wide_type(each), *narrow, str(collective.axes))
            groups.setdefault(key, []).append(_Match(each, found))
    for matches in groups.values():
        yield _finding(subject, matches)


def _wide_type(exchange: Exchange) -> str:
    """Returns the type that a collective sends; "" if it sends several."""
    types = {shape.element_type for shape in exchange.collective.operand_shapes}
    return types.pop() if len(types) == 1 else ""


def _made_of(exchange: Exchange, by_name: dict[str, list[_Wide]]) -> tuple[_Wide, ...]:
    """Returns the operations that may be those that became a collective, by name, line and size."""
    origin, opcode = exchange.collective.origin, exchange.collective.opcode
    sizes = [math.prod(shape.dimensions) for shape in exchange.collective.operand_shapes]
    named = [each for name in merged_names(origin.op_name) for each in by_name.get(name, ())]
    at_line = [each for each in named if is_same_line(lines_of(each.value.instruction.frames), lines_of(origin.frames))]
    found = [each for each in at_line or named if each.value.instruction.opcode == opcode]
    alike = [each for each in found if _operand_size(each.value) in sizes]
    if not alike and sum(_operand_size(each.value) for each in found) == sum(sizes):
        alike = found  # XLA for GPUs puts them into one array
    if not found and opcode in _SUMS:
        alike = [each for each in at_line or named if each.value.instruction.opcode == _PRODUCT]
    return tuple(alike)


def _combined(exchange: Exchange, by_name: dict[str, list[_Wide]], left: Sequence[_Wide]) -> tuple[_Wide, ...]:
    """Returns the operations that became a collective which XLA named after another one on the way; () if others may have."""
    collective = exchange.collective
    if any(name in by_name for name in merged_names(collective.origin.op_name)):
        return ()
    found = [each for each in left if each.value.instruction.opcode == collective.opcode]
    elements = sum(math.prod(shape.dimensions) for shape in collective.operand_shapes)
    if sum(_operand_size(each.value) for each in found) == elements:
        return tuple(found)
    return tuple(each for each in left if collective.opcode in _SUMS and _is_product_of(each.value, collective.origin))


def _is_product_of(value: Value, origin: Origin) -> bool:
    """Reports whether a product has the line and the pass of a collective, which may have the name of a transpose behind it."""
    return (
        value.instruction.opcode == _PRODUCT
        and bool(origin.frames)
        and is_same_line(lines_of(value.instruction.frames), lines_of(origin.frames))
        and phases(full_name(value)) == phases(origin.op_name)
    )


def _narrow_only(found: tuple[_Wide, ...]) -> tuple[_Wide, ...]:
    """Returns operations if all of them could send a narrower type, else ()."""
    return found if all(each.narrow for each in found) else ()


def _operand_size(value: Value) -> int:
    return math.prod(value.instruction.operands[0].shape.dimensions)


def _narrow(value: Value) -> str:
    """Returns the narrower type in which a collective could send its values; "" if there is none."""
    instruction = value.instruction
    wide = instruction.shape.element_type
    if len(instruction.operands) > (2 if instruction.opcode == _PRODUCT else 1):
        return ""
    if instruction.opcode == _PRODUCT:
        after = narrow_type(list(_scaled_uses(value)), wide)
        return after if any(_was_narrow(value, number, after) for number in range(2)) else ""
    before = widened_type([moved_from(value.operand(0))], wide)
    if instruction.opcode in _MOVES:
        return before or narrow_type(list(stored_uses(value)), wide)
    reduction = instruction.to_apply
    if reduction is None or (reduction.root.opcode == "add" and narrow_type(list(_scaled_uses(value)), wide) != before):
        return ""
    return before


def _was_narrow(value: Value, number: int, narrow: str) -> bool:
    """Reports whether an operand of a product has a type, or was converted from it."""
    wide = value.instruction.operands[number].shape.element_type
    return narrow in (wide, widened_type([moved_from(value.operand(number))], wide))


def _scaled_uses(value: Value) -> Iterator[Use]:
    """Yields the uses of a sum, followed through moves and through the scale of a mean by a constant."""
    for use in stored_uses(value):
        if use.user is not None and is_scale(use.user, use.operand):
            yield from _scaled_uses(use.user)
        else:
            yield use


def _finding(subject: Subject, matches: Sequence[_Match]) -> Finding:
    exchanges = [each.exchange for each in matches]
    found = [one for each in matches for one in each.found]
    collective, operation = exchanges[0].collective, found[0].value.instruction
    wide, narrow = NUMPY_TYPES[_wide_type(exchanges[0])], NUMPY_TYPES[found[0].narrow]
    is_product, is_sum = operation.opcode == _PRODUCT, collective.opcode in _SUMS and collective.reduction == "add"
    if is_product:
        what = f"the results of a product in {wide}, although every use converts them to {narrow}"
    elif is_sum:
        what = f"{narrow} values in {wide}: they are converted before it and back after it"
    elif _is_widened(found[0].value):
        what = f"{narrow} values in {wide}: they are converted before it"
    else:
        what = f"{wide} values, although every use converts them to {narrow}"
    is_one, size = len(exchanges) == 1, sum(each.collective.operand_bytes for each in exchanges)
    name = f"The {collective.opcode}" if is_one else f"{len(exchanges)} {collective.opcode}s"
    title = (
        f"{name}{over(collective.axes)}{subject.at_line(operation.frames)} ({format_bytes(size)} per device)"
        f" send{'s' * is_one} {what}."
    )
    remedy = _product_remedy(found[0], wide, narrow) if is_product else _remedy(found[0], is_sum, wide, narrow)
    return subject.finding(
        KIND, title, remedy, frames=operation.frames,
        saved=_beside(subject, matches) | {each.holder: 1.0 for each in exchanges}, instead_s=sum(_narrow_s(subject, each) for each in matches),
        gain_source="the speed and latency of the links, and the times of the kernels", caution=_ROUNDED.format(narrow=narrow, wide=wide) if is_sum else "",
        edits=_edits(found),
    )  # fmt: skip


def _beside(subject: Subject, matches: Sequence[_Match]) -> dict[str, float]:
    """Returns the kernels that write the operands of collectives and read their results, each with the part of its time that is saved.

    None for TPUs, where operands and results are often in VMEM.
    """
    found: dict[str, float] = {}
    if subject.compiled.target.kind == "tpu":
        return found
    for exchange, (first, *_) in matches:
        start = exchange.operation.holder
        ends = [(made_by(each), each) for each in start.operands]
        ends += [(reader, each) for reader in readers_of(start) for each in reader.operands if made_by(each) is start]
        for kernel, value in ends:
            shape = value.shape
            if kernel.name in subject.points and not shape.is_tuple and shape.element_type in FLOATS:
                width = (element_bits(shape.element_type) - element_bits(first.narrow)) / 8
                part = narrower_part(subject, kernel.name, math.prod(shape.dimensions) * width)
                found[kernel.name] = min(1.0, found.get(kernel.name, 0.0) + part)
    return found


def _edits(found: Sequence[_Wide]) -> tuple[NarrowCollectives | NarrowProducts, ...]:
    names = tuple(dict.fromkeys(full_name(each.value) for each in found))
    narrow, stacks = found[0].narrow, stacks_of(each.value.instruction.frames for each in found)
    is_mixed = any(_wide_operands(each.value.instruction) for each in found)
    products = (NarrowProducts(names, narrow, stacks),) if is_mixed else ()
    return (*products, NarrowCollectives(names, narrow, stacks))


def _wide_operands(operation: Instruction) -> list[Instruction]:
    """Returns the operands of a product that have the type of its result."""
    is_product = operation.opcode == _PRODUCT
    return [
        each for each in operation.operands if is_product and each.shape.element_type == operation.shape.element_type
    ]


def _product_remedy(product: _Wide, wide: str, narrow: str) -> str:
    if are_of_backward_pass([full_name(product.value)]):
        return backward_remedy(narrow, wide)
    if operands := _wide_operands(product.value.instruction):
        computed = [
            each
            for number, each in enumerate(product.value.instruction.operands)
            if not _was_narrow(product.value, number, product.narrow)
        ]
        shapes = format_list([format_array(wide, each.shape.dimensions) for each in computed or operands])
        return f"# convert {shapes} to {narrow} before the product, so that its result is {narrow} too"
    return f"# without preferred_element_type=jnp.{wide}, so that the product's result has the type of its operands"


def _is_widened(value: Value) -> bool:
    """Reports whether the values of a collective were converted from a narrower type."""
    return bool(widened_type([moved_from(value.operand(0))], value.instruction.shape.element_type))


def _remedy(found: _Wide, is_sum: bool, wide: str, narrow: str) -> str:
    call = f"jax.lax.{function_of(found.value.instruction.op_name) or 'psum'}"
    if is_sum:
        return f"{call}(x, axis)  # convert x neither before nor after"
    if not _is_widened(found.value):
        return f"{call}(x.astype(jnp.{narrow}), axis)  # convert before, not after"
    return f"{call}(x, axis).astype(jnp.{wide})  # convert after, not before"


def _narrow_s(subject: Subject, match: _Match) -> float:
    """Returns the seconds of a collective that sends the narrower type."""
    collective, narrow = match.exchange.collective, match.found[0].narrow
    pricing = pricing_of(subject.collectives, subject.roofline.peak, subject.compiled.target)

    def narrowed(shapes: Sequence[Shape]) -> tuple[Shape, ...]:
        return tuple(dataclasses.replace(shape, element_type=narrow) for shape in shapes)

    one = dataclasses.replace(
        collective,
        operand_shapes=narrowed(collective.operand_shapes),
        result_shapes=narrowed(collective.result_shapes),
    )
    return float(pricing.price(one).known_s) * match.exchange.executions
