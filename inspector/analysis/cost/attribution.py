"""Attribution of a kernel's cost to lines, scopes and phases, by the instructions fused into it.

Every view that shows the line of a kernel, or sums costs by line, scope or phase, uses this module. A fusion's
operations belong to the instructions that compute them, and its bytes to the instructions that read and write main
memory. Its time at the roof belongs to the instructions that cause its bound: the bytes or the operations.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterator, Mapping

from inspector.analysis.cost.phases import Phases, phases_text
from inspector.analysis.cost.schedule_simulation import Bound
from inspector.compilation.cost import InstructionCost
from inspector.errors import Unavailable
from inspector.hlo.fusion_traffic import touched
from inspector.hlo.module import Instruction
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
    if len({id(each.origin) for each in (kernel, *fused(kernel)) if _is_known(each.origin)}) < 2:
        return (_part(_known(kernel), phases, 1.0, 1.0, 1.0),)  # the most common case
    flops, moved = _computed(kernel, costs), _moved(kernel)
    flops = flops or moved or {kernel.row: 1.0}
    moved = moved or flops
    seconds = moved if bound == "memory" else flops
    shares: dict[int, list[float]] = {}
    examples: dict[int, Instruction] = {}
    fallback = _known(kernel)
    for place, spent in enumerate((seconds, flops, moved)):
        whole = sum(spent.values())
        for row, amount in sorted(spent.items()):
            inner = kernel.module.at(row)
            example = inner if _is_known(inner.origin) else fallback
            key = id(example.origin)  # equal origins of a module are mostly the same object
            if key not in shares:
                shares[key], examples[key] = [0.0, 0.0, 0.0], example
            shares[key][place] += amount / whole
    entries = [_part(examples[o], phases, flops=f, moved=m, seconds=s) for o, (s, f, m) in shares.items()]
    entries.reverse()  # among equal shares, the last instruction comes first: the root
    return tuple(sorted(entries, key=lambda part: (-part.least_s, -part.flops, -part.main_memory_bytes)))


def _part(instruction: Instruction, phases: Phases, flops: float, moved: float, seconds: float) -> Part:
    return Part(instruction.name, instruction.origin, phases_text(phases.of(instruction)), flops, moved, seconds)


def _computed(kernel: Instruction, costs: Mapping[str, InstructionCost]) -> dict[int, float]:
    """Returns the operations of each instruction in a fusion by row; its transcendentals if there are no others."""
    for name in ("flops", "transcendentals"):
        counted = ((inner.row, getattr(costs[inner.name], name)) for inner in fused(kernel))
        known = {row: float(number) for row, number in counted if not isinstance(number, Unavailable) and number}
        if known:
            return known
    return {}


def _moved(kernel: Instruction) -> dict[int, float]:
    """Returns the bytes that each instruction in a fusion reads or writes, by row."""
    return {row: size for row, size in touched(kernel).by_row.items() if size}


def fused(instruction: Instruction) -> Iterator[Instruction]:
    """Yields the instructions fused into an instruction, including those of nested fusions but not these fusions."""
    waiting = collections.deque([instruction])
    while waiting:
        for computation in waiting.popleft().called_computations:
            for inner in computation.instructions:
                if inner.opcode == "fusion":
                    waiting.append(inner)
                else:
                    yield inner


def _known(kernel: Instruction) -> Instruction:
    """Returns the kernel if its origin is known, else the first root or fused instruction of known origin, else the kernel."""
    if _is_known(kernel.origin):
        return kernel
    roots = (computation.root for computation in kernel.called_computations)
    known = (each for each in (*roots, *fused(kernel)) if _is_known(each.origin))
    return next(known, kernel)


def _is_known(origin: Origin) -> bool:
    """Reports whether an origin names an operation or a line: `jit(f)` alone names neither."""
    return origin is not NOWHERE and ("/" in origin.op_name or not origin.op_name.startswith(("jit(", "pjit(")))
