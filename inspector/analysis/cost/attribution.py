"""Attribution of a kernel's cost to lines, scopes and phases, by the instructions fused into it.

Every view that shows the line of a kernel, or sums costs by line, scope or phase, uses this module. A fusion's
operations belong to the instructions that compute them, and its bytes to the instructions that read and write main
memory. Its time at the roof belongs to the instructions that cause its bound: the bytes or the operations.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence

from inspector.analysis.cost.phases import Phases, phases_text
from inspector.analysis.cost.schedule_simulation import Bound
from inspector.compilation.cost import InstructionCost
from inspector.errors import Unavailable
from inspector.hlo.fusion_traffic import touched
from inspector.hlo.module import Instruction, Module
from inspector.hlo.reading.module_cache import cache_per_module
from inspector.hlo.source import NOWHERE, Origin


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """The share of a kernel's cost that instructions of one origin cause.

    Attributes:
      instruction: name of one of these instructions: a fused instruction, or the kernel.
      origin: their origin; `NOWHERE` if unknown.
      phase: part of a differentiated program; None if unknown.
      flops, main_memory_bytes, least_s: shares of the kernel's operations, bytes and estimated time, from 0 to 1. Each
        sums to 1 over all parts of a kernel.
    """

    instruction: str
    origin: Origin
    phase: str | None
    flops: float
    main_memory_bytes: float
    least_s: float


def parts(
    kernel: Instruction, costs: Mapping[str, InstructionCost], bound: Bound | Unavailable, phases: Phases
) -> tuple[Part, ...]:
    """Returns the shares of a kernel's cost, largest first.

    Args:
      kernel: a kernel of the optimized module.
      costs: costs of each instruction (`compilation.cost.costs`).
      bound: the resource that bounds the kernel's time.
      phases: phases of its module.
    """
    if kernel.opcode != "fusion":
        return (_part(kernel, phases, 1.0, 1.0, 1.0),)
    module, inside = kernel.module, fused_rows(kernel)
    known = _known_origins(module)
    if len({known[row] for row in (kernel.row, *inside)} - {_UNKNOWN}) < 2:
        return (_part(known_instruction(kernel), phases, 1.0, 1.0, 1.0),)  # the most common case
    flops, moved = _computed(module, inside, costs), _moved(kernel)
    flops = flops or moved or {kernel.row: 1.0}
    moved = moved or flops
    of_memory: dict[int, float] = {}
    of_flops: dict[int, float] = {}
    examples: dict[int, int] = {}
    fallback = known_instruction(kernel).row
    spent = ((of_memory, moved), (of_flops, flops))
    for shares, amounts in spent if bound == "memory" else reversed(spent):
        whole = sum(amounts.values())
        for row in sorted(amounts):
            example = fallback if known[row] == _UNKNOWN else row
            key = known[example]
            examples.setdefault(key, example)
            shares[key] = shares.get(key, 0.0) + amounts[row] / whole
    of_time = of_memory if bound == "memory" else of_flops
    entries = [
        _part(module.at(row), phases, of_flops.get(key, 0.0), of_memory.get(key, 0.0), of_time.get(key, 0.0))
        for key, row in examples.items()
    ]
    entries.reverse()  # among equal shares, the last instruction comes first: the root
    return tuple(sorted(entries, key=lambda part: (-part.least_s, -part.flops, -part.main_memory_bytes)))


def _part(instruction: Instruction, phases: Phases, flops: float, moved: float, seconds: float) -> Part:
    return Part(instruction.name, instruction.origin, phases_text(phases.of(instruction)), flops, moved, seconds)


def _computed(module: Module, rows: Sequence[int], costs: Mapping[str, InstructionCost]) -> dict[int, float]:
    """Returns the operations of each fused instruction by row; the transcendentals if there are no others."""
    names = module.columns.names
    counted = [(row, costs[names[row]]) for row in rows]
    flops = {row: float(n) for row, cost in counted if not isinstance(n := cost.flops, Unavailable) and n}
    if flops:
        return flops
    return {row: float(n) for row, cost in counted if not isinstance(n := cost.transcendentals, Unavailable) and n}


def _moved(kernel: Instruction) -> dict[int, float]:
    """Returns the bytes that each instruction in a fusion reads or writes, by row."""
    module = kernel.module
    (computation,) = kernel.called_computations
    if any(module.columns.opcode_texts[row] == "fusion" for row in module.columns.calling[computation.number]):
        return {row: size for row, size in touched(kernel).by_row.items() if size}
    # Layers repeat: equal computations move the same bytes in the same places.
    known, body = _moved_in(module), module.alike.bodies[computation.number]
    first = computation.rows.start
    if body not in known:
        known[body] = tuple((row - first, size) for row, size in touched(kernel).by_row.items() if size)
    return {first + place: size for place, size in known[body]}


@cache_per_module
def _moved_in(_: Module) -> dict[int, tuple[tuple[int, float], ...]]:
    """Returns the results of `_moved` so far, by the number of the computation's content, relative to its first row."""
    return {}


def fused(instruction: Instruction) -> Iterator[Instruction]:
    """Yields the instructions fused into an instruction, including those of nested fusions but not these fusions."""
    return map(instruction.module.at, fused_rows(instruction))


def fused_rows(instruction: Instruction) -> list[int]:
    """Returns the rows of the instructions that `fused` yields."""
    module = instruction.module
    opcodes, calling = module.columns.opcode_texts, module.columns.calling
    rows, waiting = list[int](), collections.deque([instruction])
    while waiting:
        for computation in waiting.popleft().called_computations:
            nested = [row for row in calling[computation.number] if opcodes[row] == "fusion"]
            waiting += map(module.at, nested)
            rows += [row for row in computation.rows if row not in nested] if nested else computation.rows
    return rows


def known_instruction(kernel: Instruction) -> Instruction:
    """Returns the kernel if its origin is known, else the first root or fused instruction of known origin, else the kernel."""
    if _is_known(kernel.origin):
        return kernel
    roots = (computation.root for computation in kernel.called_computations)
    known = (each for each in itertools.chain(roots, fused(kernel)) if _is_known(each.origin))
    return next(known, kernel)


_UNKNOWN = -1


@cache_per_module
def _known_origins(module: Module) -> list[int]:
    """Returns a number for the origin of each row, equal for equal origins; `_UNKNOWN` if it names no operation."""
    known = [id(origin) if _is_known(origin) else _UNKNOWN for origin in module.known_origins]
    return [known[code] if code >= 0 else _UNKNOWN for code in module.columns.metadata.codes.tolist()]


def _is_known(origin: Origin) -> bool:
    """Reports whether an origin names an operation or a line: `jit(f)` alone names neither."""
    return origin is not NOWHERE and ("/" in origin.op_name or not origin.op_name.startswith(("jit(", "pjit(")))
