"""The instructions of a module as a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from inspector.analysis.cost import InstructionCost, Place, places
from inspector.errors import Unavailable
from inspector.hlo.backend_config import estimated_cycles
from inspector.hlo.module import Instruction, Module

if TYPE_CHECKING:
    import pandas as pd


def instructions(module: Module, costs: Mapping[str, InstructionCost]) -> pd.DataFrame:
    """One row an instruction, in the module's order.

    Columns: `name, opcode, computation, shape, operand_bytes, output_bytes, flops, fusion, scope,
    source_file, source_line, transcendentals, bytes_accessed, main_memory_bytes, counted_in, executions,
    estimated_cycles`.

    `fusion` is the fusion instruction that holds it or None, `scope` the JAX name stack without the
    primitive, the source the innermost Python line or None. `flops`, `transcendentals`,
    `bytes_accessed` and the part of these in the main memory are of one execution and hold what the instruction calls; the rows whose
    `counted_in` is missing sum to the module's totals. `executions` is how often it runs in one execution
    of the module, from the trip counts of the loops around it. `estimated_cycles` is the TPU compiler's.

    Args:
      module: the module.
      costs: of each instruction by name (`analysis.cost.costs`).
    """
    import pandas as pd

    where = places(module)
    rows = [_row(i, fusion, costs[i.name], where.get(i.name, _NOWHERE)) for i, fusion in _with_fusion(module)]
    return pd.DataFrame(rows, columns=list(_COLUMNS))


_COLUMNS = (
    "name", "opcode", "computation", "shape", "operand_bytes", "output_bytes", "flops", "fusion", "scope",
    "source_file", "source_line", "transcendentals", "bytes_accessed", "main_memory_bytes", "counted_in", "executions",
    "estimated_cycles",
)  # fmt: skip

_NEVER = Unavailable("nothing calls its computation")
_NOWHERE = Place("", _NEVER, fused=False)


def _with_fusion(module: Module) -> list[tuple[Instruction, str | None]]:
    fusions = {
        called.name: caller.name
        for caller in module.instructions()
        if caller.opcode == "fusion"
        for called in caller.called_computations
    }
    return [(i, fusions.get(i.computation.name)) for i in module.instructions()]


def _row(instruction: Instruction, fusion: str | None, cost: InstructionCost, place: Place) -> tuple[object, ...]:
    origin = instruction.origin
    frame = origin.frames[0] if origin.frames else None
    none = Unavailable(f"it is a part of {place.counted_in} and has no memory of its own")
    return (
        instruction.name,
        instruction.opcode,
        instruction.computation.name,
        str(instruction.shape),
        sum(operand.shape.byte_size for operand in instruction.operands),
        instruction.shape.byte_size,
        cost.flops,
        fusion,
        origin.op_name.rpartition("/")[0],
        frame.file if frame else None,
        frame.line if frame else None,
        cost.transcendentals,
        *((none, none) if place.fused else (cost.bytes_accessed, cost.main_memory_bytes)),
        place.counted_in,
        place.executions,
        estimated_cycles(instruction),
    )
