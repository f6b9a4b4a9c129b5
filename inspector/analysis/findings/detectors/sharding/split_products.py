"""Fused projections, such as queries, keys and values, whose result is split over devices and cut into parts that XLA then exchanges."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from inspector.analysis.collectives.collective import Collective
from inspector.analysis.findings.at_line import Lines, is_same_line, lines_of
from inspector.analysis.findings.before import Before, full_name, moved_from, uses
from inspector.analysis.findings.dataflow import BY_ELEMENT, Value
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
_CAUTION = "Programs that store the weight must use the new order of its columns."
_NO_AXES = Unavailable("the mesh axes that split the columns are not known")
_UNEVEN = Unavailable("the columns of a part do not divide among the devices")


class _Cut(NamedTuple):
    """A product whose result is cut into parts of equal columns.

    Attributes:
      product: the product.
      parts: the parts, by the numbers of their first columns.
      parameters: the numbers of the parameters with such columns; () if one is not known.
    """

    product: Value
    parts: dict[int, Value]
    parameters: frozenset[int]


def split_products(subject: Subject, kind: str, inserted: Sequence[Collective]) -> Iterator[Finding]:
    """Yields a finding for the products of each line whose results are cut into equal parts, for which XLA exchanges them.

    Args:
      subject: the program.
      kind: the kind of the findings.
      inserted: the exchanges that the partitioner inserted.
    """
    exchanges = [each for each in inserted if each.opcode in _EXCHANGES]
    if subject.calls is None or not exchanges:
        return
    cuts: dict[Value, _Cut] = {}
    for part, _ in subject.calls.values(("slice",)):
        found = _product(part)
        if found is not None:
            product, parameters = found
            cuts.setdefault(product, _Cut(product, {}, parameters)).parts[_start(part.instruction)] = part
    lines: dict[tuple[Lines, tuple[int, ...], int], list[_Cut]] = {}
    for cut in cuts.values():
        first, *others = cut.parts.values()
        shape, size = cut.product.instruction.shape.dimensions, first.instruction.shape.dimensions[-1]
        if others and [*sorted(cut.parts)] == [*range(0, shape[-1], size)]:
            lines.setdefault((lines_of(first.instruction.frames), tuple(shape), size), []).append(cut)
    for (_, shape, size), same in lines.items():
        parts = [part for cut in same for part in cut.parts.values()]
        gradients = [*_gradients(subject, parts[0], shape, size)]
        own = [each for each in exchanges if any(_is_for(each, cut) for cut in (*parts, *gradients))]
        if own:
            yield _finding(subject, kind, same, gradients, own)


def _start(part: Instruction) -> int:
    return int(part.proto.slice_dimensions[-1].start)


def _is_for(exchange: Collective, part: Value) -> bool:
    """Reports whether a compiled exchange comes from the cutting of a part, or from its gradient."""
    names = merged_names(exchange.origin.op_name)
    return full_name(part) in names and is_same_line(
        lines_of(exchange.origin.frames), lines_of(part.instruction.frames)
    )


def _product(part: Value) -> tuple[Value, frozenset[int]] | None:
    """Returns the product with an argument whose result is cut into parts of equal columns, maybe after a bias was added; None for other slices.

    The second value has the numbers of the parameters with these columns; it is empty if one is not known.
    """
    cut, shape = part.instruction.shape.dimensions, part.instruction.operands[0].shape.dimensions
    if (
        cut[:-1] != shape[:-1]
        or not cut
        or shape[-1] % cut[-1]
        or cut[-1] == shape[-1]
        or _start(part.instruction) % cut[-1]
    ):
        return None
    columns = list[int | None]()
    waiting, seen = [part.operand(0)], 0
    product: Value | None = None
    while waiting and seen < _MOST_VALUES:
        value, seen = waiting.pop(), seen + 1
        if value.instruction.opcode == "dot" and value.instruction.shape.dimensions == shape:
            if product is not None or not _is_with_argument(value):
                return None
            product = value
            columns.append(_parameter(value.operand(1)))
        elif value.instruction.opcode in BY_ELEMENT and value.instruction.shape.dimensions == shape:
            waiting += value.operands
        else:
            columns.append(_parameter(value))
    if product is None:
        return None
    known = frozenset(each for each in columns if each is not None and each != _EQUAL)
    return product, frozenset() if waiting or None in columns else known


_EQUAL = -1
"""The number for values that are equal in all columns."""


def _parameter(value: Value) -> int | None:
    """Returns the number of the parameter that a value with columns is; `_EQUAL` for a number, and None if it is not known."""
    while True:
        value = moved_from(value)
        if value.instruction.opcode != "convert":
            break
        value = value.operand(0)
    if not value.instruction.shape.dimensions:
        return _EQUAL
    is_argument = value.instruction.opcode == "parameter" and value.instruction.computation.is_entry
    return value.instruction.parameter_number if is_argument else None


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


def _has_other_use(cut: _Cut) -> bool:
    """Reports whether something other than the parts uses the columns of a product."""
    parts, waiting, seen = {*cut.parts.values()}, [cut.product], {cut.product}
    while waiting:
        for user, _ in uses(waiting.pop()):
            if user is None or (user not in parts and user.instruction.opcode not in BY_ELEMENT):
                return True
            if user not in parts and user not in seen:
                seen.add(user)
                waiting.append(user)
    return False


def _are_used_by_others(before: Before, parameters: Sequence[int], products: Sequence[Value]) -> bool:
    """Reports whether other products use parameters."""
    return any(
        product not in products and any(_parameter(operand) in parameters for operand in product.operands)
        for product, _ in (before.values(("dot",)) if parameters else ())
    )


def _gradients(subject: Subject, part: Value, shape: Sequence[int], size: int) -> Iterator[Value]:
    """Yields the operations of a part's line that put the gradients of parts together."""
    for value, name in subject.calls.values(("concatenate", "pad")) if subject.calls is not None else ():
        instruction = value.instruction
        operands = instruction.operands[:1] if instruction.opcode == "pad" else instruction.operands
        if (
            "transpose(" in name
            and tuple(instruction.shape.dimensions) == tuple(shape)
            and all([*each.shape.dimensions] == [*shape[:-1], size] for each in operands)
            and is_same_line(lines_of(instruction.frames), lines_of(part.instruction.frames))
        ):
            yield value


def _finding(
    subject: Subject, kind: str, cuts: Sequence[_Cut], gradients: Sequence[Value], exchanges: Sequence[Collective]
) -> Finding:
    product, parts = cuts[0].product, [*cuts[0].parts.values()]
    first, made = parts[0].instruction, product.instruction
    weight = subject.argument(product.operand(1)) or "w"
    count, times = len(parts), f" ({len(cuts)} times)" if len(cuts) > 1 else ""
    title = (
        f"{format_array(made.shape.element_type, made.shape.dimensions)}, the product with `{weight}`{times}, is split over devices in the dimension that is cut into {count} parts{subject.at_line(first.frames)}:"
        " XLA exchanges the parts."
    )
    rows, columns = made.operands[1].shape.dimensions
    remedy = (
        f"w = w.reshape({rows}, {count}, {columns // count})  # {weight}, split along the last dimension\n"
        'y = jnp.einsum("...d,dce->...ce", x, w)  # the parts are y[..., 0, :], y[..., 1, :], ...'
    )
    saved = saved_with(subject, [subject.module.instruction(each.name) for each in exchanges])
    changed = [*(part for cut in cuts for part in cut.parts.values()), *gradients]
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
    known = [cut.parameters for cut in cuts]
    parameters = sorted(frozenset().union(*known)) if is_comparable and all(known) else []
    if any(map(_has_other_use, cuts)) or _are_used_by_others(subject.calls, parameters, [cut.product for cut in cuts]):
        parameters = []
    changed = [*changed]
    names = tuple(dict.fromkeys(map(full_name, changed)))
    stacks = stacks_of(each.instruction.frames for each in changed)
    return (InterleaveColumns(names, width, count, devices, tuple(parameters), stacks),)
