"""Regions of StableHLO operations that combine two values.

Private JAX: `jaxlib.mlir` (operations and types of StableHLO).
"""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir


def add_reduction(collective: Any, element_type: Any, opcode: str) -> None:
    """Gives a collective without a block in its region the operation that combines two values, such as "stablehlo.add"."""
    scalar, location = ir.RankedTensorType.get([], element_type), collective.location
    block = collective.regions[0].blocks.append(scalar, scalar, arg_locs=[location] * 2)
    with ir.InsertionPoint(block):
        combined = ir.Operation.create(opcode, results=[scalar], operands=[*block.arguments], loc=location)
        ir.Operation.create("stablehlo.return", results=[], operands=[combined.results[0]], loc=location)
