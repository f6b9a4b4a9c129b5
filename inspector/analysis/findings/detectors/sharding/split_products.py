"""Fused projections, such as queries, keys and values, whose result is split over devices and cut into parts that XLA then exchanges."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from inspector.analysis.collectives.collective import Collective
from inspector.analysis.findings.at_line import Lines, is_same_line, lines_of
from inspector.analysis.findings.before import Before, full_name, uses
from inspector.analysis.findings.dataflow import BY_ELEMENT, Value, is_passing, source
from inspector.analysis.findings.detectors.sharding.product_splits import axes_of_result, splits_of
from inspector.analysis.findings.edits import Edit, InterleaveColumns, stacks_of
from inspector.analysis.findings.exchange_chains import saved_with
from inspector.analysis.findings.finding import Finding
from inspector.analysis.findings.subject import Subject
from inspector.errors import Unavailable
from inspector.hlo.module import Instruction
from inspector.hlo.source import merged_names
from inspector.support.units import format_array

_EXCHANGES = frozenset({"collective-permute", "all-to-all", "all-gather"})
_MOST_VALUES = 10
_MATRIX = 2  # dimensions
_CAUTION = "Convert stored weights to the new order of columns, and biases too."
_NO_AXES = Unavailable("the mesh axes that split the columns are not known")
_UNEVEN = Unavailable("the columns of a part are not divisible by the number of devices")


class _Cut(NamedTuple):
    """A product whose result is cut into parts of equal columns.

    Attributes:
      product: the product.
      parts: the parts, by the numbers of their first columns.
      between: the product, and the operations that combine it with other arrays element by element.
      sources: the numbers of the parameters with such columns; None for another array.
    """

    product: Value
    parts: dict[int, list[Value]]
    between: set[Value]
    sources: set[int | None]


def split_products(subject: Subject, kind: str, inserted: Sequence[Collective]) -> Iterator[Finding]:
    """Yields one finding for each line that cuts products into equal parts which XLA exchanges.

    Args:
      subject: the program.
      kind: the kind of the findings.
      inserted: the exchanges that the partitioner inserted.
    """
    exchanges = [each for each in inserted if each.opcode in _EXCHANGES]
    if subject.calls is None or not exchanges:
        return
    cuts: dict[tuple[Value, int], _Cut] = {}
    for part, _ in subject.calls.values(("slice",)):
        found = _cut(part)
        if found is not None:
            size = part.instruction.shape.dimensions[-1]
            cut = cuts.setdefault((found.product, size), found)
            cut.parts.setdefault(_start(part.instruction), []).append(part)
            cut.between.update(found.between)
            cut.sources.update(found.sources)
    lines: dict[tuple[Lines, tuple[int, ...], int], list[_Cut]] = {}
    for (product, size), cut in cuts.items():
        shape = product.instruction.shape.dimensions
        if len(cut.parts) > 1 and [*sorted(cut.parts)] == [*range(0, shape[-1], size)]:
            first = next(iter(cut.parts.values()))[0].instruction
            lines.setdefault((lines_of(first.frames), tuple(shape), size), []).append(cut)
    for (_, shape, size), same in lines.items():
        parts = _parts(same)
        gradients = [*_gradients(subject, parts, shape, size)]
        own = [each for each in exchanges if any(_is_for(each, cut) for cut in (*parts, *gradients))]
        if own:
            yield _finding(subject, kind, same, gradients, own)


def _parts(cuts: Iterable[_Cut]) -> list[Value]:
    return [part for cut in cuts for several in cut.parts.values() for part in several]


def _start(part: Instruction) -> int:
    return int(part.proto.slice_dimensions[-1].start)


def _is_for(exchange: Collective, part: Value) -> bool:
    """Reports whether a compiled exchange comes from the cutting of a part, or from its gradient."""
    names = merged_names(exchange.origin.op_name)
    return full_name(part) in names and is_same_line(
        lines_of(exchange.origin.frames), lines_of(part.instruction.frames)
    )


def _cut(part: Value) -> _Cut | None:
    """Returns the product with an argument of which a slice takes some columns, maybe after a bias was added, without parts; None for other slices."""
    cut, shape = part.instruction.shape.dimensions, part.instruction.operands[0].shape.dimensions
    if (
        cut[:-1] != shape[:-1]
        or not cut
        or shape[-1] % cut[-1]
        or cut[-1] == shape[-1]
        or _start(part.instruction) % cut[-1]
    ):
        return None
    width, last = shape[-1], len(shape) - 1
    products, sources = list[Value](), set[int | None]()
    waiting, between = [part.operand(0)], set[Value]()
    while waiting and len(between) < _MOST_VALUES:
        value = waiting.pop()
        if value in between:
            continue
        if value.instruction.opcode == "dot" and value.instruction.shape.dimensions == shape:
            between.add(value)
            products.append(value)
            sources.add(_parameter(value.operand(1), 1, width))
        elif value.instruction.opcode in BY_ELEMENT and value.instruction.shape.dimensions == shape:
            between.add(value)
            waiting += value.operands
        else:
            sources.add(_parameter(value, last, width))
    if waiting:
        sources.add(None)
    return _Cut(products[0], {}, between, sources) if len(products) == 1 and _is_with_argument(products[0]) else None


_EQUAL = -1
"""The number for values that are equal in all columns."""


def _parameter(value: Value, dimension: int, width: int) -> int | None:
    """Returns the number of the parameter whose last dimension is a dimension of a value.

    Args:
      value: the value.
      dimension: its dimension.
      width: the size of the parameter's dimension.

    Returns:
      The number; `_EQUAL` for a value that is equal along the dimension, and None if it is not known.
    """
    while True:
        value = source(value)
        instruction = value.instruction
        sizes = instruction.shape.dimensions
        if sizes[dimension] == 1:
            return _EQUAL
        if instruction.opcode == "parameter" and instruction.computation.is_entry:
            return instruction.parameter_number if (dimension, sizes[dimension]) == (len(sizes) - 1, width) else None
        if instruction.opcode == "broadcast":
            order = [*instruction.dimensions]
            if dimension not in order:
                return _EQUAL
            dimension = order.index(dimension)
        elif instruction.opcode == "transpose":
            dimension = instruction.dimensions[dimension]
        elif instruction.opcode in ("reshape", "slice", "dynamic-slice"):
            before, behind = instruction.operands[0].shape.dimensions, math.prod(sizes[dimension + 1 :])
            found = [d for d, n in enumerate(before) if n == sizes[dimension] and math.prod(before[d + 1 :]) == behind]
            if instruction.opcode != "reshape":
                found = [dimension] if before[dimension] == sizes[dimension] else []
            if not found:
                return None
            (dimension,) = found
        elif instruction.opcode not in ("convert", "copy"):
            return None
        value = value.operand(0)


def _is_with_argument(product: Value) -> bool:
    """Reports whether a product is one with a matrix that is an argument, or a layer of one."""
    weight = product.operand(1).instruction
    while weight.opcode in ("convert", "copy"):
        weight = weight.operands[0]
    return (
        [*product.instruction.proto.dot_dimension_numbers.rhs_contracting_dimensions] == [0]
        and weight.opcode in ("parameter", "get-tuple-element", "dynamic-slice", "reshape")
        and len(product.instruction.operands[1].shape.dimensions) == _MATRIX
        and weight.shape.dimensions[-1:] == product.instruction.shape.dimensions[-1:]
    )


def _have_other_use(before: Before, cuts: Sequence[_Cut], parameters: Sequence[int]) -> bool:
    """Reports whether something other than the parts uses the columns of products or of parameters."""
    between, parts = {value for cut in cuts for value in cut.between}, {*_parts(cuts)}
    users = (use.user for value in between for use in uses(value))
    if any(user is None or user not in between | parts for user in users):
        return True
    entry = [each for each in before.module.entry.parameters if each.parameter_number in parameters]
    if any(use.user is None for each in entry for use in uses(Value(each))):
        return True
    width = cuts[0].product.instruction.shape.dimensions[-1]
    own = between | parts
    return any(value not in own and _uses_columns(value, parameters, width) for value, _ in before.values(_READING))


_READING = BY_ELEMENT - {"convert"} | {
    "concatenate", "custom-call", "dot", "dynamic-slice", "dynamic-update-slice", "gather", "pad", "reduce", "reverse", "scatter", "slice", "sort",
}  # fmt: skip


def _uses_columns(value: Value, parameters: Sequence[int], width: int) -> bool:
    """Reports whether an operation other than one that takes whole columns uses those of parameters."""
    instruction = value.instruction
    if is_passing(instruction):
        return False
    for operand in value.operands:
        sizes = () if operand.instruction.shape.is_tuple else operand.instruction.shape.dimensions
        for dimension, size in enumerate(sizes):
            is_whole = (
                instruction.opcode in ("slice", "dynamic-slice") and instruction.shape.dimensions[dimension] == size
            )
            if size == width and not is_whole and _parameter(operand, dimension, width) in parameters:
                return True
    return False


def _gradients(subject: Subject, parts: Sequence[Value], shape: Sequence[int], size: int) -> Iterator[Value]:
    """Yields the operations of the parts' lines that put the gradients of parts together."""
    lines = {lines_of(part.instruction.frames) for part in parts}
    for value, name in subject.calls.values(("concatenate", "pad")) if subject.calls is not None else ():
        instruction = value.instruction
        operands = instruction.operands[:1] if instruction.opcode == "pad" else instruction.operands
        if (
            "transpose(" in name
            and tuple(instruction.shape.dimensions) == tuple(shape)
            and all([*each.shape.dimensions] == [*shape[:-1], size] for each in operands)
            and any(is_same_line(lines_of(instruction.frames), each) for each in lines)
        ):
            yield value


def _finding(
    subject: Subject, kind: str, cuts: Sequence[_Cut], gradients: Sequence[Value], exchanges: Sequence[Collective]
) -> Finding:
    product, parts = cuts[0].product, cuts[0].parts
    first, made = next(iter(parts.values()))[0].instruction, product.instruction
    weight = subject.argument(product.operand(1)) or "w"
    count, times = len(parts), f" ({len(cuts)} times)" if len(cuts) > 1 else ""
    array = format_array(made.shape.element_type, made.shape.dimensions)
    title = (
        f"The product with `{weight}`{times}, {array}, is cut into {count} parts{subject.at_line(first.frames)} along the dimension that is split"
        " over devices: XLA exchanges the parts."
    )
    rows, columns = made.operands[1].shape.dimensions
    remedy = (
        f"w = w.reshape({rows}, {count}, {columns // count})  # store {weight} so, split over devices along its last dimension\n"
        'y = jnp.einsum("...d,dce->...ce", x, w)  # the parts are y[..., 0, :], y[..., 1, :], ...'
    )
    saved = saved_with(subject, [subject.module.instruction(each.name) for each in exchanges])
    changed = [*_parts(cuts), *gradients]
    return subject.finding(
        kind, title, remedy, saved=saved, frames=first.frames, caution=_CAUTION, edits=_edits(subject, cuts, changed, not gradients)
    )  # fmt: skip


def _edits(
    subject: Subject, cuts: Sequence[_Cut], changed: Iterable[Value], is_comparable: bool
) -> tuple[Edit, ...] | Unavailable:
    """Returns the edit that gives each device its columns of every part. The results are comparable if none has such columns."""
    if subject.calls is None:
        return _NO_AXES
    product, count = cuts[0].product, len(cuts[0].parts)
    *rows, width = product.instruction.shape.dimensions
    splits = splits_of(subject, subject.calls)
    devices = splits.count(axes_of_result(product, len(rows), splits))
    if devices == 1:
        return _NO_AXES
    if width % (count * devices):
        return _UNEVEN
    sources = {each for cut in cuts for each in cut.sources} - {_EQUAL}
    known = sorted(each for each in sources if each is not None)
    if not is_comparable or None in sources or _have_other_use(subject.calls, cuts, known):
        known = []
    changed = [*changed]
    names = tuple(dict.fromkeys(map(full_name, changed)))
    stacks = stacks_of(each.instruction.frames for each in changed)
    return (InterleaveColumns(names, width, count, devices, tuple(known), stacks),)
