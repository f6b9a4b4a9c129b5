"""The lines, scopes and phases that a kernel's cost belongs to, by the instructions fused into it.

Every view that names the line of a kernel, or sums costs by line, scope or phase, takes it from here. A fusion's
operations belong to the instructions that compute them, its bytes to the instructions that read and write the main
memory, and its time at the roof to those that cause what bounds it.
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
      instruction: the name of one of them: a fused instruction, or the kernel.
      origin: where they come from; `NOWHERE` where that is unknown.
      phase: the part of a differentiated program; None where it is unknown.
      flops, main_memory_bytes, least_s: the shares of each, from 0 to 1; over all parts of a kernel each sums to 1.
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
    """The shares of a kernel's cost, the largest first.

    Args:
      kernel: an instruction of the module that is executed.
      costs: of each instruction (`compilation.cost.costs`).
      bound: what its time is spent on.
      phases: of its module.
    """
    if kernel.opcode != "fusion":
        return (_part(kernel, phases, 1.0, 1.0, 1.0),)
    if len({id(each.origin) for each in (kernel, *fused(kernel)) if _is_known(each.origin)}) < 2:
        return (_part(_known(kernel), phases, 1.0, 1.0, 1.0),)  # as most are
    flops, moved = _computed(kernel, costs), _moved(kernel)
    flops = flops or moved or {kernel.row: 1.0}
    moved = moved or flops
    seconds = moved if bound == "memory" else flops
    shares: dict[int, list[float]] = {}
    speakers: dict[int, Instruction] = {}
    fallback = _known(kernel)
    for place, spent in enumerate((seconds, flops, moved)):
        whole = sum(spent.values())
        for row, amount in sorted(spent.items()):
            inner = kernel.module.at(row)
            speaker = inner if _is_known(inner.origin) else fallback
            key = id(speaker.origin)  # equal ones of a module are mostly the same object
            if key not in shares:
                shares[key], speakers[key] = [0.0, 0.0, 0.0], speaker
            shares[key][place] += amount / whole
    found = [_part(speakers[o], phases, flops=f, moved=m, seconds=s) for o, (s, f, m) in shares.items()]
    found.reverse()  # so that of equal shares the last instruction's comes first: the root's
    return tuple(sorted(found, key=lambda part: (-part.least_s, -part.flops, -part.main_memory_bytes)))


def _part(instruction: Instruction, phases: Phases, flops: float, moved: float, seconds: float) -> Part:
    return Part(instruction.name, instruction.origin, phases_text(phases.of(instruction)), flops, moved, seconds)


def _computed(kernel: Instruction, costs: Mapping[str, InstructionCost]) -> dict[int, float]:
    """The operations of each instruction in a fusion; its transcendentals where there are no others."""
    for name in ("flops", "transcendentals"):
        counted = ((inner.row, getattr(costs[inner.name], name)) for inner in fused(kernel))
        known = {row: float(number) for row, number in counted if not isinstance(number, Unavailable) and number}
        if known:
            return known
    return {}


def _moved(kernel: Instruction) -> dict[int, float]:
    """The bytes that each instruction in a fusion reads or writes."""
    return {row: size for row, size in touched(kernel).by_row.items() if size}


def fused(instruction: Instruction) -> Iterator[Instruction]:
    """The instructions fused into one, those of fusions in fusions too; not these fusions themselves."""
    waiting = collections.deque([instruction])
    while waiting:
        for computation in waiting.popleft().called_computations:
            for inner in computation.instructions:
                if inner.opcode == "fusion":
                    waiting.append(inner)
                else:
                    yield inner


def _known(kernel: Instruction) -> Instruction:
    """The kernel, else a root in it, else the first instruction in it that has an origin; the kernel without any."""
    if _is_known(kernel.origin):
        return kernel
    roots = (computation.root for computation in kernel.called_computations)
    known = (each for each in (*roots, *fused(kernel)) if _is_known(each.origin))
    return next(known, kernel)


def _is_known(origin: Origin) -> bool:
    """Reports whether it names an operation, or a line: `jit(f)` alone names neither."""
    return origin is not NOWHERE and ("/" in origin.op_name or not origin.op_name.startswith(("jit(", "pjit(")))
