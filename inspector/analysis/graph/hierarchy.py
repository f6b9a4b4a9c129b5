"""A module of any size as nested boxes, which the user opens and closes.

Computations are nested in their callers, the user's name scopes in the computations, and instructions in the scopes. The
hierarchy is computed from columns, without access to single instructions, and laid out in the browser
(`frontend/src/graph`).
"""

from __future__ import annotations

import dataclasses

import numpy as np

from inspector.analysis.cost.scopes import Scope, argument_path, scope_of
from inspector.analysis.graph.boxes import Box, Boxes
from inspector.analysis.graph.flow import flow
from inspector.errors import ModuleError
from inspector.hlo.module import Module
from inspector.hlo.reading.byte_arrays import Numbers

# Computations up to this size are not divided into scopes.
_FLAT = 16
_MOST_INPUTS = 8
# Maximum number of sibling scopes; more are first divided into forward and backward.
_MOST_SCOPES = 24
# Maximum distance over which an instruction without a name takes the scope of another instruction.
_FARTHEST = 8
_NAMED_AGAIN = frozenset({"async-update", "async-done"})  # they repeat the called computation of `async-start`
_NONE = -1


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Hierarchy:
    """The nodes of a module: its instructions by row, then the boxes. Each node except the module's is inside another.

    An instruction contains the computations that it calls. A computation with several callers is inside the first one.

    Attributes:
      parents: the node that contains each node, -1 for the module's; `[instructions + boxes]`.
      boxes: the boxes; the first is the module's.
      sources, targets: rows of each edge; edges into and out of called computations end at parameters and start at roots.
      edge_bytes: bytes of the value of each edge.
    """

    parents: Numbers
    boxes: tuple[Box, ...]
    sources: Numbers
    targets: Numbers
    edge_bytes: Numbers

    @property
    def row_count(self) -> int:
        """Returns the number of instructions, which is also the node number of the module's box."""
        return len(self.parents) - len(self.boxes)


def hierarchy(module: Module) -> Hierarchy:
    """Computes the nodes and edges of a module, optimized or not.

    Raises:
      ModuleError: the module is damaged: computations call each other in a cycle.
    """
    owners = _owners(module)
    boxes = Boxes(len(module.columns))
    top = boxes.add(Box("module", module.name), _NONE)
    hosts = _hosts(module, owners, boxes, top)
    scopes, codes = _scopes(module)
    boxes.put(np.arange(len(module.columns)), hosts[module.columns.in_computation])
    _divide(module, boxes, hosts, owners, scopes, codes)
    _gather_inputs(module, boxes, hosts)
    boxes.settle(module.columns.positions)
    sources, targets, sizes = flow(module, owners)
    return Hierarchy(boxes.parents, boxes.listed, sources, targets, sizes)


def _owners(module: Module) -> Numbers:
    """Returns for each computation the row of the first instruction that calls it, -1 for none."""
    columns = module.columns
    numbers, callers = columns.called.rows, columns.called.from_rows
    calls = columns.opcode_is(lambda opcode: opcode not in _NAMED_AGAIN)[callers]
    owners = np.full(len(columns.computations), _NONE)
    owners[numbers[calls][::-1]] = callers[calls][::-1]  # the first is written last
    owners[module.entry.number] = _NONE
    within = np.where(owners < 0, len(owners), columns.in_computation[owners.clip(0)])
    above = np.append(within, len(owners))
    for _ in range(len(owners).bit_length()):
        above = above[above]
    if (above < len(owners)).any():
        name = columns.computation_names[int(np.argmax(above < len(owners)))]
        raise ModuleError(f"Computation {name} calls itself: the module is damaged.")
    return owners


def _hosts(module: Module, owners: Numbers, boxes: Boxes, top: int) -> Numbers:
    """Returns for each computation the node that contains its instructions."""
    columns = module.columns
    hosts = owners.copy()
    hosts[module.entry.number] = top
    for number in np.flatnonzero(owners < 0).tolist():
        if number != module.entry.number:
            idle = boxes.within(top, Box("computation", "not called"))
            hosts[number] = boxes.add(Box("computation", columns.computation_names[number]), idle)
    counts = np.diff(columns.called.offsets)
    for row in np.flatnonzero(counts > 1).tolist():
        opcode = module.at(row).opcode
        for position, number in enumerate(columns.callees[row]):
            if owners[number] == row and (position or opcode != "while"):
                title = {"while": "condition", "conditional": f"branch {position}"}.get(opcode)
                title = title or columns.computation_names[number]
                hosts[number] = boxes.add(Box("computation", title), row)
    return hosts


def _scopes(module: Module) -> tuple[list[Scope], Numbers]:
    """Returns the scopes of a module, and for each instruction the index of its scope, -1 for none."""
    columns = module.columns
    names = [origin.op_name for origin in module.known_origins]
    of_names = {name: scope_of(name) for name in set(names) if name}
    scopes = sorted(set(of_names.values()), key=lambda scope: (scope.path, scope.phase))
    place = {scope: number for number, scope in enumerate(scopes)}
    of_codes = np.array([place[of_names[name]] if name else _NONE for name in names] + [_NONE])
    return scopes, _with_neighbors(module, of_codes[columns.metadata.codes])


def _with_neighbors(module: Module, codes: Numbers) -> Numbers:
    """Assigns scopes to instructions without one: that of a user, else of an operand; parameters and constants get none."""
    columns, links = module.columns, module.columns.operands
    apart = columns.opcode_is(lambda opcode: opcode in ("parameter", "constant"))
    apart[columns.roots] |= columns.opcode_is(lambda opcode: opcode == "tuple")[columns.roots]  # tuples of results too
    made, used = links.from_rows, links.rows
    codes = np.where(apart, _NONE, codes)
    for _ in range(_FARTHEST):
        for of, near in ((used, made), (made, used)):
            wanted = ~apart[of] & (codes[of] < 0) & (codes[near] >= 0)
            if wanted.any():
                codes[of[wanted][::-1]] = codes[near[wanted][::-1]]  # the first is written last
                break
        else:
            break
    return codes


def _divide(module: Module, boxes: Boxes, hosts: Numbers, owners: Numbers, scopes: list[Scope], codes: Numbers) -> None:
    """Puts the instructions of the larger computations into boxes of their scopes."""
    columns = module.columns
    large = np.diff(columns.first) > _FLAT
    rows = np.flatnonzero(large[columns.in_computation] & (codes >= 0))
    keys, which = np.unique(
        columns.in_computation[rows].astype(np.int64) * len(scopes) + codes[rows], return_inverse=True
    )
    below: dict[int, list[int]] = {}
    for key in keys.tolist():
        below.setdefault(key // len(scopes), []).append(key % len(scopes))
    nodes: list[int] = []
    for number, inner in below.items():
        owner = int(owners[number])
        outer = scopes[codes[owner]] if owner >= 0 and codes[owner] >= 0 else Scope()
        nodes += _boxes_of([scopes[code] for code in inner], outer, int(hosts[number]), boxes)
    if nodes:
        boxes.put(rows, np.array(nodes)[which])


def _boxes_of(scopes: list[Scope], outer: Scope, host: int, boxes: Boxes) -> list[int]:
    """Returns the box of each scope of one computation that is called from the scope `outer`."""
    marks = {s.phase for s in scopes if s.phase not in ("", "rest", outer.phase)}
    phases = [s.phase if s.phase in marks else "" for s in scopes]
    paths = [_below(s.path, outer.path) for s in scopes]
    is_crowded = len({(phase, path[:1]) for phase, path in zip(phases, paths, strict=True)}) > _MOST_SCOPES
    nodes = []
    for scope, path, phase in zip(scopes, paths, phases, strict=True):
        node = host
        if phase and (is_crowded or not path):
            node = boxes.within(node, Box("scope", phase, phase))
        elif marks and scope.phase == "rest" and not path:
            node = boxes.within(node, Box("scope", "not differentiated"))
        for name in path:
            node = boxes.within(node, Box("scope", name, phase))
        nodes.append(node)
    return nodes


def _below(path: tuple[str, ...], outer: tuple[str, ...]) -> tuple[str, ...]:
    """Returns a path without the prefix that it shares with the caller's path."""
    shared = 0
    while shared < min(len(path), len(outer)) and path[shared] == outer[shared]:
        shared += 1
    return path[shared:]


def _gather_inputs(module: Module, boxes: Boxes, hosts: Numbers) -> None:
    """Puts the parameters and constants of a computation with many of them into a box, nested by argument paths."""
    columns = module.columns
    is_input = columns.opcode_is(lambda opcode: opcode in ("parameter", "constant"))
    is_parameter = columns.opcode_is(lambda opcode: opcode == "parameter")
    elements = np.flatnonzero(columns.opcode_is(lambda opcode: opcode == "get-tuple-element"))
    first = columns.operands.rows[columns.operands.offsets[elements]]
    is_input[elements[is_parameter[first]]] = True
    counts = np.bincount(columns.in_computation, is_input, len(columns.computations))
    large = (counts > _MOST_INPUTS) & (np.diff(columns.first) > _FLAT)
    boxed = np.full(len(columns.computations), _NONE)
    for number in np.flatnonzero(large).tolist():
        boxed[number] = boxes.within(int(hosts[number]), Box("inputs", "inputs"))
    rows = np.flatnonzero(is_input & large[columns.in_computation])
    boxes.put(rows, boxed[columns.in_computation[rows]])
    entry = module.entry
    if large[entry.number]:
        top = int(boxed[entry.number])
        for row in rows[(columns.in_computation[rows] == entry.number) & is_parameter[rows]].tolist():
            node = top
            for step in argument_path(module.at(row).op_name)[:-1]:
                node = boxes.within(node, Box("inputs", step))
            boxes.put(np.array([row]), np.array([node]))
