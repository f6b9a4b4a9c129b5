"""Builds the boxes of a hierarchy: removes boxes with a single node and divides boxes with too many nodes."""

from __future__ import annotations

import dataclasses
import math
from typing import Literal

import numpy as np

from inspector.hlo.reading.byte_arrays import Numbers

BoxKind = Literal["module", "scope", "inputs", "part", "computation"]

MOST_NODES = 48
"""Maximum number of nodes in a box, so that three nested boxes can be open when 150 nodes are shown."""

_FOLDED = ("scope", "inputs")  # kinds of boxes that are removed if they hold a single node
_GONE = -2


@dataclasses.dataclass(frozen=True, slots=True)
class Box:
    """A node that only contains other nodes.

    Attributes:
      kind: "module" for the whole module; "scope"; "inputs" for parameters and constants; "part" for neighbors in the
        schedule, if a box has too many nodes; "computation" for one of several computations of a caller, or one that
        nothing calls.
      title: the displayed title.
      phase: the part of a differentiated program, "" if unknown.
    """

    kind: BoxKind
    title: str
    phase: str = ""


class Boxes:
    """The nodes of a hierarchy: instructions by row, then boxes. A box is created after the box that contains it."""

    def __init__(self, row_count: int) -> None:
        """Starts with instructions outside of any box."""
        self._rows = np.full(row_count, _GONE)
        self._parents: list[int] = []
        self._boxes: list[Box] = []
        self._known: dict[tuple[int, Box], int] = {}

    @property
    def parents(self) -> Numbers:
        """Returns the node that contains each node, -1 for none."""
        return np.append(self._rows, np.array(self._parents, np.int64))

    @property
    def listed(self) -> tuple[Box, ...]:
        """Returns the boxes, in the order of their nodes."""
        return tuple(self._boxes)

    def add(self, box: Box, parent: int) -> int:
        """Adds a box to a node. Returns the new node."""
        self._boxes.append(box)
        self._parents.append(parent)
        return len(self._rows) + len(self._boxes) - 1

    def within(self, parent: int, box: Box) -> int:
        """Returns the node of a box in a node, and adds the box at first use."""
        key = parent, box
        if key not in self._known:
            self._known[key] = self.add(box, parent)
        return self._known[key]

    def put(self, rows: Numbers, nodes: Numbers) -> None:
        """Moves instructions into nodes."""
        self._rows[rows] = nodes

    def settle(self, positions: Numbers) -> None:
        """Replaces boxes that hold a single node by that node, and divides those with too many nodes.

        Args:
          positions: position of each instruction in the schedule of its computation.
        """
        self._fold()
        self._split(positions)
        self._renumber()

    def _fold(self) -> None:
        first = len(self._rows)
        counts = self._counts()
        for number in range(len(self._boxes) - 1, -1, -1):
            parent = self._parents[number]
            if parent >= 0 and counts[first + number] == 0:
                self._parents[number] = _GONE
                counts[parent] -= 1
        only = self._only(counts)
        for number in range(len(self._boxes) - 1, -1, -1):
            box, parent, node = self._boxes[number], self._parents[number], first + number
            if parent == _GONE or box.kind not in _FOLDED or counts[node] > 1:
                continue
            child = only[parent] = only[node]
            self._parents[number] = _GONE
            self._move(np.array([child]), parent)
            if child >= first and (inner := self._boxes[child - first]).kind == box.kind:
                self._boxes[child - first] = dataclasses.replace(inner, title=_joined(box, inner))

    def _counts(self) -> Numbers:
        """Counts the nodes inside each node."""
        parents = self.parents
        return np.bincount(parents[parents >= 0], minlength=len(parents))

    def _only(self, counts: Numbers) -> dict[int, int]:
        """Maps the nodes that contain exactly one node to that node."""
        parents = self.parents
        single = np.flatnonzero((parents >= 0) & (counts[parents] == 1))
        return dict(zip(parents[single].tolist(), single.tolist(), strict=True))

    def _split(self, positions: Numbers) -> None:
        first = len(self._rows)
        order = np.append(positions, np.full(len(self._boxes), np.iinfo(np.int64).max))
        for_boxes = self._rows >= first
        np.minimum.at(order, self._rows[for_boxes], positions[for_boxes])
        for number in range(len(self._boxes) - 1, -1, -1):
            parent = self._parents[number]
            if parent >= first:
                order[parent] = min(order[parent], order[first + number])
        parents = self.parents
        counts = self._counts()
        by_parent = np.argsort(parents, kind="stable")
        starts = np.searchsorted(parents[by_parent], np.arange(len(parents)))
        for node in np.flatnonzero(counts > MOST_NODES).tolist():
            inside = by_parent[starts[node] : starts[node] + counts[node]]
            of_inputs = node >= first and self._boxes[node - first].kind == "inputs"
            kinds = ["" if each < first else self._boxes[each - first].kind for each in inside.tolist()]
            movable = np.array([of_inputs or kind != "inputs" for kind in kinds])
            self._into_parts(node, (moved := inside[movable])[np.argsort(order[moved], kind="stable")])

    def _into_parts(self, node: int, inside: Numbers) -> None:
        """Divides the nodes inside a node into parts of neighbors."""
        sizes = [len(inside)]
        while sizes[-1] > MOST_NODES:
            sizes.append(math.ceil(sizes[-1] / MOST_NODES))
        places = [node]
        for count in reversed(sizes[1:]):
            spread = np.linspace(0, len(places), count, endpoint=False).astype(int)
            chunks = np.array_split(inside, count)
            places = [
                self.add(self._part(chunk, number, count), places[at])
                for number, (chunk, at) in enumerate(zip(chunks, spread.tolist(), strict=True), 1)
            ]
        if len(places) > 1:
            for place, chunk in zip(places, np.array_split(inside, len(places)), strict=True):
                self._move(chunk, place)

    def _part(self, inside: Numbers, number: int, count: int) -> Box:
        first = len(self._rows)
        if inside[[0, -1]].min() < first:
            return Box("part", f"part {number} of {count}")
        one, last = (self._boxes[node - first] for node in inside[[0, -1]].tolist())
        return Box("part", f"{one.title} … {last.title}", one.phase if one.phase == last.phase else "")

    def _move(self, nodes: Numbers, parent: int) -> None:
        first = len(self._rows)
        self._rows[nodes[nodes < first]] = parent
        for node in nodes[nodes >= first].tolist():
            self._parents[node - first] = parent

    def _renumber(self) -> None:
        """Drops the removed boxes."""
        first = len(self._rows)
        mask = np.array([parent != _GONE for parent in self._parents], bool)
        places = np.append(np.arange(first), first + np.cumsum(mask) - 1)
        self._rows = places[self._rows]
        self._parents = [int(places[p]) if p >= 0 else p for p, k in zip(self._parents, mask, strict=True) if k]
        self._boxes = [box for box, k in zip(self._boxes, mask, strict=True) if k]
        self._known.clear()


def _joined(outer: Box, inner: Box) -> str:
    """Returns a combined title for two boxes; the inner title if the outer one is only a phase."""
    return inner.title if outer.title == outer.phase else f"{outer.title}/{inner.title}"
