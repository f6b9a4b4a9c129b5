"""Values of the optimized HLO that differ between the devices along an axis of the mesh."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from inspector.analysis.collectives.sliced_results import by_partition
from inspector.hlo.module import Instruction

_INTEGERS = frozenset({"s32", "u32", "s64", "u64"})
_MOST_VALUES = 20_000


def differs(
    values: Iterable[Instruction], split: Collection[int], combined: Collection[str], positions: Sequence[int]
) -> bool:
    """Reports whether one of some values depends on something that differs between the devices along an axis.

    A collective over the axis that gathers or adds up makes all devices equal. Too many values to follow count as different.

    Args:
      values: instructions of any computation.
      split: numbers of the program's parameters that the axis splits.
      combined: names of collectives after which all devices along the axis are equal.
      positions: position of each partition along the axis.
    """
    waiting: list[tuple[Instruction, int | None]] = [(value, None) for value in values]
    seen = set[tuple[int, int | None]]()
    while waiting:
        value, element = waiting.pop()
        if (value.row, element) in seen or value.name in combined:
            continue
        seen.add((value.row, element))
        if len(seen) > _MOST_VALUES or _is_different(value, split, positions):
            return True
        if not _offset(value, len(positions)):
            waiting.extend(_behind(value, element))
    return False


def _is_different(value: Instruction, split: Collection[int], positions: Sequence[int]) -> bool:
    """Reports whether a value differs along the axis by itself."""
    if value.opcode == "parameter" and value.computation.is_entry:
        return value.parameter_number in split
    if offsets := _offset(value, len(positions)):
        others: dict[int, set[int]] = {}
        for offset, position in zip(offsets, positions, strict=True):
            others.setdefault(position, set()).add(offset)
        return len({frozenset(each) for each in others.values()}) > 1
    return value.opcode in ("partition-id", "replica-id")


def _offset(value: Instruction, num_partitions: int) -> tuple[int, ...]:
    """Returns a scalar integer that only depends on the partition, for each of them; () for other values."""
    is_scalar = value.shape.element_type in _INTEGERS and not value.shape.dimensions
    found = by_partition(value, num_partitions) if is_scalar else ()
    return found if len(found) == num_partitions else ()


def _behind(value: Instruction, element: int | None) -> Iterator[tuple[Instruction, int | None]]:
    """Yields the values from which a value, or an element of a tuple, is computed."""
    if value.opcode == "get-tuple-element":
        yield value.operands[0], value.tuple_index
    elif value.opcode == "tuple" and element is not None:
        yield value.operands[element], None
    elif value.opcode == "parameter":
        for caller in value.module.callers.get(value.computation.name, ()):
            if caller.opcode == "while":
                yield caller, element
            elif caller.opcode in ("fusion", "call", "async-start"):
                yield caller.operands[int(value.proto.parameter_number)], element
            else:
                yield from ((operand, None) for operand in caller.operands)
    elif value.opcode in ("fusion", "call", "async-start") and value.called_computations:
        yield value.called_computations[0].root, element
    elif value.opcode == "while":
        yield value.called_computations[0].root, element
        yield value.operands[0], element
    elif value.opcode == "conditional":
        yield from ((called.root, element) for called in value.called_computations)
        yield value.operands[0], None
    elif value.opcode in ("copy", "copy-start", "copy-done", "optimization-barrier", "async-update", "async-done"):
        yield value.operands[0], element
    else:
        yield from ((operand, None) for operand in value.operands)
