"""The kernels of a module, and how often each runs.

In inspector, a kernel is an instruction outside of fusions that makes the device do work: a fusion, a custom call, a
copy, an unfused matrix product. Instructions that only name values (`parameter`, `tuple`, `bitcast`), wait for another
(`copy-done`) or call (`while`) do not count. On GPUs such an instruction launches a kernel or a library call; on TPUs it
becomes a separate piece of the program.
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
"""Instructions that compute nothing on the device, in addition to `hlo.reading.single_instructions.FREE`."""


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceKernel:
    """An instruction that the device executes.

    Attributes:
      instruction: an instruction of the module.
      place: its computation's place in the program, with the number of executions.
    """

    instruction: Instruction
    place: Place


@dataclasses.dataclass(frozen=True, slots=True)
class Structure:
    """Counts of the device's work in one execution of a module. Each instruction counts as often as it runs.

    A number is `AtLeast` if a loop's length or a conditional's branch is known only at run time: neither
    the body of such a loop nor the branches count.

    Attributes:
      kernels: executions of kernels, as defined in this module's docstring.
      fusions: executions of fusions.
      custom_calls: executions of custom calls.
      collectives: executions of collectives, including fused ones.
      collective_bytes: input bytes of the collectives per device.
      estimated_cycles: sum of the TPU compiler's estimates, over all kernels that have one.
      vmem_scratch_bytes: largest scratch of one kernel in a TPU's vector memory, in addition to its operands and
        results. `Compiled.memory` counts those as VMEM, but not the scratch.
    """

    kernels: float
    fusions: float
    custom_calls: float
    collectives: float
    collective_bytes: float
    estimated_cycles: float | Unavailable
    vmem_scratch_bytes: int | Unavailable


def kernels(module: Module) -> tuple[DeviceKernel, ...]:
    """Returns the kernels of a module in its order, without those in computations that nothing calls."""
    columns, where = module.columns, places(module)
    by_computation = [where.get(name) for name in columns.computation_names]
    alone = np.array([place is not None and not place.fused for place in by_computation], bool)
    rows = np.flatnonzero(columns.opcode_is(_executes) & alone[columns.in_computation]).tolist()
    row_places = [by_computation[number] for number in columns.in_computation[rows].tolist()]
    return tuple(
        DeviceKernel(module.at(row), place) for row, place in zip(rows, row_places, strict=True) if place is not None
    )


def structure(module: Module) -> Structure:
    """Counts the device's work in one execution of a module."""
    executed, where = kernels(module), places(module)
    located = [(f, where.get(f.instruction.computation.name)) for f in operations(module)]
    together = [(f, place.at_least) for f, place in located if place is not None]
    return Structure(
        kernels=total(kernel.place.at_least for kernel in executed),
        fusions=_executions(executed, "fusion"),
        custom_calls=_executions(executed, "custom-call"),
        collectives=total(runs for _, runs in together),
        collective_bytes=total(runs * each.operand_bytes for each, runs in together),
        estimated_cycles=_cycles(executed),
        vmem_scratch_bytes=_scratch([k.instruction for k in executed]),
    )


def _executes(opcode: str) -> bool:
    return opcode not in FLOW and opcode not in FREE and opcode not in NAMING and not opcode.endswith("-done")


def _executions(executed: Iterable[DeviceKernel], opcode: str) -> float:
    return total(kernel.place.at_least for kernel in executed if kernel.instruction.opcode == opcode)


def _scratch(executed: list[Instruction]) -> int | Unavailable:
    reported = [vmem_scratch_bytes(instruction) for instruction in executed]
    known = [value for value in reported if not isinstance(value, Unavailable)]
    return max(known) if known else Unavailable("only the TPU compiler reports it")


def _cycles(executed: Iterable[DeviceKernel]) -> float | Unavailable:
    reported = [(estimated_cycles(kernel.instruction), kernel.place.at_least) for kernel in executed]
    known = [runs * cycles for cycles, runs in reported if not isinstance(cycles, Unavailable)]
    return total(known) if known else Unavailable("only the TPU compiler estimates cycles")
