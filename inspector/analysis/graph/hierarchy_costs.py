"""The costs of the nodes of a hierarchy: all executions for an instruction, the sum of the contents for a box."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from inspector.analysis.cost.roofline_point import Point
from inspector.analysis.graph.hierarchy import Hierarchy
from inspector.compilation.cost import InstructionCost
from inspector.errors import Unavailable, missing
from inspector.hlo.execution_counts import places
from inspector.hlo.module import Module
from inspector.hlo.reading.byte_arrays import Numbers
from inspector.hlo.reading.single_instructions import FLOW

Floats = npt.NDArray[np.float64]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """One quantity for each node.

    Attributes:
      known: the known value, NaN if unknown.
      partial: whether a part of the value is unknown.
    """

    known: Floats
    partial: npt.NDArray[np.bool_]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class HierarchyCosts:
    """The costs of one execution of the module.

    Attributes:
      flops: floating-point operations.
      bytes_accessed: as in `Compiled.cost`; unknown for fused instructions, which do not access memory themselves.
      least_s: estimated time in seconds at the chip's roofs, for kernels and the nodes that contain them: the sum over
        kernels, without overlap.
    """

    flops: Sums
    bytes_accessed: Sums
    least_s: Sums


def hierarchy_costs(
    hierarchy: Hierarchy, module: Module, costs: Mapping[str, InstructionCost], points: Iterable[Point]
) -> HierarchyCosts:
    """Computes the costs of a hierarchy's nodes.

    Args:
      hierarchy: the hierarchy.
      module: the module of the hierarchy.
      costs: cost of each instruction by name (`compilation.cost.costs`).
      points: the kernels with their roofline (`analysis.roofline`).
    """
    columns = module.columns
    levels = _levels(hierarchy.parents)
    listed = [costs[name] for name in columns.names]
    kinds = {id(cost): cost for cost in listed}
    numbers = {key: number for number, key in enumerate(kinds)}
    codes = np.fromiter(map(numbers.__getitem__, map(id, listed)), np.int64, len(listed))
    runs, fused = _runs(module)
    boxes = np.arange(len(hierarchy.parents)) >= len(columns)

    def counted(values: Sequence[float | Unavailable], own: bool) -> Sums:
        each = _sums(values)
        known = each.known[codes] * runs
        if own:
            known[fused] = np.nan
        return _summed(hierarchy, Sums(known, each.partial[codes]), levels, boxes)

    flops = counted([cost.flops for cost in kinds.values()], own=False)
    moved = counted([cost.bytes_accessed for cost in kinds.values()], own=True)
    return HierarchyCosts(flops, moved, _times(hierarchy, module, points, levels, fused | np.isnan(runs)))


def measured_times(hierarchy: Hierarchy, module: Module, times: Mapping[str, float]) -> Floats:
    """Returns the measured time of each node in seconds, NaN for nodes without any.

    Args:
      hierarchy: the hierarchy.
      module: the module of the hierarchy.
      times: measured time of each instruction by name, without those that it calls (`Profile.execution_times`).
    """
    columns = module.columns
    own = np.array([times.get(name, np.nan) for name in columns.names], np.float64)
    boxes = np.append(columns.opcode_is(FLOW.__contains__), np.ones(len(hierarchy.boxes), bool))
    return _summed(hierarchy, Sums(own, np.zeros(len(own), bool)), _levels(hierarchy.parents), boxes).known


def _runs(module: Module) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Returns for each instruction the number of executions, NaN if unknown, and whether it is fused."""
    where = places(module)
    here = [where.get(name) for name in module.columns.computation_names]
    times = [0 if place is None else place.executions for place in here]
    runs = [np.nan if isinstance(count, Unavailable) else float(count) for count in times]
    of = module.columns.in_computation
    return np.array(runs)[of], np.array([p is not None and p.fused for p in here], bool)[of]


def _times(
    hierarchy: Hierarchy,
    module: Module,
    points: Iterable[Point],
    levels: Sequence[Numbers],
    apart: npt.NDArray[np.bool_],
) -> Sums:
    columns = module.columns
    own = Sums(np.where(apart, np.nan, 0.0), np.zeros(len(columns), bool))
    listed = list(points)
    rows = np.array([module.instruction(point.name).row for point in listed], np.int64)
    each = _sums([point.least_s for point in listed])
    own.known[rows], own.partial[rows] = each.known, each.partial
    flows = columns.opcode_is(FLOW.__contains__)
    own.known[flows] = np.nan
    boxes = np.append(flows, np.ones(len(hierarchy.boxes), bool))
    cheapest = np.append(
        columns.opcode_is(lambda opcode: opcode == "conditional"), np.zeros(len(hierarchy.boxes), bool)
    )
    return _summed(hierarchy, own, levels, boxes, cheapest)


def _sums(values: Sequence[float | Unavailable]) -> Sums:
    known = [np.nan if isinstance(value, Unavailable) else float(value) for value in values]
    partly = [isinstance(value, Unavailable) or bool(missing(value)) for value in values]
    return Sums(np.array(known, np.float64), np.array(partly, bool))


def _levels(parents: Numbers) -> list[Numbers]:
    """Groups the nodes by depth, the deepest first, without the outermost."""
    depth, above = np.zeros(len(parents), np.int64), parents
    while (above >= 0).any():
        depth += above >= 0
        above = np.where(above >= 0, parents[above], above)
    order = np.argsort(depth, kind="stable")
    bounds = np.searchsorted(depth[order], np.arange(1, depth.max() + 2))
    return [order[start:end] for start, end in itertools.pairwise(bounds.tolist())][::-1]


def _summed(
    hierarchy: Hierarchy,
    own: Sums,
    levels: Sequence[Numbers],
    boxes: npt.NDArray[np.bool_],
    cheapest: npt.NDArray[np.bool_] | None = None,
) -> Sums:
    """Returns the values of instructions, and for nodes with contents the sum, or the minimum, of the contents."""
    extra = len(hierarchy.boxes)
    known = np.append(own.known, np.full(extra, np.nan))
    partial = np.append(own.partial, np.zeros(extra, bool))
    for nodes in levels:
        nodes = nodes[boxes[hierarchy.parents[nodes]]]
        above = hierarchy.parents[nodes]
        unknown = np.isnan(known[nodes])
        np.logical_or.at(partial, above, unknown | partial[nodes])
        nodes, above = nodes[~unknown], above[~unknown]
        known[above] = np.where(np.isnan(known[above]), 0.0, known[above])
        if cheapest is not None and (least := cheapest[above]).any():
            known[above[least]] = np.inf
            np.minimum.at(known, above[least], known[nodes[least]])
            partial[above[least]] = True
            nodes, above = nodes[~least], above[~least]
        np.add.at(known, above, known[nodes])
    return Sums(known, partial)
