"""The blocks that partitions keep of an all-reduce which a fusion slices: the form of a reduce-scatter on TPUs.

libtpu looks up the block by partition in a table, so the order of the group may differ from the order of the blocks.
"""

from __future__ import annotations

from collections.abc import Sequence

from inspector.errors import Unavailable
from inspector.hlo.loops import integers
from inspector.hlo.module import Instruction

_SAME = frozenset({"bitcast", "convert", "copy", "reshape"})
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
    offsets, size = _by_partition(part.operands[1 + dimension], num_partitions), part.shape.dimensions[dimension]
    whole = all(offset % size == 0 for offset in offsets)
    return tuple(offset // size for offset in offsets) if whole and len(offsets) == num_partitions else ()


def _by_partition(scalar: Instruction, num_partitions: int) -> tuple[int, ...]:
    """Returns a scalar's value on each partition.

    It must be the partition id, a constant, a value looked up by partition, or a product of these; else the result is ().
    """
    if scalar.opcode in _SAME:
        return _by_partition(scalar.operands[0], num_partitions)
    if scalar.opcode == "parameter":
        callers = scalar.computation.module.callers.get(scalar.computation.name, ())
        number = scalar.proto.parameter_number
        return _by_partition(callers[0].operands[number], num_partitions) if len(callers) == 1 else ()
    if scalar.opcode == "partition-id":
        return tuple(range(num_partitions))
    if scalar.opcode == "constant":
        return integers(scalar) * num_partitions if not scalar.shape.dimensions else ()
    if scalar.opcode == "multiply":
        one, other = (_by_partition(operand, num_partitions) for operand in scalar.operands)
        return tuple(a * b for a, b in zip(one, other, strict=True)) if len(one) == len(other) else ()
    if scalar.opcode == "dynamic-slice" and len(scalar.operands) == 2 and scalar.operands[0].opcode == "constant":
        table = integers(scalar.operands[0])
        at = _by_partition(scalar.operands[1], num_partitions)
        return tuple(table[i] for i in at if i < len(table))
    return ()
