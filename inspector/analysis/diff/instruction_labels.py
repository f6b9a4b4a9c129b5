"""Labels of the instructions of two modules: numbers that are equal for instructions with equal properties.

Names, ids, metadata, operands and called computations are ignored: these are matched, not compared. Replica groups,
source-target pairs and shardings are compared by meaning, not by spelling.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable

import numpy as np

from inspector.hlo.devices.canonical_forms import DeviceCounts, kind_attributes
from inspector.hlo.module import Module
from inspector.hlo.reading.field_numbers import (
    BACKEND_CONFIG,
    CALLED_COMPUTATION_IDS,
    CHANNEL_ID,
    CONTROL_PREDECESSOR_IDS,
    FRONTEND_ATTRIBUTES,
    ID,
    METADATA,
    NAME,
    OPERAND_IDS,
    ORIGINAL_VALUE,
    SHAPE,
    STATISTICS_VIZ,
)
from inspector.hlo.shape import Shape
from inspector.support.value_ids import numbered

NAMING = (
    NAME, ID, METADATA, OPERAND_IDS, CONTROL_PREDECESSOR_IDS, CALLED_COMPUTATION_IDS, CHANNEL_ID, STATISTICS_VIZ,
    ORIGINAL_VALUE,
)  # fmt: skip
"""Fields of `xla.HloInstructionProto` that name or place an instruction."""

CONFIGURING = (BACKEND_CONFIG, FRONTEND_ATTRIBUTES)
"""Fields with free-form notes of frontends and backends."""


@dataclasses.dataclass(frozen=True, slots=True)
class Labels:
    """Labels of the instructions of a module, by row.

    Attributes:
      exact: equal if opcode, shape and attributes are equal.
      notes: equal if backend configs and frontend attributes are equal.
      levels: `exact`, then progressively weaker labels: opcode and shape without layout; opcode and attributes; opcode.
    """

    exact: list[int]
    notes: list[int]
    levels: tuple[list[int], ...]


def labels(before: Module, after: Module) -> tuple[Labels, Labels]:
    """Computes the labels of two modules."""
    known: dict[Hashable, int] = {}
    counts, others = DeviceCounts.of(before), DeviceCounts.of(after)
    return _labels(before, known, counts.completed(others)), _labels(after, known, others.completed(counts))


def _labels(module: Module, known: dict[Hashable, int], counts: DeviceCounts) -> Labels:
    def number(key: Hashable) -> int:
        return known.setdefault(key, len(known))

    columns, alike = module.columns, module.alike
    first = alike.first.tolist()
    attributes = kind_attributes(module, (*NAMING, *CONFIGURING, SHAPE), counts)
    has_channel = (columns.integers(CHANNEL_ID)[alike.first] > 0).tolist()
    shapes = [(shape, _plain(shape)) for shape in module.known_shapes]
    levels: tuple[list[int], ...] = ([], [], [], [])
    for row, attribute, channel in zip(first, attributes, has_channel, strict=True):
        opcode = columns.opcode_texts[row]
        shape, plain = shapes[columns.shapes.codes[row]]
        keys = (attribute, channel, shape), (opcode, plain), (attribute, channel), opcode
        for level, key in zip(levels, keys, strict=True):
            level.append(number(key))
    exact, *others = (np.array(level, np.int64)[alike.kinds].tolist() for level in levels)
    return Labels(exact, _notes(module, number), (exact, *others))


def _notes(module: Module, number: Callable[[Hashable], int]) -> list[int]:
    columns = module.columns
    config, attributes = (columns.coded(field) for field in CONFIGURING)
    maps = [frozenset(columns.message("xla.FrontendAttributes", data).map.items()) for data in attributes.values]
    configs = np.array([*map(number, config.values), number(b"")], np.int64)[config.codes]
    noted = np.array([*map(number, maps), number(frozenset())], np.int64)[attributes.codes]
    codes, first = numbered(configs * (noted.max(initial=0) + 1) + noted)
    pairs = [number((int(configs[row]), int(noted[row]))) for row in first.tolist()]
    notes: list[int] = np.array(pairs, np.int64)[codes].tolist()
    return notes


def _plain(shape: Shape) -> Shape:
    return shape.without_layout()
