"""What a module has the device execute: its kernels and how often they run.

A kernel, here and for every platform, is an instruction outside of fusions that does something: a fusion,
a custom call, a copy, a matrix product left alone. Not counted are instructions that only name values
(`parameter`, `tuple`, `bitcast`), wait for another (`copy-done`) or call (`while`). On GPUs that is what
launches a kernel or a library call, on TPUs what becomes a piece of the program of its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import numpy as np

from inspector.analysis.collectives.operations import operations
from inspector.errors import Unavailable, total
from inspector.hlo.backend_config import estimated_cycles, vmem_scratch_bytes
from inspector.hlo.execution_counts import Place, places
from inspector.hlo.module import Instruction, Module
from inspector.hlo.reading.single_instructions import FLOW, FREE

NAMING = frozenset({
    "tuple", "get-tuple-element", "bitcast", "after-all", "add-dependency", "domain", "opt-barrier", "partition-id",
    "replica-id", "get-dimension-size",
})  # fmt: skip
"""Instructions that compute nothing on the device, beside those of `hlo.single.FREE`."""


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceKernel:
    """An instruction that the device executes.

    Attributes:
      instruction: of the module.
      place: where it stands, and how often it runs.
    """

    instruction: Instruction
    place: Place


@dataclasses.dataclass(frozen=True, slots=True)
class Structure:
    """What one execution of a module has the device do, in numbers: each instruction as often as it runs.

    A number is `AtLeast` where a loop's length or a conditional's branch is known only at run time: neither
    the body of such a loop nor the branches count.

    Attributes:
      kernels: executions of kernels; see the module's docstring.
      fusions: those of fusions.
      custom_calls: those of custom calls.
      collectives, collective_bytes: operations among devices, fused ones too, and the bytes that one device puts in.
      estimated_cycles: the TPU compiler's estimates of all kernels that have one.
      vmem_scratch_bytes: the most that one kernel uses of a TPU's vector memory beside its operands and
        results; those are in the VMEM of `Compiled.memory`, this is not.
    """

    kernels: float
    fusions: float
    custom_calls: float
    collectives: float
    collective_bytes: float
    estimated_cycles: float | Unavailable
    vmem_scratch_bytes: int | Unavailable


def kernels(module: Module) -> tuple[DeviceKernel, ...]:
    """The kernels of a module, in its order; those that nothing calls left out."""
    columns, where = module.columns, places(module)
    by_computation = [where.get(name) for name in columns.computation_names]
    alone = np.array([place is not None and not place.fused for place in by_computation], bool)
    rows = np.flatnonzero(columns.opcode_is(_executes) & alone[columns.in_computation]).tolist()
    here = [by_computation[number] for number in columns.in_computation[rows].tolist()]
    return tuple(
        DeviceKernel(module.at(row), place) for row, place in zip(rows, here, strict=True) if place is not None
    )


def structure(module: Module) -> Structure:
    """What one execution of a module has the device do."""
    executed, where = kernels(module), places(module)
    found = [(f, where.get(f.instruction.computation.name)) for f in operations(module)]
    together = [(f, place.at_least) for f, place in found if place is not None]
    return Structure(
        kernels=total(kernel.place.at_least for kernel in executed),
        fusions=_executions(executed, "fusion"),
        custom_calls=_executions(executed, "custom-call"),
        collectives=total(runs for _, runs in together),
        collective_bytes=total(runs * found.operand_bytes for found, runs in together),
        estimated_cycles=_cycles(executed),
        vmem_scratch_bytes=_scratch([k.instruction for k in executed]),
    )


def _executes(opcode: str) -> bool:
    return opcode not in FLOW and opcode not in FREE and opcode not in NAMING and not opcode.endswith("-done")


def _executions(executed: Iterable[DeviceKernel], opcode: str) -> float:
    return total(kernel.place.at_least for kernel in executed if kernel.instruction.opcode == opcode)


def _scratch(executed: list[Instruction]) -> int | Unavailable:
    noted = [vmem_scratch_bytes(instruction) for instruction in executed]
    known = [value for value in noted if not isinstance(value, Unavailable)]
    return max(known) if known else Unavailable("only the TPU's compiler notes it")


def _cycles(executed: Iterable[DeviceKernel]) -> float | Unavailable:
    noted = [(estimated_cycles(kernel.instruction), kernel.place.at_least) for kernel in executed]
    known = [runs * cycles for cycles, runs in noted if not isinstance(cycles, Unavailable)]
    return total(known) if known else Unavailable("only the TPU's compiler estimates cycles")
