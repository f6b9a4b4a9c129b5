"""What a module has the device execute: its kernels, their cost and how often they run.

A kernel, here and for every platform, is an instruction outside of fusions that does something: a fusion,
a custom call, a copy, a matrix product left alone. Not counted are instructions that only name values
(`parameter`, `tuple`, `bitcast`), wait for another (`copy-done`) or call (`while`). On GPUs that is what
launches a kernel or a library call, on TPUs what becomes a piece of the program of its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from inspector.analysis.cost import InstructionCost
from inspector.analysis.operations import operations
from inspector.errors import Unavailable
from inspector.hlo.backend_config import estimated_cycles, vmem_scratch_bytes
from inspector.hlo.executions import Place, places
from inspector.hlo.module import Instruction, Module
from inspector.hlo.single import FLOW, FREE

NAMING = frozenset({
    "tuple", "get-tuple-element", "bitcast", "after-all", "add-dependency", "domain", "opt-barrier", "partition-id",
    "replica-id", "get-dimension-size",
})  # fmt: skip
"""Instructions that compute nothing on the device, beside those of `hlo.single.FREE`."""

_UNKNOWN_CALLER = Place("", Unavailable("nothing calls its computation"), fused=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Kernel:
    """An instruction that the device executes.

    Attributes:
      instruction: of the module.
      executions: how often it runs in one execution of the module.
    """

    instruction: Instruction
    executions: int | Unavailable


@dataclasses.dataclass(frozen=True, slots=True)
class Structure:
    """A module in numbers, each instruction counted once, whatever the trip counts of loops.

    Attributes:
      kernels: what the device executes; see the module's docstring.
      fusions: those of them that are fusions.
      custom_calls: those of them that are custom calls.
      collectives, collective_bytes: operations among devices, fused ones too, and the bytes that one device puts in.
      estimated_cycles: the TPU compiler's estimates of all kernels that have one, times their executions.
      vmem_scratch_bytes: the most that one kernel uses of a TPU's vector memory beside its operands and
        results; those are in the VMEM of `Compiled.memory`, this is not.
    """

    kernels: int
    fusions: int
    custom_calls: int
    collectives: int
    collective_bytes: int
    estimated_cycles: int | Unavailable
    vmem_scratch_bytes: int | Unavailable


def kernels(module: Module) -> tuple[Kernel, ...]:
    """The kernels of a module, in its order."""
    where = places(module)
    found = []
    for instruction in module.instructions():
        place = where.get(instruction.name, _UNKNOWN_CALLER)
        if not place.fused and place.counted_in != "" and _executes(instruction):
            found.append(Kernel(instruction, place.executions))
    return tuple(found)


def structure(module: Module) -> Structure:
    """A module in numbers."""
    executed = kernels(module)
    opcodes = [kernel.instruction.opcode for kernel in executed]
    together = list(operations(module))
    return Structure(
        kernels=len(executed),
        fusions=opcodes.count("fusion"),
        custom_calls=opcodes.count("custom-call"),
        collectives=len(together),
        collective_bytes=sum(found.operand_bytes for found in together),
        estimated_cycles=_cycles(executed),
        vmem_scratch_bytes=_scratch([k.instruction for k in executed]),
    )


def _executes(instruction: Instruction) -> bool:
    opcode = instruction.opcode
    return opcode not in FLOW and opcode not in FREE and opcode not in NAMING and not opcode.endswith("-done")


def _scratch(executed: list[Instruction]) -> int | Unavailable:
    noted = [vmem_scratch_bytes(instruction) for instruction in executed]
    known = [value for value in noted if not isinstance(value, Unavailable)]
    return max(known) if known else Unavailable("only the TPU's compiler notes it")


def _cycles(executed: tuple[Kernel, ...]) -> int | Unavailable:
    known = [(estimated_cycles(k.instruction), k.executions) for k in executed]
    reported = [(cycles, runs) for cycles, runs in known if not isinstance(cycles, Unavailable)]
    if not reported:
        return Unavailable("only the TPU's compiler estimates cycles")
    for _, runs in reported:
        if isinstance(runs, Unavailable):
            return runs
    return sum(cycles * int(runs) for cycles, runs in reported if not isinstance(runs, Unavailable))


def kernel_costs(module: Module, costs: Mapping[str, InstructionCost]) -> tuple[tuple[Kernel, InstructionCost], ...]:
    """Every kernel with its cost."""
    return tuple((kernel, costs[kernel.instruction.name]) for kernel in kernels(module))
