"""The collectives of the optimized HLO that change a sharding there and back."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from inspector.analysis.collectives.collective import Collective
from inspector.analysis.findings.argument_behind import argument_behind
from inspector.analysis.findings.at_line import is_same_line
from inspector.analysis.findings.dataflow import Value, source
from inspector.analysis.findings.detectors.collectives.operation_keys import Key, is_beside, keys
from inspector.analysis.findings.detectors.sharding.constraint_detours import (
    ConstraintDetour,
    argument_shardings,
    behind,
    had,
    is_constraint,
    split_dimensions,
)
from inspector.analysis.findings.exchange_chains import chains, has_product, readers_of
from inspector.analysis.findings.subject import Subject
from inspector.errors import Unavailable
from inspector.hlo.module import Instruction


class DetourCollectives(NamedTuple):
    """The collectives of a detour.

    Attributes:
      collectives: those that change the sharding of the array, or that gather the operand of its product to split it otherwise.
      is_changed: whether there are some at both changes.
      saved_part: the part of their bytes that is not sent without the detour, from 0 to 1.
    """

    collectives: tuple[Collective, ...]
    is_changed: bool
    saved_part: float


def detour_collectives(
    subject: Subject, detours: Sequence[ConstraintDetour], collectives: Sequence[Collective]
) -> DetourCollectives | None:
    """Returns the collectives of a detour; None if there are none, or if as many bytes are sent without it."""
    wanted_first, wanted_second = (
        frozenset[Key]().union(*(each.beside_there for each in detours)),
        frozenset[Key]().union(*(each.beside_back for each in detours)),
    )
    there = detours[0].there
    near = [c for c in collectives if is_beside(c.origin, wanted_first) or is_beside(c.origin, wanted_second)]
    product = _product_behind(detours[0])
    gathers = [] if product is None else [
        c for c in near
        if c.opcode == "all-gather" and c.result_bytes == product.gathered.shape.byte_size and is_beside(c.origin, wanted_first)
    ]  # fmt: skip
    own = [
        c
        for c in near
        if c not in gathers
        and _is_of(subject, c, there)
        and (is_beside(c.origin, wanted_first) or not _is_for_product(subject, c, detours[0].back))
    ]
    own += _connected(subject, own, [c for c in collectives if c not in near], wanted_first | wanted_second, there)
    first, second = ([c for c in own if is_beside(c.origin, wanted)] for wanted in (wanted_first, wanted_second))
    is_changed = bool([c for c in first if c not in second] or gathers) and bool(second)
    sent, more = sum(map(_sent, own)), sum(map(_sent, gathers))
    instead = 0.0
    if product is not None and gathers:
        other = product.other
        if _is_split(subject, other):  # it must be gathered instead
            instead = more * other.shape.byte_size / product.gathered.shape.byte_size
    saved = sent + more - instead
    return DetourCollectives((*own, *gathers), is_changed, saved / (sent + more)) if saved > 0 else None


def _connected(
    subject: Subject,
    own: Sequence[Collective],
    others: Sequence[Collective],
    wanted: Collection[Key],
    array: Instruction,
) -> list[Collective]:
    """Returns further collectives at the lines of a detour that kernels connect with its collectives.

    XLA names a collective after one of the operations in the kernel before it, which is not always one beside the constraint.
    """
    lines = {each for _, each in wanted}
    candidates = {
        c.name: c
        for c in others
        if _is_of(subject, c, array) and any(is_same_line(key[1], each) for key in keys(c.origin) for each in lines)
    }
    if not candidates or not own:
        return []
    names = {each.name for each in own}
    exchanges = [subject.module.instruction(name) for name in (*names, *candidates)]
    joined = [chain.exchanges for chain in chains(exchanges) if any(each.name in names for each in chain.exchanges)]
    return [candidates[each.name] for chain in joined for each in chain if each.name in candidates]


def _sent(collective: Collective) -> float:
    """Returns the bytes that each device receives, as far as they are known."""
    bytes_ = float(max(collective.operand_bytes, collective.result_bytes))
    return bytes_ * (1.0 if isinstance(collective.executions, Unavailable) else float(collective.executions))


def _is_of(subject: Subject, collective: Collective, array: Instruction) -> bool:
    """Reports whether a collective can move an array: it has no more bytes, and does not move another argument."""
    if max(collective.operand_bytes, collective.result_bytes) > array.shape.byte_size:
        return False
    behind = argument_behind(subject.module.instruction(collective.name))
    if behind is None:
        return True
    if behind.opcode != "parameter" or not behind.computation.is_entry:  # a loop's element, such as a layer's weights
        return collective.opcode != "all-gather" or collective.result_bytes == array.shape.byte_size
    return behind.parameter_number in _arguments_behind(array.operands[0])


def _is_for_product(subject: Subject, collective: Collective, back: Instruction) -> bool:
    """Reports whether a collective gathers an array, which is split again, for a product behind it."""
    if collective.opcode != "all-gather" or not split_dimensions(back.sharding):
        return False
    return any(map(has_product, readers_of(subject.module.instruction(collective.name))))


def _arguments_behind(value: Instruction) -> set[int | None]:
    """Returns the numbers of the parameters from which a value is computed element by element, also if they are constrained first."""
    found, waiting, seen = set[int | None](), [value], set[int]()
    while waiting:
        for each in behind(waiting.pop()):
            if is_constraint(each) and each.row not in seen:
                seen.add(each.row)
                waiting.append(each.operands[0])
            elif each.opcode == "parameter":
                found.add(each.parameter_number)
    return found


class _ProductBehind(NamedTuple):
    """The product that makes the array of a detour.

    Attributes:
      gathered: the operand that has the split dimensions of the array, so that it is gathered for another split.
      other: the other operand.
    """

    gathered: Instruction
    other: Instruction


def _product_behind(detour: ConstraintDetour) -> _ProductBehind | None:
    """Returns the product of a detour's array; None without one, or if both operands have split dimensions."""
    products = [each for each in behind(detour.there.operands[0]) if each.opcode == "dot"]
    split = split_dimensions(detour.back.sharding)
    if len(products) != 1 or not split:
        return None
    (product,) = products
    contracted = product.proto.dot_dimension_numbers.lhs_contracting_dimensions
    left = len(product.operands[0].shape.dimensions) - len(contracted)  # the result has these dimensions first
    sides = {dimension >= left for dimension in split}
    if len(sides) != 1:
        return None
    number = int(sides.pop())
    return _ProductBehind(product.operands[number], product.operands[1 - number])


def _is_split(subject: Subject, value: Instruction) -> bool:
    """Reports whether an operand is split, as far as its argument or its constraint shows."""
    known = had(source(Value(value)), argument_shardings(subject))
    return any(map(split_dimensions, known))
