"""The cost of each kernel in each scope: the phases, scopes and functions of a program, as a tree with kernels at its leaves.

The parts of a kernel are those of `Roofline.groups` and `Profile.groups`, so a scope has the same share in all of them.

Equal scopes that were entered by different calls, such as the layers of a model, are numbered where the call stacks tell
them apart: a function with the scope's name is on the stack of each of their operations, and its callers are different
lines. The numbers have the order of these lines. They are not told apart in derivatives from JAX 0.12 on, whose stacks may
have the function twice. Calls from one line, as in a loop over layers, are told apart by their order (`turns.py`).
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from inspector.analysis.cost.attribution import known_instruction
from inspector.analysis.cost.line_costs import OPTIMIZED, Amounts, LineCosts, shown
from inspector.analysis.cost.phases import Phases, phases_text
from inspector.analysis.cost.scopes import scope_of
from inspector.analysis.cost.turns import Loop, Use, unrolled_loops
from inspector.hlo.source import NOWHERE, Frame, Origin, own_frame

if TYPE_CHECKING:
    from inspector.analysis.cost.roofline import Roofline
    from inspector.hlo.module import Module

_Path = tuple[str, ...]
_Site = tuple[str, int]


@dataclasses.dataclass(frozen=True, slots=True)
class ScopeCost:
    """The cost of a kernel in one scope and phase.

    Attributes:
      kernel: name of its instruction in the text of the optimized HLO; "" for work that belongs to none, such as copies by the runtime.
      path: names of the enclosing scopes and functions, outermost first, as in `scopes.Scope`. Scopes of equal names that
        different calls entered have a number: "layer 0", "layer 1". The turns of an unrolled loop are scopes in the
        innermost one that all have in common: "block, turn 1 of 4".
      phase: part of a differentiated program, as in `Compiled.instructions`; None if unknown.
      amounts: the costs, in the units of `Amounts`.
    """

    kernel: str
    path: tuple[str, ...]
    phase: str | None
    amounts: Amounts


class _Place(NamedTuple):
    origin: Origin
    phase: str | None
    opcode: str = ""


def scope_costs(module: Module, costs: LineCosts, roofline: Roofline) -> tuple[ScopeCost, ...]:
    """Returns the costs of the kernels by scope, in the order of the program.

    Args:
      module: the optimized HLO.
      costs: costs of its lines, from the same roofline.
      roofline: roofline of the module.
    """
    phases = Phases(module)
    opcodes, rows = module.columns.opcode_texts, module.rows_by_name
    parts = {
        (point.name, part.instruction): _Place(part.origin, part.phase, opcodes[rows[part.instruction]])
        for point in roofline.points
        for part in point.parts
    }

    def place(kernel: str, inside: str) -> _Place:
        """Returns the origin of an instruction in a kernel; of the kernel for memory, and for times without parts."""
        if (kernel, inside) in parts:
            return parts[kernel, inside]
        if kernel not in module.rows_by_name:  # work of the runtime, or of another compile
            return _Place(NOWHERE, None)
        known = known_instruction(module.instruction(kernel))
        return _Place(known.origin, phases_text(phases.of(known)))

    lines = {name for name in costs.listings[OPTIMIZED].instructions if name is not None}
    by_kernel: dict[str, list[tuple[_Place, Amounts]]] = collections.defaultdict(list)
    for (kernel, inside), amounts in costs.parts.items():
        holder = shown(kernel, module, lines)
        by_kernel["" if holder is None else holder.name].append((place(kernel, inside), amounts))
    ordered = _in_order(module, by_kernel)
    uses = [
        Use(kernel, where.opcode, where.origin, where.phase) for kernel in ordered for where, _ in by_kernel[kernel]
    ]
    paths = _numbered(use.origin for use in uses)
    turns = _turns(unrolled_loops(module, uses), paths)
    spent: dict[tuple[str, _Path, str | None], Amounts] = collections.defaultdict(Amounts)
    for kernel in ordered:
        for where, amounts in by_kernel[kernel]:
            path = turns.get((kernel, where.origin), paths[where.origin])
            spent[kernel, path, where.phase] += amounts
    return tuple(ScopeCost(*key, amounts) for key, amounts in spent.items())


def _in_order(module: Module, names: Iterable[str]) -> list[str]:
    """Returns instructions in the order of the program: those of a loop at the loop. Unknown names come last."""
    columns = module.columns
    wanted = set(names)
    within: dict[int, list[int]] = collections.defaultdict(list)
    for row, (name, number) in enumerate(zip(columns.names, columns.in_computation.tolist(), strict=True)):
        if name in wanted:
            within[number].append(row)
    positions = columns.positions
    seen = set[int]()

    def visit(number: int) -> Iterator[str]:
        if number in seen:
            return
        seen.add(number)
        rows = {*within[number], *columns.calling[number]}
        for row in sorted(rows, key=positions.__getitem__):
            if columns.names[row] in wanted:
                yield columns.names[row]
            if columns.opcode_texts[row] != "fusion":
                for called in columns.callees.get(row, ()):
                    yield from visit(called)

    starts = (module.entry.number, *range(len(columns.computations)))
    ordered = [name for number in starts for name in visit(number)]
    return [*ordered, *sorted(wanted.difference(ordered))]


def _numbered(origins: Iterable[Origin]) -> Mapping[Origin, _Path]:
    """Returns the path of each origin, with numbers for the calls that entered equal scopes."""
    paths = {origin: scope_of(origin.op_name).path for origin in dict.fromkeys(origins)}
    numbered: dict[Origin, _Path] = {}
    waiting: list[tuple[_Path, list[Origin]]] = [((), list(paths))]
    while waiting:
        outer, inside = waiting.pop()
        below: dict[str, list[Origin]] = collections.defaultdict(list)
        for origin in inside:
            if len(paths[origin]) == len(outer):
                numbered[origin] = outer
            else:
                below[paths[origin][len(outer)]].append(origin)
        for name, members in below.items():
            calls = _calls(name, members)
            labels = [f"{name} {number}" for number in range(len(calls))]
            if len(calls) < 2 or any(label in below for label in labels):
                waiting.append(((*outer, name), members))
            else:
                waiting += [((*outer, label), each) for label, each in zip(labels, calls, strict=True)]
    return numbered


def _turns(loops: Sequence[Loop], paths: Mapping[Origin, _Path]) -> dict[tuple[str, Origin], _Path]:
    """Returns the paths of the origins of loops by kernel, with the turn in the innermost scope that a loop is in."""
    found: dict[tuple[str, Origin], _Path] = {}
    for loop in loops:
        levels = zip(*(paths[origin] for origin in loop.origins), strict=False)
        outer = len([*itertools.takewhile(lambda names: len({*names}) == 1, levels)])
        for kernel, turn in loop.turns.items():
            name = f"{loop.function}, turn {turn + 1} of {loop.count}"
            for origin in loop.origins:
                path = paths[origin]
                found[kernel, origin] = (*path[:outer], name, *path[outer:])
    return found


def _calls(name: str, origins: Sequence[Origin]) -> list[list[Origin]]:
    """Returns the origins in a scope by the line that called its function, in order; all together if a line is unknown."""
    by_site: dict[_Site | None, list[Origin]] = collections.defaultdict(list)
    for origin in origins:
        by_site[_site(name, origin.frames)].append(origin)
    sites = [site for site in by_site if site is not None]
    if len(sites) < len(by_site):
        return [[*origins]]
    files = [*dict.fromkeys(file for file, _ in sites)]
    return [by_site[site] for site in sorted(sites, key=lambda site: (files.index(site[0]), site[1]))]


def _site(name: str, frames: Sequence[Frame]) -> _Site | None:
    """Returns the line that called the function of a scope; None if no function, or several, have its name."""
    depths = [depth for depth, frame in enumerate(frames) if frame.function.rpartition(".")[2] == name]
    caller = own_frame(frames[depths[0] + 1 :]) if len(depths) == 1 else None
    return (caller.file, caller.line) if caller else None
