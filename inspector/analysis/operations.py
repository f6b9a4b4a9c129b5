"""Where a module's collectives stand: the instruction that performs or starts each, and the one that ends it.

Compilers write an operation that runs beside others in several ways: as a `-start` and a `-done`; as an
`async-start` of a computation that holds it, itself or in a fusion (GPUs); as a chain of fusions that each hold
it once, from the one that starts it over those that it runs beside to the one that waits for it (TPUs).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from inspector.hlo.module import Computation, Instruction, Module

OPCODES = (
    "all-reduce",
    "all-gather",
    "reduce-scatter",
    "all-to-all",
    "ragged-all-to-all",
    "collective-permute",
    "collective-broadcast",
)
"""What counts as a collective. `-start` forms and those inside `async-start` go by these names too."""

# libtpu's marks on the links of a chain: which chain it is, and the custom calls in its first and last fusion.
_CHAIN = "chain_id"
_STARTS, _ENDS = "AsyncCollectiveStart", "AsyncCollectiveDone"


@dataclasses.dataclass(frozen=True, slots=True)
class Operation:
    """A collective operation, however it is written.

    Attributes:
      instruction: that performs or starts it.
      operation: the collective itself, which is that instruction or one in what it calls.
      done: that ends it; None when it is not asynchronous.
    """

    instruction: Instruction
    operation: Instruction
    done: Instruction | None


def operations(module: Module) -> Iterator[Operation]:
    """Every collective once, in the order of the module's proto."""
    dones: dict[str, dict[str, Instruction]] = {}
    ends: dict[tuple[str, str], Instruction] | None = None
    for computation in module.computations:
        if any(caller.opcode == "async-start" for caller in module.callers.get(computation.name, ())):
            continue  # its operation is counted where it is started
        for instruction in computation.instructions:
            operation = _operation(instruction)
            if operation is None:
                continue
            chain = operation.frontend_attributes.get(_CHAIN)
            if chain is not None and not _calls(computation, _STARTS):
                continue  # a later link of a chain
            outer = _outermost(module, instruction)
            place = outer.computation
            if place.name not in dones:
                dones[place.name] = _dones(place)
            done = dones[place.name].get(outer.name)
            if chain is not None and done is None:
                ends = _chain_ends(module) if ends is None else ends
                done = ends.get((place.name, chain))
            yield Operation(instruction, operation, done)


def _operation(instruction: Instruction) -> Instruction | None:
    """The collective that an instruction performs or starts, None for all others."""
    if instruction.opcode.removesuffix("-start") in OPCODES:
        return instruction
    if instruction.opcode == "async-start":
        for inner in instruction.called_computations[0].instructions:
            if inner.opcode in OPCODES:
                return inner
    return None


def _outermost(module: Module, instruction: Instruction) -> Instruction:
    """The fusion, and the start of it, that an instruction is in; itself in none."""
    callers = module.callers.get(instruction.computation.name, ())
    if len(callers) == 1 and callers[0].opcode in ("fusion", "async-start"):
        return _outermost(module, callers[0])
    return instruction


def _dones(computation: Computation) -> dict[str, Instruction]:
    """Start instruction to the instruction that ends it."""
    dones: dict[str, Instruction] = {}
    for instruction in computation.instructions:
        if instruction.opcode.endswith("-done") and instruction.operands:
            start = instruction.operands[0]
            while start.opcode == "async-update":
                start = start.operands[0]
            dones[start.name] = instruction
    return dones


def _chain_ends(module: Module) -> dict[tuple[str, str], Instruction]:
    """The fusions that end the chains, by the computation that they stand in and the chain."""
    ends: dict[tuple[str, str], Instruction] = {}
    for computation in module.computations:
        for instruction in computation.instructions:
            chain = instruction.frontend_attributes.get(_CHAIN)
            if chain is not None and instruction.opcode in OPCODES and _calls(computation, _ENDS):
                outer = _outermost(module, instruction)
                ends[outer.computation.name, chain] = outer
    return ends


def _calls(computation: Computation, target: str) -> bool:
    return any(i.custom_call_target == target for i in computation.instructions)
