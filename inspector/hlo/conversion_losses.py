"""Information that a module loses in a conversion, from a comparison of its fields and its instructions' fields.

A conversion may split, fold and rename instructions, so instructions are not matched. For each opcode and field, the counts
of values in both modules are compared.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from inspector.hlo.module import Module

_STRUCTURE = frozenset({
    "name", "opcode", "shape", "metadata", "id", "operand_ids", "control_predecessor_ids", "called_computation_ids",
    "literal", "dimensions", "slice_dimensions", "dynamic_slice_sizes", "tuple_index", "parameter_number", "outfeed_shape",
    "replica_groups", "collective_device_list", "iota_collective_device_list", "mesh_axes_replica_group_list",
    "channel_id", "statistics_viz", "original_value", "fusion_kind",
})  # fmt: skip
"""Fields of instructions that every conversion rewrites, and fields that do not affect the program."""

_CONFIGURATION = (
    "cross_program_prefetches",
    "is_dynamic",
    "use_auto_spmd_partitioning",
    "device_assignment",
    "frontend_attributes",
)
_CONTROL = "control-predecessors"
_LAYOUT = "layout"


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Loss:
    """Values of a field that instructions of an opcode lost.

    Attributes:
      opcode: the opcode; "" for the module itself.
      field: the field's name in HLO text or in the proto.
      count: number of instructions; 1 for the module.
    """

    opcode: str
    field: str
    count: int = 1

    def __str__(self) -> str:
        return f"{self.field} of {f'{self.count} {self.opcode}' if self.opcode else 'the module'}"


def losses(before: Module, after: Module, without: Collection[str] = ()) -> tuple[Loss, ...]:
    """Returns the values of a module that are missing after a conversion.

    Args:
      before: the original module.
      after: the module after conversion and back-conversion.
      without: fields to ignore, whose loss is known.
    """
    counts, opcodes = _values(before), _opcodes(before)
    left, opcodes_left = _values(after), _opcodes(after)
    missing = []
    for (opcode, field), values in counts.items():
        lost = sum(max(0, n - left[opcode, field][value]) for value, n in values.items())
        folded = (
            opcodes[opcode] - opcodes_left[opcode]
        )  # instructions that became constants or other operations lose their fields
        if lost > max(folded, 0) and field not in without:
            missing.append(Loss(opcode, field, lost))
    return (*sorted(missing), *(Loss("", name) for name in _configuration(before, after) if name not in without))


def _opcodes(module: Module) -> collections.Counter[str]:
    codes = np.bincount(module.columns.opcodes.codes, minlength=len(module.columns.opcodes.values))
    return collections.Counter(dict(zip(module.columns.opcodes.values, codes.tolist(), strict=True)))


def _values(module: Module) -> collections.defaultdict[tuple[str, str], collections.Counter[bytes]]:
    """Counts the values of fields, by opcode and field."""
    columns = module.columns
    counts_by_field: collections.defaultdict[tuple[str, str], collections.Counter[bytes]] = collections.defaultdict(
        collections.Counter
    )
    _, first, counts = np.unique(columns.codes, return_index=True, return_counts=True)
    for row, count in zip(first.tolist(), counts.tolist(), strict=True):
        instruction = columns.instruction(row)
        opcode = instruction.opcode
        for field, value in instruction.ListFields():
            for each in () if field.name in _STRUCTURE else _leaves(field.name, value):
                if each:
                    counts_by_field[opcode, field.name][each] += count
        if opcode not in ("parameter", "tuple", "get-tuple-element") and _has_layout(instruction.shape):
            counts_by_field[opcode, _LAYOUT][_bytes(instruction.shape)] += count
    root = module.entry.root
    if (
        counts_by_field[root.opcode, _LAYOUT][_bytes(root.proto.shape)] > 0
    ):  # the results' layout is also in the entry layout
        counts_by_field[root.opcode, _LAYOUT][_bytes(root.proto.shape)] -= 1
    for row in columns.predecessors.from_rows.tolist():
        counts_by_field[columns.opcode_texts[row], _CONTROL][b""] += 1
    return counts_by_field


def _leaves(field: str, value: Any) -> Iterator[bytes]:
    """Yields the values of a field. A tuple's sharding yields those of its elements, because conversions split tuples."""
    if field != "sharding" or not value.tuple_shardings:
        yield _bytes(value)
        return
    for element in value.tuple_shardings:
        yield from _leaves(field, element)


def _bytes(value: Any) -> bytes:
    if hasattr(value, "SerializeToString"):
        return bytes(value.SerializeToString(deterministic=True))
    if hasattr(value, "__iter__") and not isinstance(value, (str, bytes)):
        return b"".join(map(_bytes, value))
    return repr(value).encode()


def _has_layout(shape: Any) -> bool:
    """Reports whether an array has a layout other than XLA's default."""
    if shape.tuple_shapes:
        return any(map(_has_layout, shape.tuple_shapes))
    order = list(shape.layout.minor_to_major)
    return bool(shape.layout.memory_space) or order != sorted(order, reverse=True)


def _configuration(before: Module, after: Module) -> Iterator[str]:
    """Yields the names of the module's own fields that differ."""
    source, converted = before.columns.module, after.columns.module
    for name in _CONFIGURATION:
        if name in source.DESCRIPTOR.fields_by_name and _field(source, name) not in (_field(converted, name), b""):
            yield name


def _field(message: Any, name: str) -> bytes:
    value = getattr(message, name)
    return _bytes(value) if value else b""
