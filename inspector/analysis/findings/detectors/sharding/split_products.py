"""Fused projections, such as queries, keys and values, whose result is split over devices and cut into parts that XLA then exchanges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from inspector.analysis.collectives.collective import Collective
from inspector.analysis.findings.at_line import is_same_line, lines_of
from inspector.analysis.findings.before import full_name
from inspector.analysis.findings.dataflow import BY_ELEMENT, Value
from inspector.analysis.findings.exchange_chains import saved_with
from inspector.analysis.findings.finding import Finding
from inspector.analysis.findings.subject import Subject
from inspector.hlo.module import Instruction
from inspector.hlo.source import merged_names
from inspector.support.units import format_array

_EXCHANGES = frozenset({"collective-permute", "all-to-all", "all-gather"})
_MOST_VALUES = 10
_MATRIX = 2  # dimensions
_CAUTION = "Programs that store the weight must use the new order of its columns."


def split_products(subject: Subject, kind: str, inserted: Sequence[Collective]) -> Iterator[Finding]:
    """Yields a finding for each product whose result is cut into equal parts, for which XLA exchanges them.

    Args:
      subject: the program.
      kind: the kind of the findings.
      inserted: the exchanges that the partitioner inserted.
    """
    exchanges = [each for each in inserted if each.opcode in _EXCHANGES]
    groups: dict[Value, dict[int, Value]] = {}
    for value, _ in subject.calls.values(("slice",)) if subject.calls is not None and exchanges else ():
        product = _product(value)
        if product is not None:
            groups.setdefault(product, {}).setdefault(_start(value.instruction), value)
    for product, parts in groups.items():
        width, size = (
            each.shape.dimensions[-1] for each in (product.instruction, next(iter(parts.values())).instruction)
        )
        own = [each for each in exchanges if any(_is_for(each, part) for part in parts.values())]
        if len(parts) > 1 and [*sorted(parts)] == [*range(0, width, size)] and own:
            yield _finding(subject, kind, product, [*parts.values()], own)


def _start(part: Instruction) -> int:
    return int(part.proto.slice_dimensions[-1].start)


def _is_for(exchange: Collective, part: Value) -> bool:
    """Reports whether a compiled exchange comes from the cutting of a part."""
    names = merged_names(exchange.origin.op_name)
    return full_name(part) in names and is_same_line(
        lines_of(exchange.origin.frames), lines_of(part.instruction.frames)
    )


def _product(part: Value) -> Value | None:
    """Returns the product with an argument whose result is cut into parts of equal columns, maybe after a bias was added; None for other slices."""
    cut, shape = part.instruction.shape.dimensions, part.instruction.operands[0].shape.dimensions
    if (
        cut[:-1] != shape[:-1]
        or not cut
        or shape[-1] % cut[-1]
        or cut[-1] == shape[-1]
        or _start(part.instruction) % cut[-1]
    ):
        return None
    waiting, seen = [part.operand(0)], 0
    while waiting and seen < _MOST_VALUES:
        value, seen = waiting.pop(), seen + 1
        if value.instruction.shape.dimensions != shape:
            continue
        if value.instruction.opcode == "dot":
            weight = value.operand(1).instruction
            while weight.opcode in ("convert", "copy"):
                weight = weight.operands[0]
            is_argument = weight.opcode in ("parameter", "get-tuple-element", "dynamic-slice", "reshape")
            return (
                value
                if is_argument
                and len(value.instruction.operands[1].shape.dimensions) == _MATRIX
                and weight.shape.dimensions[-1:] == shape[-1:]
                else None
            )
        if value.instruction.opcode in BY_ELEMENT:
            waiting += value.operands
    return None


def _finding(
    subject: Subject, kind: str, product: Value, parts: Sequence[Value], exchanges: Sequence[Collective]
) -> Finding:
    first, made = parts[0].instruction, product.instruction
    weight = subject.argument(product.operand(1)) or "w"
    count = len(parts)
    title = (
        f"{format_array(made.shape.element_type, made.shape.dimensions)}, the product with `{weight}`, is split over devices in the dimension that is cut into {count} parts{subject.at_line(first.frames)}:"
        " XLA exchanges the parts."
    )
    rows, columns = made.operands[1].shape.dimensions
    remedy = (
        f"w = w.reshape({rows}, {count}, {columns // count})  # {weight}, split along the last dimension\n"
        'y = jnp.einsum("...d,dce->...ce", x, w)  # the parts are y[..., 0, :], y[..., 1, :], ...'
    )
    saved = saved_with(subject, [subject.module.instruction(each.name) for each in exchanges])
    return subject.finding(kind, title, remedy, saved=saved, frames=first.frames, caution=_CAUTION)
