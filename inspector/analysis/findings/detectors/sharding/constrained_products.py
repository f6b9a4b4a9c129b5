"""Arrays between two products that a constraint makes whole along an axis, although both products are split over it.

Such as the hidden layer of a network whose first weight is split by columns and whose second by rows: the first product makes the parts that
the second one needs. The constraint makes XLA gather the array, or a weight, and slice it again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from inspector.analysis.collectives.collective import Collective
from inspector.analysis.findings.at_line import Lines, is_same_line, lines_of
from inspector.analysis.findings.before import Before, full_name
from inspector.analysis.findings.dataflow import Value
from inspector.analysis.findings.detectors.collectives.operation_keys import keys_in
from inspector.analysis.findings.detectors.sharding.constraint_detours import behind, is_by_element, is_constraint
from inspector.analysis.findings.detectors.sharding.product_splits import (
    Splits,
    axes_of_result,
    axes_of_value,
    splits_of,
)
from inspector.analysis.findings.edits import DropConstraints, stacks_of
from inspector.analysis.findings.exchange_chains import readers_of, saved_with
from inspector.analysis.findings.finding import Finding
from inspector.analysis.findings.subject import Subject
from inspector.errors import Unavailable
from inspector.hlo.module import Instruction
from inspector.hlo.source import Frame
from inspector.support.units import format_array, format_list

_MOST_VALUES = 100
_BESIDE = frozenset({"broadcast", "constant", "parameter"})
"""Operands of elementwise operations besides a product: a bias or a scale."""


class ConstrainedProduct(NamedTuple):
    """A constraint of an array that one product makes in parts, and that other products read in parts.

    Attributes:
      constraint: the constraint.
      axes: the mesh axes along which it makes the array whole.
      devices: number of devices along these axes.
      part: number of elements of a device's part of the array.
      maker: the product that makes the array.
      wholes: the array, and the operands of the products around it that are split: what may be gathered for the constraint.
      lines: the lines of the operations beside it, which are its neighbors and the products.
    """

    constraint: Instruction
    axes: tuple[str, ...]
    devices: int
    part: int
    maker: Value
    wholes: tuple[Instruction, ...]
    lines: frozenset[Lines]


def constrained_products(subject: Subject, kind: str, collectives: Sequence[Collective]) -> Iterator[Finding]:
    """Yields a finding for each line whose constraint makes arrays whole between products that are split over the same axes.

    Args:
      subject: the program.
      kind: the kind of the findings.
      collectives: the exchanges that the partitioner inserted.
    """
    if not collectives or subject.calls is None:
        return
    lines: dict[tuple[Frame, ...], list[ConstrainedProduct]] = {}
    for each in _constrained(subject.calls, splits_of(subject, subject.calls)):
        lines.setdefault(each.constraint.frames, []).append(each)
    for group in lines.values():
        exchanges = [c for c in collectives if any(_is_for(c, each) for each in group)]
        if exchanges:
            yield _finding(subject, kind, group, exchanges)


def _is_for(collective: Collective, product: ConstrainedProduct) -> bool:
    """Reports whether a collective gathers the array of a constraint, or an operand of its products, over the axes."""
    if isinstance(collective.axes, Unavailable) or {*map(str, collective.axes)} != {*product.axes}:
        return False
    own = lines_of(collective.origin.frames[:2])  # XLA may combine several, and name the result after one of them
    if not own or not any(is_same_line(own, each) for each in product.lines):
        return False
    got = [math.prod(shape.dimensions) for shape in collective.result_shapes]
    return any(math.prod(whole.shape.dimensions) % each == 0 for whole in product.wholes for each in got if each)


def _finding(
    subject: Subject, kind: str, group: Sequence[ConstrainedProduct], collectives: Sequence[Collective]
) -> Finding:
    first = group[0].constraint
    exchanges = [subject.module.instruction(each.name) for each in collectives]
    array = format_array(first.shape.element_type, first.shape.dimensions)
    at = subject.at_line(first.frames)
    shapes = dict.fromkeys(
        (each.constraint.shape.element_type, *map(str, each.constraint.shape.dimensions)) for each in group
    )
    title = (
        f"{array} is constrained{at} to be whole along {format_list(group[0].axes)}, although the products that make it and that use it are split"
        f" along {'it' if len(group[0].axes) == 1 else 'them'}."
    )
    saved = {name: 1 - 1 / each.devices for each in group for name in _of_wholes(subject, each)}
    return subject.finding(
        kind, title, f"Remove the sharding constraint{at}.", saved=saved | {**saved_with(subject, exchanges)}, frames=first.frames,
        edits=(DropConstraints(stacks_of(each.constraint.frames for each in group), tuple(shapes)),),
    )  # fmt: skip


def _of_wholes(subject: Subject, product: ConstrainedProduct) -> Iterator[str]:
    """Yields the kernels that compute the array on every device as a whole. Without the constraint, they compute a part of it."""
    named = subject.kernels.of([full_name(product.maker)])
    waiting, seen = [subject.module.instruction(name) for name in named], set[Instruction]()
    while waiting and len(seen) < _MOST_VALUES:
        each = waiting.pop()
        if each not in seen and product.part in (math.prod(leaf.dimensions) for leaf in each.shape.leaves):
            seen.add(each)
            waiting += readers_of(each)
            yield each.name


def _constrained(before: Before, splits: Splits) -> Iterator[ConstrainedProduct]:
    """Yields the constraints that make an array whole between two products that are split over the same axes."""
    called = dict(before.rows(("custom-call",)))
    for row in before.module.calls_to(("Sharding",)):
        there = before.module.at(row)
        for way in [call.calls for call in called.get(row, ())] if is_constraint(there) else ():
            if (found := _between(there, way, splits)) is not None:
                yield found
                break


def _between(there: Instruction, calls: tuple[Instruction, ...], splits: Splits) -> ConstrainedProduct | None:
    """Returns the products around a constraint if both are split over the same axes, which the constraint does not use."""
    asked, makers = splits.constraints.get(there.name, ()), behind(there.operands[0])
    products = [each for each in makers if each.opcode == "dot"]
    if len(products) != 1 or any(each.opcode not in _BESIDE for each in makers if each is not products[0]):
        return None
    used = {axis for axes in asked for axis in axes}
    for dimension, axes in enumerate(asked):
        made = () if axes else axes_of_result(Value(products[0], calls), dimension, splits)
        if not made or used & {*made}:
            continue
        readers = _readers(there)
        needs_parts = any(_contracted(user, n, dimension) is not None for user, n in readers)
        if needs_parts and all(_takes(Value(user, calls), n, dimension, made, splits) for user, n in readers):
            around = (products[0], *(user for user, _ in readers))
            weights = [each for one in around for each in one.operands if _is_split(Value(each, calls), made, splits)]
            beside = (there, *there.operands, *there.users, *around)
            lines = frozenset(key[1] for each in beside for key in keys_in(each))
            part = math.prod(there.shape.dimensions) // splits.count(used)
            return ConstrainedProduct(
                there, tuple(made), splits.count(made), part, Value(products[0], calls), (there, *weights), lines
            )
    return None


def _is_split(value: Value, axes: Sequence[str], splits: Splits) -> bool:
    """Reports whether axes split a dimension of an array."""
    rank = len(value.instruction.shape.dimensions)
    return any([*axes_of_value(value, dimension, splits)] == [*axes] for dimension in range(rank))


def _readers(there: Instruction) -> list[tuple[Instruction, int]]:
    """Returns the products that read a constraint's array, also after operations element by element, with the operand's number.

    [] if something else reads it.
    """
    found, waiting, seen = list[tuple[Instruction, int]](), [there], set[int]()
    while waiting:
        each = waiting.pop()
        if each.is_root or len(seen) > _MOST_VALUES:
            return []
        for user in each.users:
            if user.opcode == "dot":
                found += [(user, number) for number in user.positions_of(each)]
                continue
            is_same = is_constraint(user) and user.sharding == there.sharding
            if not (is_same or is_by_element(user)) or user.shape.dimensions != there.shape.dimensions:
                return []
            if user.row not in seen:
                seen.add(user.row)
                waiting.append(user)
    return found


def _contracted(product: Instruction, number: int, dimension: int) -> int | None:
    """Returns the dimension of the other operand with which a dimension of an operand is contracted; None if it is not contracted."""
    numbers = product.proto.dot_dimension_numbers
    sides = ([*numbers.lhs_contracting_dimensions], [*numbers.rhs_contracting_dimensions])
    if dimension not in sides[number]:
        return None
    return int(sides[1 - number][sides[number].index(dimension)])


def _takes(product: Value, number: int, dimension: int, axes: Sequence[str], splits: Splits) -> bool:
    """Reports whether a product can take an operand that axes split in a dimension, without another exchange of it."""
    numbers = product.instruction.proto.dot_dimension_numbers
    if dimension in (numbers.rhs_batch_dimensions if number else numbers.lhs_batch_dimensions):
        return False
    other = _contracted(product.instruction, number, dimension)
    if other is None:  # it makes a part of its result
        return True
    return [*axes_of_value(Value(product.instruction.operand(1 - number), product.calls), other, splits)] == [*axes]
