"""The dataflow edges of a module, across the boundaries of called computations.

An operand feeds the parameter that receives its value, and a root feeds the users of the call.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from inspector.errors import Unavailable
from inspector.hlo.module import Module
from inspector.hlo.reading.byte_arrays import Numbers
from inspector.hlo.reading.field_numbers import (
    PARAMETER_NUMBER,
)

_PASSING = frozenset({"fusion", "call", "async-start"})  # operand `n` is parameter `n`
_ENTERED = frozenset({*_PASSING, "while", "conditional"})
_NAMES = frozenset(
    {"tuple", "get-tuple-element", "bitcast", "opt-barrier", "add-dependency"}
)  # opcodes that give existing values another name


def flow(module: Module, owners: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Returns the dataflow edges, sorted by target: the source row, the target row and the bytes of each.

    Args:
      module: optimized or not.
      owners: for each computation the row of the instruction that displays it, -1 for none; operands of its other callers
        lead to these callers.
    """
    columns = module.columns
    links = columns.operands
    passed, targets, sources = _entering(module, owners)
    mask = np.ones(len(links.rows), bool)
    mask[passed] = False
    sources = np.append(links.rows[mask], sources)
    targets = np.append(links.from_rows[mask], targets)
    sizes = _sizes(module, sources, targets)
    sources = _results(module, owners)[sources]
    keys, first = np.unique(targets * len(columns) + sources, return_index=True)
    return keys % max(1, len(columns)), keys // max(1, len(columns)), sizes[first]


def _entering(module: Module, owners: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Returns the operands passed to called computations: their positions, the receiving parameters and the source rows."""
    columns, links = module.columns, module.columns.operands
    enters = np.append(columns.opcode_is(_ENTERED.__contains__), False)
    parameters = np.flatnonzero(columns.opcode_is(lambda opcode: opcode == "parameter"))
    numbers = columns.integers(PARAMETER_NUMBER)[parameters]
    computations = columns.in_computation[parameters]
    callers = owners[computations]
    entered = (callers >= 0) & enters[callers]
    parameters, numbers, callers = parameters[entered], numbers[entered], callers[entered]
    branches = _branches(module)[computations[entered]]
    loops, choices = (columns.opcode_is(name.__eq__)[callers] for name in ("while", "conditional"))
    numbers = np.where(loops, 0, np.where(choices, branches + 1, numbers))
    there = (numbers >= 0) & (numbers < (links.offsets[callers + 1] - links.offsets[callers]))
    places = links.offsets[callers[there]] + numbers[there]
    return places, parameters[there], links.rows[places]


def _branches(module: Module) -> Numbers:
    """Returns for each computation its position among the computations that its first caller calls."""
    called = module.columns.called
    places = np.arange(len(called.rows)) - called.offsets[called.from_rows]
    positions = np.zeros(len(module.columns.computations), np.int64)
    positions[called.rows[::-1]] = places[::-1]
    return positions


def _results(module: Module, owners: Numbers) -> Numbers:
    """Returns for each row the row that computes its value: the root of the called computation for a call."""
    columns = module.columns
    made = np.arange(len(columns))
    enters = columns.opcode_is(lambda opcode: opcode in _ENTERED and opcode != "conditional")
    inside = np.flatnonzero((owners >= 0) & (_branches(module) == 0))
    inside = inside[enters[owners[inside]]]
    made[owners[inside]] = columns.roots[inside]
    while (made[made] != made).any():
        made = made[made]
    return made


def _sizes(module: Module, sources: Numbers, targets: Numbers) -> Numbers:
    """Returns the bytes that each edge transfers; for an edge that extracts a tuple element only those of the element."""
    columns = module.columns
    sizes = np.array([shape.byte_size for shape in module.known_shapes], np.int64)[columns.shapes.codes]
    element = columns.opcode_is(lambda opcode: opcode == "get-tuple-element")[targets]
    return np.where(element, sizes[targets], sizes[sources])


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class LiveSpans:
    """The live ranges of instruction values, as positions in the schedule of their computations.

    Attributes:
      start: position of the instruction.
      end: position of the last use of the value, directly or under another name.
    """

    start: Numbers
    end: Numbers


def spans(module: Module) -> LiveSpans | Unavailable:
    """Computes the live ranges of values; `Compiled.timeline` has those of the buffers that values share."""
    if not module.proto.schedule.sequences:
        return Unavailable("XLA has not scheduled this module")
    columns, links = module.columns, module.columns.operands
    start = columns.positions
    end = start.copy()
    lengths = np.diff(columns.first)[columns.in_computation]
    end[columns.roots] = lengths[columns.roots] - 1
    np.maximum.at(end, links.rows, start[links.from_rows])
    names = columns.opcode_is(_NAMES.__contains__)[links.from_rows]
    made, named = links.rows[names], links.from_rows[names]
    while (end[named] > end[made]).any():
        np.maximum.at(end, made, end[named])
    return LiveSpans(start, end)
