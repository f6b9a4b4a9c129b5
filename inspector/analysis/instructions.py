"""The instructions of a module as a table."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from inspector.analysis.cost.phases import Phases, phases_text
from inspector.compilation.cost import InstructionCost
from inspector.errors import Unavailable
from inspector.hlo.backend_config import estimated_cycles
from inspector.hlo.execution_counts import Place, places
from inspector.hlo.module import Module
from inspector.hlo.reading.single_instructions import FLOW
from inspector.hlo.source import NOWHERE, library_text
from inspector.support.columns import TableColumn, TableDescription
from inspector.support.tables import UNKNOWN, Column, Kind, table_of
from inspector.support.units import Unit

if TYPE_CHECKING:
    import pandas as pd


def instructions(module: Module, costs: Mapping[str, InstructionCost]) -> pd.DataFrame:
    """Returns one row per instruction, in the module's order.

    Columns: `name, opcode, computation, shape, operand_bytes, output_bytes, flops, fusion, scope,
    source_file, source_line, transcendentals, bytes_accessed, main_memory_bytes, counted_in, executions,
    estimated_cycles, phase, library_line, total_flops, total_transcendentals, total_bytes_accessed,
    total_main_memory_bytes, unknown`.

    - `fusion`: the fusion instruction that contains the instruction, or None.
    - `scope`: the JAX name stack without the primitive.
    - `source_file`, `source_line`: the innermost line of the user's own code, or None.
    - `library_line`: the library line called from there, such as `flax/linen/linear.py:287`.
    - `flops`, `transcendentals`, `bytes_accessed`, `main_memory_bytes` (the part of `bytes_accessed` in main memory): the
      cost of one execution. They include the computations that the instruction calls, a loop's body times its trip
      count. So the rows of a loop or fusion and the rows of its computations count the same work: to sum costs, use the
      `total_*` columns.
    - `total_*`: the cost of all executions, in the row of the instruction that the device executes. These columns are
      missing for loops, calls and conditionals, whose computations' rows have the cost, and for fused instructions, whose
      fusion has it. Each column sums over all rows to the program's total, so it can also be summed by opcode, scope or
      line. Where `executions` is unknown, in branches and in loops of unknown length, the cells are missing and `unknown`
      has the reason.
    - `counted_in`: the instruction whose row includes the cost of this one. The rows where it is missing sum to the totals
      too; on TPUs their `main_memory_bytes` sum to `Compiled.cost.bytes_accessed`.
    - `executions`: number of executions in one execution of the module, from the trip counts of the loops around it.
    - `estimated_cycles`: the TPU compiler's estimate.
    - `phase`: the part of a differentiated program: "forward", "backward", "recomputed" (by `jax.checkpoint`), "rest" (not
      differentiated), several joined by " + " if XLA merged them, or None.
    - `unknown`: the reasons for missing numbers, and a note for partly known numbers that they are "at least" that much;
      columns that only TPUs have are not mentioned.

    Args:
      module: the module.
      costs: cost of each instruction by name (`compilation.cost.costs`).
    """
    columns = _of_computations(module) | _of_kinds(module) | _of_origins(module) | _of_costs(module, costs)
    return table_of(INSTRUCTION_COLUMNS.kinds, {"name": Column(module.columns.names), **columns})


def _cell(name: str) -> Callable[[Mapping[str, Any]], object]:
    """Returns a function that reads a cell of a row of the table, with the row's reasons if the cell is missing."""

    def read(row: Mapping[str, Any]) -> object:
        import pandas as pd

        cell = row[name]
        if not pd.isna(cell):
            return cell
        return Unavailable(row[UNKNOWN]) if row[UNKNOWN] else None

    return read


def _source(row: Mapping[str, Any]) -> object:
    import pandas as pd

    if pd.isna(row["source_file"]):
        return None
    library = row["library_line"]
    return f"{row['source_file']}:{row['source_line']}" + ("" if pd.isna(library) else f" ({library})")


def _estimated(row: Mapping[str, Any]) -> object:
    import pandas as pd

    cell = row["least_s"]
    return Unavailable("it is part of a kernel, or its roof is unknown") if pd.isna(cell) else cell


def _measured(row: Mapping[str, Any]) -> object:
    import pandas as pd

    cell = row["measured_s"]
    return Unavailable("the profile has no event of it") if pd.isna(cell) else cell


def _shown(name: str, kind: Kind, title: str, tooltip: str, unit: Unit | None = None) -> TableColumn[Mapping[str, Any]]:
    return TableColumn(name, kind, _cell(name), title, tooltip, unit, ("data_frame", "pane"))


def _framed(name: str, kind: Kind) -> TableColumn[Mapping[str, Any]]:
    return TableColumn(name, kind, _cell(name))


INSTRUCTION_COLUMNS: TableDescription[Mapping[str, Any]] = TableDescription(
    TableColumn("order", "int", lambda _: None, "#", "Order of the text", views=("pane",)),
    _shown("name", "text", "instruction", "Name of the instruction"),
    TableColumn(
        "measured_s",
        "float",
        _measured,
        "measured time",
        "Measured time in one execution on one device, from a profile",
        "seconds",
        ("pane",),
    ),
    TableColumn(
        "least_s",
        "float",
        _estimated,
        "estimated time",
        "Time at the limiting roof, for all runs",
        "seconds",
        ("pane",),
    ),
    _shown("opcode", "text", "opcode", "Kind of instruction"),
    _framed("computation", "text"),
    _shown("shape", "text", "shape", "Shape of the result"),
    _framed("operand_bytes", "int"),
    _framed("output_bytes", "int"),
    _shown("flops", "float", "flops", "FLOPs of one run, including called computations", "count"),
    _framed("fusion", "text"),
    _framed("scope", "text"),
    _framed("source_file", "text"),
    _framed("source_line", "int"),
    _framed("transcendentals", "float"),
    _shown("bytes_accessed", "float", "bytes", "Bytes read and written in one run", "bytes"),
    _framed("main_memory_bytes", "float"),
    _framed("counted_in", "text"),
    _shown("executions", "int", "runs", "Runs per execution of the program", "count"),
    _framed("estimated_cycles", "int"),
    _framed("phase", "text"),
    _framed("library_line", "text"),
    _framed("total_flops", "float"),
    _framed("total_transcendentals", "float"),
    _framed("total_bytes_accessed", "float"),
    _framed("total_main_memory_bytes", "float"),
    TableColumn("source", "text", _source, "source", "Line of your code", views=("pane",)),
)
"""The columns of the table. The row of a view is a row of the data frame; views number their rows themselves, as `order`."""

_NEVER = Unavailable("nothing calls its computation")
_NOWHERE = Place("", _NEVER, 0, fused=False)


def _of_computations(module: Module) -> dict[str, Column]:
    """Returns the columns that all instructions of a computation share."""
    where = places(module)
    here = [where.get(name, _NOWHERE) for name in module.columns.computation_names]
    fusions = {
        called.name: caller.name
        for caller in map(module.at, module.columns.called.having.tolist())
        if caller.opcode == "fusion"
        for called in caller.called_computations
    }
    cells: dict[str, Sequence[object]] = {
        "computation": module.columns.computation_names,
        "fusion": [fusions.get(name) for name in module.columns.computation_names],
        "counted_in": [place.counted_in for place in here],
        "executions": [place.executions for place in here],
    }
    return {name: Column(values, module.columns.in_computation) for name, values in cells.items()}


def _of_kinds(module: Module) -> dict[str, Column]:
    """Returns the columns that all instructions of a kind share."""
    columns, rows = module.columns, module.alike.first.tolist()
    first, codes = [*map(module.at, rows)], columns.shapes.codes
    texts, sizes = ([*map(of, module.known_shapes)] for of in (str, operator.attrgetter("byte_size")))
    here = codes[rows].tolist()
    cycles = (estimated_cycles(instruction) for instruction in first)
    cells: dict[str, list[object]] = {
        "opcode": [instruction.opcode for instruction in first],
        "shape": [texts[code] for code in here],
        "operand_bytes": [sum(sizes[code] for code in codes[columns.operands.of(row)].tolist()) for row in rows],
        "output_bytes": [sizes[code] for code in here],
        "estimated_cycles": [None if isinstance(each, Unavailable) else each for each in cycles],
    }
    return {name: Column(values, module.alike.kinds) for name, values in cells.items()}


def _of_origins(module: Module) -> dict[str, Column]:
    """Returns the columns that all instructions of the same origin share; the phase also depends on that of the callers."""
    codes, origins, phases = module.columns.metadata.codes, (*module.known_origins, NOWHERE), Phases(module)
    frames = [origin.line for origin in origins]
    cells: dict[str, list[object]] = {
        "scope": [origin.scope for origin in origins],
        "source_file": [frame.file if frame else None for frame in frames],
        "source_line": [frame.line if frame else None for frame in frames],
        "library_line": [library_text(origin.frames) for origin in origins],
    }
    calling = [phases.calling(computation) for computation in module.computations]
    known = list(dict.fromkeys(calling))
    called = np.array([known.index(each) for each in calling])[module.columns.in_computation]
    found = [phases_text(phases.below(o.op_name, above)) for above in known for o in origins]
    column = {name: Column(values, codes) for name, values in cells.items()}
    return column | {"phase": Column(found, called * len(origins) + codes % len(origins))}


def _of_costs(module: Module, costs: Mapping[str, InstructionCost]) -> dict[str, Column]:
    """Returns the cost columns; equal costs are mostly the same object."""
    listed = [costs[name] for name in module.columns.names]
    known = {id(cost): cost for cost in listed}
    place = {number: code for code, number in enumerate(known)}
    codes = np.fromiter(map(place.__getitem__, map(id, listed)), np.int64, len(listed))
    different = list(known.values())
    columns: dict[str, Column] = {name: Column([getattr(c, name) for c in different], codes) for name in _OPERATIONS}
    # Fused instructions do not access memory themselves.
    where = places(module)
    here = [where.get(name, _NOWHERE) for name in module.columns.computation_names]
    parts = [Unavailable(f"it is part of {place.counted_in}, which accesses memory as a whole") for place in here]
    fused = np.array([place.fused for place in here], bool)[module.columns.in_computation]
    moved = np.where(fused, len(different) + module.columns.in_computation, codes)
    columns |= {name: Column([*(getattr(c, name) for c in different), *parts], moved) for name in _MEMORY}
    return columns | _totals(module, different, codes, here, fused)


def _totals(
    module: Module,
    different: Sequence[InstructionCost],
    codes: npt.NDArray[np.int64],
    here: Sequence[Place],
    fused: npt.NDArray[np.bool_],
) -> dict[str, Column]:
    """Returns the costs of all executions, each counted in one row only.

    Args:
      module: the module.
      different: the distinct costs.
      codes: for each row the index of its cost in `different`.
      here: the place of each computation.
      fused: whether each row is part of a fusion.
    """
    in_computation = module.columns.in_computation
    counts = list(dict.fromkeys(place.executions for place in here))
    number_of = {count: number for number, count in enumerate(counts)}
    of_computation = np.array([number_of[place.executions] for place in here])
    pairs = codes * len(counts) + of_computation[in_computation]
    elsewhere = fused | module.columns.opcode_is(FLOW.__contains__)
    pairs = np.where(elsewhere, -1, pairs)
    known, rows = np.unique(pairs, return_inverse=True)
    cells: dict[str, list[object]] = {f"total_{name}": [] for name in (*_OPERATIONS, *_MEMORY)}
    for pair in known.tolist():
        for name in (*_OPERATIONS, *_MEMORY):
            value = (
                None if pair < 0 else _times(getattr(different[pair // len(counts)], name), counts[pair % len(counts)])
            )
            cells[f"total_{name}"].append(value)
    return {name: Column(values, rows) for name, values in cells.items()}


def _times(cost: float | Unavailable, executions: int | Unavailable) -> float | Unavailable:
    if isinstance(cost, Unavailable) or not cost:
        return cost
    return executions if isinstance(executions, Unavailable) else cost * executions


_OPERATIONS = ("flops", "transcendentals")
_MEMORY = ("bytes_accessed", "main_memory_bytes")
