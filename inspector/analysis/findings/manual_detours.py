"""Exchanges there and back in a `shard_map`: `all_to_all`s or `ppermute`s with their inverse behind them.

The arrays in between are followed by the dimensions of their local parts. An `all_to_all` exchanges the leading part of a dimension with
the dimension over the devices; reshapes and transposes split, join and move the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from inspector.analysis.findings.before import Before
from inspector.analysis.findings.dataflow import BY_ELEMENT, Value
from inspector.hlo.module import Instruction

_BY_ELEMENT = BY_ELEMENT | {"copy", "optimization-barrier"}
_SMALL = frozenset({"constant", "broadcast", "iota"})
_EXCHANGES = frozenset({"all-to-all", "collective-permute"})
_MOST_VALUES = 100
_LEAST_REPEATED = 8

_Axes = tuple[tuple[int, ...], ...]
"""The parts of each dimension of a local array, by their numbers, outermost first."""


class ManualDetour(NamedTuple):
    """Exchanges and their inverse, with operations in between that combine arrays element by element.

    Attributes:
      there: the exchanges, in each call of their function.
      back: the exchanges that bring the values back.
    """

    there: tuple[Value, ...]
    back: tuple[Value, ...]


def manual_detours(before: Before) -> Iterator[ManualDetour]:
    """Yields the detours of a program by `all_to_all` or `ppermute`, each exchange in one of them."""
    seen = set[int]()
    for row, called in before.rows(_EXCHANGES):
        if row in seen or not called:
            continue
        detour = _Walk(before.module.at(row)).detour()
        if detour is not None:
            there, back = (tuple(Value(each, call.calls) for call in called for each in one) for one in detour)
            seen.update(each.instruction.row for each in (*there, *back))
            yield ManualDetour(there, back)


class _Walk:
    """A walk from an exchange to the exchanges that bring its values back."""

    def __init__(self, first: Instruction) -> None:
        """Stores the exchange."""
        self._first = first
        self._sizes: list[int] = []
        self._parts: dict[int, tuple[int, int]] = {}  # of a part that was split
        self._axes: dict[int, _Axes] = {}
        self._devices = self._new(_count(first))

    def detour(self) -> tuple[list[Instruction], list[Instruction]] | None:
        """Returns the exchanges there and back; None if an operation in between needs the values where they are."""
        first = self._first
        exchanged = self._exchanged(first, self._fresh(first.operands[0]))
        if exchanged is None:
            return None
        there, back, left = [first], dict[int, Instruction](), set[int]()
        self._axes[first.row] = exchanged
        waiting = [first]
        while waiting:
            each = waiting.pop()
            if each.is_root or not each.users or len(self._axes) > _MOST_VALUES:
                return None
            for user in each.users:
                if self._is_back(user, each):
                    back[user.row] = user
                elif user.row not in self._axes:
                    others = [o for o in user.operands if o.row not in self._axes and not _is_small(o)]
                    for other in others:  # they must have been exchanged too
                        found = self._alike_behind(other)
                        if not found:
                            return None
                        new = [one for one in found if one.row not in self._axes]
                        self._axes.update((one.row, exchanged) for one in new)
                        there += new
                        waiting += new
                    left.add(user.row)
                    if all(o.row in self._axes or _is_small(o) for o in others):
                        after = self._after(user, each)
                        if after is None:
                            return None
                        self._axes[user.row] = after
                        waiting.append(user)
        return (there, list(back.values())) if back and left <= self._axes.keys() else None

    def _alike_behind(self, value: Instruction) -> list[Instruction]:
        """Returns the exchanges, all like the first one, from which a value is computed; [] if there are others or none."""
        found, waiting, seen = list[Instruction](), [value], set[int]()
        while waiting:
            each = waiting.pop()
            if each.row in seen or _is_small(each):
                continue
            seen.add(each.row)
            if each.opcode in ("reshape", "transpose") or _is_by_element(each):
                waiting += each.operands
            elif each.row in self._axes or self._is_alike(each):
                found.append(each)
            else:
                return []
            if len(seen) > _MOST_VALUES:
                return []
        return found

    def _is_alike(self, other: Instruction) -> bool:
        first = self._first
        return (
            other.opcode == first.opcode
            and other.shape.dimensions == first.shape.dimensions
            and other.dimensions == first.dimensions
            and (
                other.source_target_pairs == first.source_target_pairs
                if first.opcode == "collective-permute"
                else other.replica_groups == first.replica_groups
            )
        )

    def _new(self, size: int) -> int:
        self._sizes.append(size)
        return len(self._sizes) - 1

    def _fresh(self, value: Instruction) -> _Axes:
        return tuple((self._new(size),) for size in value.shape.dimensions)

    def _after(self, user: Instruction, value: Instruction) -> _Axes | None:
        """Returns the parts of the dimensions of an operation's result; None if it is not known to work on single elements."""
        axes = self._axes[value.row]
        if user.opcode == "transpose":
            return tuple(axes[number] for number in user.dimensions)
        if user.opcode == "reshape":
            return self._split(axes, user.shape.dimensions)
        if not _is_by_element(user) or user.shape.dimensions != value.shape.dimensions:
            return None
        known = [self._axes[each.row] for each in user.operands if each.row in self._axes]
        one, *others = ([self._expanded(dimension) for dimension in each] for each in known)
        return axes if all(each == one for each in others) else None

    def _is_back(self, user: Instruction, value: Instruction) -> bool:
        """Reports whether an exchange brings the values back to the devices that had them."""
        if user.opcode != self._first.opcode:
            return False
        if user.opcode == "collective-permute":
            turned = {(target, source) for source, target in user.source_target_pairs}
            return turned == set(self._first.source_target_pairs)
        if user.replica_groups != self._first.replica_groups or len(user.operands) != 1:
            return False
        dimension = self._expanded(self._axes[value.row][user.dimensions[0]])
        return bool(dimension) and dimension[0] == self._devices

    def _exchanged(self, exchange: Instruction, axes: _Axes) -> _Axes | None:
        """Returns the parts of the dimensions of an exchange's result; None if it is not of the form that is followed."""
        if exchange.opcode == "collective-permute":
            pairs = exchange.source_target_pairs
            is_whole = {source for source, _ in pairs} == {target for _, target in pairs}
            return axes if is_whole and any(source != target for source, target in pairs) else None
        if len(exchange.operands) != 1 or not exchange.dimensions:
            return None
        number, count = exchange.dimensions[0], self._sizes[self._devices]
        if count < 2 or exchange.shape.dimensions[number] % count:
            return None
        inner = self._new(exchange.shape.dimensions[number] // count)
        return (*axes[:number], (self._devices, inner), *axes[number + 1 :])

    def _split(self, axes: _Axes, sizes: Sequence[int]) -> _Axes | None:
        """Returns the parts of the dimensions of a reshaped array; None if a part cannot be split as needed."""
        parts = [part for dimension in axes for part in self._expanded(dimension)]
        found: list[tuple[int, ...]] = []
        for size in sizes:
            taken, product = list[int](), 1
            while product < size and parts:
                part = parts.pop(0)
                needed = size // product
                if self._sizes[part] > needed:
                    if self._sizes[part] % needed or part == self._devices:
                        return None
                    outer, inner = self._new(needed), self._new(self._sizes[part] // needed)
                    self._parts[part] = outer, inner
                    parts.insert(0, inner)
                    part = outer
                taken.append(part)
                product *= self._sizes[part]
            if product != size:
                return None
            found.append(tuple(taken))
        return tuple(found)

    def _expanded(self, dimension: Sequence[int]) -> list[int]:
        """Returns the parts of a dimension, those that were split by their parts, without those of size 1."""
        found: list[int] = []
        for part in dimension:
            found += self._expanded(self._parts[part]) if part in self._parts else [part] * (self._sizes[part] > 1)
        return found


def _count(exchange: Instruction) -> int:
    """Returns the number of devices of each group of an `all_to_all`."""
    return exchange.replica_groups.shape()[1] if exchange.opcode == "all-to-all" else 1


def _is_by_element(instruction: Instruction) -> bool:
    """Reports whether an operation, or a function such as `silu`, combines arrays element by element."""
    if instruction.opcode != "call":
        return instruction.opcode in _BY_ELEMENT
    inside = instruction.called_computations[0].instructions
    return all(each.opcode in _SMALL | {"parameter"} or _is_by_element(each) for each in inside)


def _is_small(value: Instruction) -> bool:
    """Reports whether an operand is a scalar, or the same for many elements, such as a scale for each feature."""
    while value.opcode in ("copy", "convert", "reshape"):
        value = value.operands[0]
    if value.opcode == "broadcast":
        return math.prod(value.operands[0].shape.dimensions) * _LEAST_REPEATED <= math.prod(value.shape.dimensions)
    return value.opcode in _SMALL or not value.shape.dimensions
