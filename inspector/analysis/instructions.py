"""The instructions of a module as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from inspector.errors import Unavailable
from inspector.hlo.module import Instruction, Module

if TYPE_CHECKING:
    import pandas as pd

_NO_FLOPS = Unavailable("this version does not count operations by instruction")


def instructions(module: Module) -> pd.DataFrame:
    """One row an instruction, in the module's order.

    Columns: `name, opcode, computation, shape, operand_bytes, output_bytes, flops, fusion, scope,
    source_file, source_line`. `fusion` is the fusion instruction that holds it or None, `scope` the
    JAX name stack without the primitive, the source the innermost Python line or None.
    """
    import pandas as pd

    return pd.DataFrame([_row(i, fusion) for i, fusion in _with_fusion(module)], columns=list(_COLUMNS))


_COLUMNS = (
    "name", "opcode", "computation", "shape", "operand_bytes", "output_bytes", "flops", "fusion", "scope",
    "source_file", "source_line",
)  # fmt: skip


def _with_fusion(module: Module) -> list[tuple[Instruction, str | None]]:
    fusions = {
        called.name: caller.name
        for caller in module.instructions()
        if caller.opcode == "fusion"
        for called in caller.called_computations
    }
    return [(i, fusions.get(i.computation.name)) for i in module.instructions()]


def _row(instruction: Instruction, fusion: str | None) -> tuple[object, ...]:
    origin = instruction.origin
    frame = origin.frames[0] if origin.frames else None
    return (
        instruction.name,
        instruction.opcode,
        instruction.computation.name,
        str(instruction.shape),
        sum(operand.shape.byte_size for operand in instruction.operands),
        instruction.shape.byte_size,
        _NO_FLOPS,
        fusion,
        origin.op_name.rpartition("/")[0],
        frame.file if frame else None,
        frame.line if frame else None,
    )
