"""The optimized HLO as a readable graph: whole when small, by scope, or around one instruction.

A layout of the whole graph is unreadable beyond a few hundred instructions. So larger modules are collapsed by JAX's name
scopes (`jit(step)/transpose(jvp(layer))/dot_general` is in `transpose(jvp(layer))`), or reduced to the neighborhood of the
selection.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, get_args

from inspector.errors import ModuleError, ParameterError
from inspector.hlo.module import Computation, Instruction, Module
from inspector.support.notebook import short

if TYPE_CHECKING:
    import graphviz

Mode = Literal["auto", "whole", "scopes", "around"]

WHOLE_LIMIT = 150
"""Maximum number of instructions of an entry computation that is drawn as a whole."""

_AROUND_NODES = 60
_AROUND_DEPTH = 3
_FAN = 8
_EDGES_PER_NODE = 3
_SCOPE_DEPTH = 2
_HUB_SCOPES = 8
_MAX_SCOPES = 150
_SPLINE_NODES = 100
_SHAPE_CHARACTERS = 40

# Colors by opcode, in light tints on which black text is readable in both themes.
_TINTS = {
    "fusion": "#dbe7fb", "dot": "#fde3c8", "convolution": "#fde3c8", "custom-call": "#f9d7e3", "while": "#e6ddf6",
    "conditional": "#e6ddf6", "call": "#e6ddf6", "reduce": "#d9efdc", "parameter": "#eeeeee", "constant": "#f6f6f6",
}  # fmt: skip
_COLLECTIVE_TINT = "#fbf0b6"
_COLLECTIVES = ("all-", "reduce-scatter", "collective-", "ragged-all-to-all")


@dataclasses.dataclass(frozen=True, slots=True)
class Graph:
    """A graph ready to be laid out.

    Attributes:
      dot: DOT text; the id of a node's SVG group is `node-` followed by the instruction's name.
      caption: description of the drawn and the omitted instructions.
      mode: the mode that was used.
    """

    dot: str
    caption: str
    mode: Mode

    @property
    def source(self) -> graphviz.Source:
        """Returns a `graphviz.Source`, which notebooks draw."""
        import graphviz

        from inspector.analysis.graph.dot_command import find_dot

        find_dot()
        return graphviz.Source(self.dot)


def graph(module: Module, mode: Mode = "auto", selection: str | None = None) -> Graph:
    """Draws a module's entry computation, or the neighborhood of the selection.

    Args:
      module: optimized or not.
      mode: see `Compiled.graph`.
      selection: an instruction's name; required for "around".

    Raises:
      ModuleError: the instruction does not exist, or "around" has no selection.
      ParameterError: the mode is unknown.
    """
    if mode not in get_args(Mode):
        raise ParameterError(f"Unknown mode {short(mode)}. Expected one of {', '.join(map(repr, get_args(Mode)))}.")
    if mode == "around":
        if not isinstance(selection, str):
            raise ModuleError('The mode "around" needs a selection: the name of the instruction in the center.')
        return _around(module.instruction(selection))
    entry = module.entry
    if mode == "whole" or (mode == "auto" and len(entry.rows) <= WHOLE_LIMIT):
        return _whole(entry)
    return _scopes(entry)


def _whole(computation: Computation) -> Graph:
    instructions = computation.instructions
    if len(instructions) > WHOLE_LIMIT:
        shown = instructions[-WHOLE_LIMIT:]
        caption = f"the last {WHOLE_LIMIT:,} of {len(instructions):,} instructions of {computation.name}"
    else:
        shown, caption = instructions, f"all {len(instructions):,} instructions of {computation.name}"
    names = {i.name for i in shown}
    edges = [(o.name, i.name) for i in shown for o in dict.fromkeys(i.operands) if o.name in names]
    return Graph(_dot([_node(i) for i in shown], edges), caption, "whole")


def _around(instruction: Instruction) -> Graph:
    computation = instruction.computation
    depth = {instruction.name: 0}
    instructions = [instruction]
    frontier = [instruction]
    cut = False
    for distance in range(1, _AROUND_DEPTH + 1):
        reached: list[Instruction] = []
        for node in frontier:
            neighbors = [*dict.fromkeys(node.operands), *node.users]
            cut |= len(neighbors) > _FAN
            for neighbor in neighbors[:_FAN]:
                if neighbor.name in depth:
                    continue
                if len(depth) >= _AROUND_NODES:
                    cut = True
                    break
                depth[neighbor.name] = distance
                reached.append(neighbor)
        instructions += reached
        frontier = reached
    edges = [(o.name, i.name) for i in instructions for o in dict.fromkeys(i.operands) if o.name in depth]
    edges.sort(key=lambda edge: depth[edge[0]] + depth[edge[1]])
    caption = (
        f"{len(instructions):,} of {len(computation.rows):,} instructions of {computation.name}, up to"
        f" {_AROUND_DEPTH} steps from {instruction.name}{'; further neighbors omitted' if cut else ''}"
    )
    nodes = [_node(i, selected=i is instruction) for i in instructions]
    return Graph(_dot(nodes, edges[: _EDGES_PER_NODE * len(instructions)]), caption, "around")


def _scopes(computation: Computation) -> Graph:
    """Draws one node per scope. An instruction without a scope takes that of its operands if these agree."""
    scope: dict[str, str] = {}
    for instruction in computation.instructions:
        own = _scope(instruction.op_name)
        inherited = {scope[o.name] for o in instruction.operands if o.name in scope}
        if own or len(inherited) == 1:
            scope[instruction.name] = own or inherited.pop()
    members: dict[str, list[Instruction]] = collections.defaultdict(list)
    for instruction in computation.instructions:
        if instruction.name in scope and instruction.opcode not in ("parameter", "constant"):
            members[scope[instruction.name]].append(instruction)
    if not members:
        whole = _whole(computation)
        return dataclasses.replace(whole, caption=f"{whole.caption}; no instruction has a scope")
    largest = sorted(members, key=lambda name: -len(members[name]))[:_MAX_SCOPES]
    edges = _scope_edges(computation, scope, set(largest))
    nodes = [_scope_node(name, members[name]) for name in members if name in set(largest)]
    drawn = sum(len(members[name]) for name in largest)
    caption = (
        f"{len(largest):,} scopes with {drawn:,} of {len(computation.instructions):,} instructions of"
        f" {computation.name}; parameters, constants and instructions without a scope are omitted"
    )
    return Graph(_dot(nodes, edges), caption, "scopes")


def _scope(op_name: str) -> str:
    """Returns the first scopes below the outermost `jit(f)`; the primitive itself is not a scope."""
    parts = op_name.partition(";")[0].split("/")[:-1]
    if parts and parts[0].startswith(("jit(", "pjit(", "pmap(")):
        parts = parts[1:] or ["(top)"]
    return "/".join(parts[:_SCOPE_DEPTH])


def _scope_edges(computation: Computation, scope: Mapping[str, str], drawn: set[str]) -> list[tuple[str, str]]:
    targets: dict[str, set[str]] = collections.defaultdict(set)
    for instruction in computation.instructions:
        for operand in instruction.operands:
            ends = scope.get(operand.name), scope.get(instruction.name)
            if ends[0] in drawn and ends[1] in drawn and ends[0] != ends[1]:
                targets[operand.name].add(str(ends[1]))
    edges = {
        (scope[name], to): None for name, ends in targets.items() if len(ends) <= _HUB_SCOPES for to in sorted(ends)
    }
    return list(edges)


def _node(instruction: Instruction, *, selected: bool = False) -> str:
    name, opcode = instruction.name, instruction.opcode
    shape = str(instruction.shape.without_layout())
    label = f"{name}\n{shape if len(shape) <= _SHAPE_CHARACTERS else shape[:_SHAPE_CHARACTERS] + '…'}"
    if opcode not in name.replace("_", "-"):
        label = f"{opcode}\n{label}"
    return _statement(name, label, _tint(opcode), f"{name} = {shape} {opcode}", selected=selected)


def _scope_node(name: str, members: Sequence[Instruction]) -> str:
    opcodes = collections.Counter(i.opcode for i in members).most_common(3)
    label = f"{name}\n" + ", ".join(f"{count} {opcode}" for opcode, count in opcodes)
    collective = next((i.opcode for i in members if i.opcode.startswith(_COLLECTIVES)), None)
    return _statement(
        name, label, _tint(collective or opcodes[0][0]), f"{len(members)} instructions in {name}", scope=True
    )


def _statement(name: str, label: str, tint: str, tooltip: str, *, selected: bool = False, scope: bool = False) -> str:
    """Formats a DOT node. The ids of scope nodes differ from those of instructions."""
    prefix = "scope-" if scope else "node-"
    attributes = {"label": label, "id": prefix + name, "fillcolor": tint, "tooltip": tooltip}
    if selected:
        attributes |= {"penwidth": "2.5", "class": "selected"}
    return f"{_quote(name)} [{', '.join(f'{k}={_quote(v)}' for k, v in attributes.items())}];"


def _tint(opcode: str) -> str:
    return _COLLECTIVE_TINT if opcode.startswith(_COLLECTIVES) else _TINTS.get(opcode, "#ffffff")


def _dot(nodes: Sequence[str], edges: Iterable[tuple[str, str]]) -> str:
    # Splines of a 400-node graph take 20 s, straight lines and a bounded simplex 0.3 s.
    splines = "spline" if len(nodes) <= _SPLINE_NODES else "line"
    lines = [
        "digraph {",
        f'  graph [nslimit="1", splines="{splines}", bgcolor="transparent", ranksep="0.35", nodesep="0.2"];',
        '  node [shape="box", style="rounded,filled", fontname="Helvetica,Arial,sans-serif", fontsize="10"];',
        '  node [height="0.3", margin="0.08,0.04", color="#8a8f98"];',
        '  edge [color="#8a8f98", arrowsize="0.6"];',
        *(f"  {node}" for node in nodes),
        *(f"  {_quote(a)} -> {_quote(b)};" for a, b in edges),
        "}",
    ]
    return "\n".join(lines)


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
