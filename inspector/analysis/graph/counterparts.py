"""Matches the nodes of two hierarchies: boxes by title, instructions by what they compute."""

from __future__ import annotations

import numpy as np

from inspector.analysis.diff.matching import match
from inspector.analysis.diff.value_numbers import UNMATCHED
from inspector.analysis.graph.boxes import Box
from inspector.analysis.graph.hierarchy import Hierarchy
from inspector.hlo.module import Module
from inspector.hlo.reading.byte_arrays import Numbers


def counterparts(hierarchy: Hierarchy, module: Module, other: Hierarchy, other_module: Module) -> Numbers:
    """Returns for each node the matched node of another hierarchy, -1 for none. No two nodes have the same match.

    Args:
      hierarchy: the hierarchy whose nodes are matched.
      module: the module of `hierarchy`.
      other: the hierarchy that contains the matches.
      other_module: the module of `other`.

    Raises:
      ModuleError: a module is damaged.
    """
    matching = match(other_module, module)
    matched = np.full(len(hierarchy.parents), UNMATCHED)
    matched[: hierarchy.row_count] = matching.to_before
    known = {
        (parent, box): other.row_count + number
        for number, (parent, box) in enumerate(zip(other.parents[other.row_count :].tolist(), other.boxes, strict=True))
    }
    matched[hierarchy.row_count] = other.row_count
    for node in _outer_first(hierarchy):
        parent = int(matched[hierarchy.parents[node]])
        key: tuple[int, Box] = parent, hierarchy.boxes[node - hierarchy.row_count]
        if parent != UNMATCHED:
            matched[node] = known.get(key, UNMATCHED)
    return matched


def _outer_first(hierarchy: Hierarchy) -> list[int]:
    """Returns all boxes except the module's, outer boxes before inner ones."""
    above, depths = hierarchy.parents, np.zeros(len(hierarchy.parents), np.int64)
    while (above >= 0).any():
        depths += above >= 0
        above = np.where(above >= 0, hierarchy.parents[above], above)
    boxes = np.arange(hierarchy.row_count + 1, len(hierarchy.parents))
    order: list[int] = boxes[np.argsort(depths[boxes], kind="stable")].tolist()
    return order
