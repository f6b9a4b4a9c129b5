"""The share of a program that its Pallas kernels are."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from inspector.hlo.module import Computation, Instruction, Module
from inspector.hlo.pallas import PallasKernel

# Of the instructions that compute something.
_LEAST_SHARE = 0.75
_NOT_COMPUTING = frozenset({
    "bitcast", "bitcast-convert", "broadcast", "concatenate", "constant", "convert", "copy", "domain", "dynamic-slice",
    "dynamic-update-slice", "get-tuple-element", "iota", "optimization-barrier", "pad", "parameter", "partition-id",
    "replica-id", "reshape", "reverse", "slice", "transpose", "tuple",
})  # fmt: skip
_ANNOTATIONS = frozenset(
    {"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "annotate_device_placement", "LayoutConstraint"}
)


def is_mostly_kernels(module: Module, kernels: Iterable[PallasKernel]) -> bool:
    """Returns whether nearly all computing instructions of a program belong to Pallas kernels.

    Not counted: parameters, constants, tuples, conversions and data movement. Called functions count as part of the
    caller; loops and conditionals count as one instruction. Interpreted kernels are found by their scope.

    Args:
      module: HLO before optimization.
      kernels: the program's kernels.
    """
    names = {kernel.name for kernel in kernels} | {"pallas_call"}
    counted = [_is_of(instruction, names) for instruction in _computing(module.entry)]
    return any(counted) and sum(counted) >= _LEAST_SHARE * len(counted)


def _computing(computation: Computation) -> Iterator[Instruction]:
    for instruction in computation.instructions:
        if instruction.opcode == "call":
            for called in instruction.called_computations:
                yield from _computing(called)
        elif instruction.opcode not in _NOT_COMPUTING and instruction.custom_call_target not in _ANNOTATIONS:
            yield instruction


def _is_of(instruction: Instruction, names: Collection[str]) -> bool:
    return any(scope in names for scope in instruction.op_name.split("/"))
