"""The instructions of a module as a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from inspector.analysis.phases import Phases, phases_text
from inspector.compilation.cost import InstructionCost
from inspector.errors import Unavailable
from inspector.hlo.backend_config import estimated_cycles
from inspector.hlo.executions import Place, places
from inspector.hlo.module import Instruction, Module
from inspector.hlo.shape import Shape
from inspector.hlo.source import Origin
from inspector.tables import UNKNOWN, Kind, make_table

if TYPE_CHECKING:
    import pandas as pd


def instructions(module: Module, costs: Mapping[str, InstructionCost]) -> pd.DataFrame:
    """One row an instruction, in the module's order.

    Columns: `name, opcode, computation, shape, operand_bytes, output_bytes, flops, fusion, scope,
    source_file, source_line, transcendentals, bytes_accessed, main_memory_bytes, counted_in, executions,
    estimated_cycles, phase, unknown`.

    `fusion` is the fusion instruction that holds it or None, `scope` the JAX name stack without the
    primitive, the source the innermost Python line or None. `flops`, `transcendentals`, `bytes_accessed` and
    the part of these in the main memory are of one execution and hold what the instruction calls, a loop's body
    as often as it runs; the rows whose `counted_in` is missing sum to the program's totals, `Compiled.cost`.
    `executions` is how often it runs in one execution of the module, from the trip counts of the loops around
    it. `estimated_cycles` is the TPU compiler's. `phase` is the part of a differentiated program: "forward",
    "backward", "recomputed" (by `jax.checkpoint`), "rest" (not differentiated), several joined by " + " where XLA
    merged them, or None. `unknown` says why a number is missing, and of one that is known in part that it is
    "at least" that much; what only TPUs have is left out of it.

    Args:
      module: the module.
      costs: of each instruction by name (`compilation.cost.costs`).
    """
    rows = _Rows(module, costs)
    return make_table(_COLUMNS, (rows.of(instruction) for instruction in module.instructions()))


_COLUMNS: Mapping[str, Kind] = {
    "name": "text", "opcode": "text", "computation": "text", "shape": "text", "operand_bytes": "int",
    "output_bytes": "int", "flops": "float", "fusion": "text", "scope": "text", "source_file": "text",
    "source_line": "int", "transcendentals": "float", "bytes_accessed": "float", "main_memory_bytes": "float",
    "counted_in": "text", "executions": "int", "estimated_cycles": "int", "phase": "text", UNKNOWN: "reasons",
}  # fmt: skip

_NEVER = Unavailable("nothing calls its computation")
_NOWHERE = Place("", _NEVER, 0, fused=False)
_NO_ORIGIN = Origin("")


class _Rows:
    """Rows, with what many of them share made once."""

    def __init__(self, module: Module, costs: Mapping[str, InstructionCost]) -> None:
        self._costs = costs
        self._places = places(module)
        self._origins = module.origins()
        self._phases = Phases(module)
        self._shapes: dict[int, tuple[str, int]] = {}
        self._keep: list[Shape] = []
        self._fused: dict[str | None, Unavailable] = {}
        self._fusions = {
            called.name: caller.name
            for caller in module.instructions()
            if caller.opcode == "fusion"
            for called in caller.called_computations
        }

    def of(self, instruction: Instruction) -> tuple[object, ...]:
        """The cells of `_COLUMNS`."""
        cost, place = self._costs[instruction.name], self._places.get(instruction.name, _NOWHERE)
        origin = self._origins.get(instruction.name, _NO_ORIGIN)
        frame = origin.frames[0] if origin.frames else None
        text, output_bytes = self._shape(instruction.shape)
        cycles = estimated_cycles(instruction)
        moved = (cost.bytes_accessed, cost.main_memory_bytes)
        return (
            instruction.name,
            instruction.opcode,
            instruction.computation.name,
            text,
            sum(self._shape(operand.shape)[1] for operand in instruction.operands),
            output_bytes,
            cost.flops,
            self._fusions.get(instruction.computation.name),
            origin.op_name.rpartition("/")[0],
            frame.file if frame else None,
            frame.line if frame else None,
            cost.transcendentals,
            *((self._no_memory(place.counted_in),) * 2 if place.fused else moved),
            place.counted_in,
            place.executions,
            cycles if not isinstance(cycles, Unavailable) else None,
            phases_text(self._phases.of(instruction)),
        )

    def _shape(self, shape: Shape) -> tuple[str, int]:
        """Text and bytes; a module gives equal shapes as one object."""
        known = self._shapes.get(id(shape))
        if known is None:
            known = self._shapes[id(shape)] = (str(shape), shape.byte_size)
            self._keep.append(shape)
        return known

    def _no_memory(self, container: str | None) -> Unavailable:
        if container not in self._fused:
            self._fused[container] = Unavailable(f"it is a part of {container} and has no memory of its own")
        return self._fused[container]
