"""The losses of a module in a conversion: its fields and those of its instructions, compared with the result.

A conversion may split, fold and rename instructions, so no instruction is matched with another. For each opcode
and field, the values in one module are counted against those in the other.
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
"""Fields of instructions that every conversion rewrites, and those that change no program."""

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
    """Values of a field that instructions of an opcode no longer have.

    Attributes:
      opcode: "" for the module itself.
      field: as HLO text or its proto names it.
      count: how many instructions, 1 for the module.
    """

    opcode: str
    field: str
    count: int = 1

    def __str__(self) -> str:
        return f"{self.field} of {f'{self.count} {self.opcode}' if self.opcode else 'the module'}"


def losses(before: Module, after: Module, without: Collection[str] = ()) -> tuple[Loss, ...]:
    """Lists the values in a module that its conversion lacks.

    Args:
      before: the module as given.
      after: the same, converted and converted back.
      without: fields whose loss is known.
    """
    counts, opcodes = _values(before), _opcodes(before)
    left, opcodes_left = _values(after), _opcodes(after)
    found = []
    for (opcode, field), values in counts.items():
        lost = sum(max(0, n - left[opcode, field][value]) for value, n in values.items())
        folded = opcodes[opcode] - opcodes_left[opcode]  # became constants or other operations, with what they said
        if lost > max(folded, 0) and field not in without:
            found.append(Loss(opcode, field, lost))
    return (*sorted(found), *(Loss("", name) for name in _configuration(before, after) if name not in without))


def _opcodes(module: Module) -> collections.Counter[str]:
    codes = np.bincount(module.columns.opcodes.codes, minlength=len(module.columns.opcodes.values))
    return collections.Counter(dict(zip(module.columns.opcodes.values, codes.tolist(), strict=True)))


def _values(module: Module) -> collections.defaultdict[tuple[str, str], collections.Counter[bytes]]:
    """How often each value of a field occurs, by opcode and field."""
    columns = module.columns
    found: collections.defaultdict[tuple[str, str], collections.Counter[bytes]] = collections.defaultdict(
        collections.Counter
    )
    _, first, counts = np.unique(columns.codes, return_index=True, return_counts=True)
    for row, count in zip(first.tolist(), counts.tolist(), strict=True):
        instruction = columns.instruction(row)
        opcode = instruction.opcode
        for field, value in instruction.ListFields():
            for each in () if field.name in _STRUCTURE else _leaves(field.name, value):
                if each:
                    found[opcode, field.name][each] += count
        if opcode not in ("parameter", "tuple", "get-tuple-element") and _has_layout(instruction.shape):
            found[opcode, _LAYOUT][_bytes(instruction.shape)] += count
    root = module.entry.root
    if found[root.opcode, _LAYOUT][_bytes(root.proto.shape)] > 0:  # the results' layout, which is said once more
        found[root.opcode, _LAYOUT][_bytes(root.proto.shape)] -= 1
    for row in columns.predecessors.from_rows.tolist():
        found[columns.opcode_texts[row], _CONTROL][b""] += 1
    return found


def _leaves(field: str, value: Any) -> Iterator[bytes]:
    """A field's values: of a tuple's sharding those of its elements, as conversions take tuples apart."""
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
    """Reports whether an array lies otherwise than XLA lays it by default."""
    if shape.tuple_shapes:
        return any(map(_has_layout, shape.tuple_shapes))
    order = list(shape.layout.minor_to_major)
    return bool(shape.layout.memory_space) or order != sorted(order, reverse=True)


def _configuration(before: Module, after: Module) -> Iterator[str]:
    """Fields of the module itself that differ."""
    given, found = before.columns.module, after.columns.module
    for name in _CONFIGURATION:
        if name in given.DESCRIPTOR.fields_by_name and _field(given, name) not in (_field(found, name), b""):
            yield name


def _field(message: Any, name: str) -> bytes:
    value = getattr(message, name)
    return _bytes(value) if value else b""
