"""The blocks that partitions keep of an all-reduce which a fusion slices: the form of a reduce-scatter on TPUs.

libtpu looks up the block by partition in a table, so the order of the group may differ from the order of the blocks.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

from inspector.errors import Unavailable
from inspector.hlo.loops import carried_unchanged, integers
from inspector.hlo.module import Instruction

_SAME = frozenset({"bitcast", "convert", "copy", "copy-done", "copy-start", "reshape"})
_HANDED_ON = frozenset({"parameter", "get-tuple-element", "copy", "copy-done", "copy-start"})
_DIVIDING = frozenset({"divide", "remainder"})
_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "add": operator.add, "and": operator.and_, "divide": operator.floordiv, "maximum": max, "minimum": min,
    "multiply": operator.mul, "remainder": operator.mod, "shift-left": operator.lshift,
    "shift-right-logical": operator.rshift, "subtract": operator.sub,
}  # fmt: skip
"""Operations on integers of at least zero, such as offsets."""
_OF_POSITIVE = frozenset({"and", "divide", "remainder", "shift-left", "shift-right-logical"})
"""Operations whose result for negative numbers depends on their type."""
_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "EQ": operator.eq, "NE": operator.ne, "LT": operator.lt, "LE": operator.le, "GT": operator.gt, "GE": operator.ge,
}  # fmt: skip
"""JAX adds the size of a dimension to a negative offset."""
_UNREAD = Unavailable("the slice's offset does not come from a table of partitions that inspector can read")


def sliced_dimension(part: Instruction) -> int | None:
    """Returns the one dimension in which a slice is smaller than its operand; None if there is none or several."""
    whole, sliced = part.operands[0].shape.dimensions, part.shape.dimensions
    smaller = [d for d, (a, b) in enumerate(zip(sliced, whole, strict=True)) if a < b]
    return smaller[0] if len(smaller) == 1 else None


def kept_blocks(parts: Sequence[Instruction], num_partitions: int) -> tuple[int, ...] | Unavailable:
    """Returns the number of the block that each partition keeps.

    Args:
      parts: the `dynamic-slice`s of one fusion, one per array.
      num_partitions: number of partitions of the program.
    """
    blocks = {_blocks(part, num_partitions) for part in parts}
    return blocks.pop() or _UNREAD if len(blocks) == 1 else _UNREAD


def _blocks(part: Instruction, num_partitions: int) -> tuple[int, ...]:
    """Returns the block numbers for one array; () if its offset cannot be read."""
    dimension = sliced_dimension(part)
    if dimension is None:
        return ()
    offsets, size = by_partition(part.operands[1 + dimension], num_partitions), part.shape.dimensions[dimension]
    whole = all(offset % size == 0 for offset in offsets)
    return tuple(offset // size for offset in offsets) if whole and len(offsets) == num_partitions else ()


def by_partition(scalar: Instruction, num_partitions: int) -> tuple[int, ...]:
    """Returns the value of a scalar integer on each partition.

    It must be computed from the partition id, constants and tables of constants, with the arithmetic and comparisons of offsets. Fusions, and
    elements that loops do not change, are followed. Otherwise the result is ().
    """
    if scalar.opcode in _SAME:
        return by_partition(scalar.operands[0], num_partitions)
    if scalar.opcode in ("parameter", "get-tuple-element"):
        given = _given(scalar)
        return () if given is None else by_partition(given, num_partitions)
    if scalar.opcode == "partition-id":
        return tuple(range(num_partitions))
    if scalar.opcode == "constant":
        return integers(scalar) * num_partitions if not scalar.shape.dimensions else ()
    if scalar.opcode in _ARITHMETIC:
        one, other = (by_partition(operand, num_partitions) for operand in scalar.operands)
        if len(one) != len(other) or (scalar.opcode in _DIVIDING and not all(other)):
            return ()
        if scalar.opcode in _OF_POSITIVE and min((*one, *other), default=0) < 0:
            return ()
        return tuple(_ARITHMETIC[scalar.opcode](a, b) for a, b in zip(one, other, strict=True))
    if scalar.opcode in ("compare", "select", "clamp"):
        return _chosen(scalar, [by_partition(operand, num_partitions) for operand in scalar.operands])
    if scalar.opcode == "dynamic-slice" and len(scalar.operands) == 2:
        source: Instruction | None = scalar.operands[0]
        while source is not None and source.opcode in _HANDED_ON:
            source = _given(source) if source.opcode in ("parameter", "get-tuple-element") else source.operands[0]
        table = () if source is None or source.opcode != "constant" else integers(source)
        at = by_partition(scalar.operands[1], num_partitions)
        return tuple(table[i] for i in at if 0 <= i < len(table))
    return ()


def _chosen(scalar: Instruction, operands: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Returns the value on each partition of a comparison, or of an index that is clamped or counted from the end."""
    if not all(operands):
        return ()
    each = list(zip(*operands, strict=True))
    if scalar.opcode == "compare":
        compared = _COMPARISONS.get(str(scalar.proto.comparison_direction))
        return () if compared is None else tuple(int(compared(a, b)) for a, b in each)
    if scalar.opcode == "select":
        return tuple(a if condition else b for condition, a, b in each)
    return tuple(max(low, min(value, high)) for low, value, high in each)


def _given(value: Instruction) -> Instruction | None:
    """Returns the value outside of a fusion or of a loop that a parameter, or an element of it, is; None for others."""
    parameter = value.operands[0] if value.opcode == "get-tuple-element" else value
    if parameter.opcode != "parameter" or parameter.computation.is_entry:
        return None
    callers = parameter.computation.module.callers.get(parameter.computation.name, ())
    if len(callers) != 1:
        return None
    if callers[0].opcode == "while":
        return carried_unchanged(callers[0], value.tuple_index) if value is not parameter else None
    return callers[0].operands[int(value.proto.parameter_number)] if value is parameter else None
