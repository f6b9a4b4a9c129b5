"""What reading a compiled module costs: into columns, into the tables and pictures of all panes, and in memory.

    python -m benchmarks.analysis [--rounds 9] [workload ...]

CPU times of this process, the best of several rounds, of the optimized module of each workload, beside (1) a bare
table in the same rounds: the module decoded by protobuf and of each instruction its name, opcode, shape, operands and
origin, in Python; (2) the CPU time of the bare compile. All views are what the panes show of the whole module:
instructions with XLA's counts, roofline, collectives, graph, kernels and the index for comparing.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import time
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import pandas as pd

from benchmarks.measuring import Figure, lines, machine
from benchmarks.workloads import make
from inspector.analysis.collectives.collectives import collectives
from inspector.analysis.cost.kernels import structure
from inspector.analysis.cost.peaks import peak_of
from inspector.analysis.cost.roofline import roofline
from inspector.analysis.diff.fingerprint import module_digest
from inspector.analysis.diff.text_diff import instruction_changes, instruction_multiset
from inspector.analysis.graph.instruction_graph import graph
from inspector.analysis.instructions import instructions
from inspector.compilation.cost import InstructionCost, costs
from inspector.compilation.target import Target
from inspector.engines.workers.counting import count_here
from inspector.hlo.module import Module
from inspector.hlo.reading.module_message import decoded
from inspector.hlo.reading.single_instructions import singles

WORKLOADS = ("mlp", "cnn", "tf2", "tf6", "tfscan12")
QUICK = ("mlp", "cnn", "tf2")
AIM_COLUMNS, AIM_INSTRUCTIONS = 0.25, 1.0  # of the bare table's time
AIM_BYTES = 400  # an instruction
AIM_VIEWS, AIM_COMPARED = 0.03, 0.03  # of the compile
AIM_AROUND_S = 0.1
AIM_EXPONENT = 1.05

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Measured:
    """CPU seconds, and bytes an instruction, of one workload; the attributes are what `_measure` says."""

    rows: int
    compile: float
    bare: float
    columns: float
    table: float
    counting: float
    views: float
    around: float
    compared: float
    bytes: float


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("workloads", nargs="*", default=list(WORKLOADS))
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args(arguments)
    figures(options.workloads, options.rounds)


def figures(workloads: Sequence[str] = QUICK, rounds: int = 9) -> list[Figure]:
    """Measures and prints, a workload after the other."""
    pd.DataFrame({"warm": [1]}).take([0])
    found: list[Figure] = []
    points: list[tuple[int, float]] = []
    for name in workloads:
        measured = _measure(*_compiled(name), rounds)
        mine = _figures(name, measured)
        print(f"{name}: {_heading(measured)} {machine()}\n{lines(mine)}", flush=True)
        found += mine
        points.append((measured.rows, measured.columns + measured.views))
    if len(points) > 1:
        print(f"columns and views grow with instructions to the power {_exponent(points):.2f} (aim {AIM_EXPONENT})")
    return found


def _figures(name: str, m: Measured) -> list[Figure]:
    table, compiled = "the bare table", "the compile"
    return [
        Figure(name, "columns", table, m.columns / m.bare, AIM_COLUMNS),
        Figure(name, "instructions()", table, m.table / m.bare, AIM_INSTRUCTIONS),
        Figure(name, "around an instruction", table, m.around / m.bare),
        Figure(name, "bytes held", "an instruction", m.bytes, AIM_BYTES),
        Figure(name, "all views", compiled, m.views / m.compile, AIM_VIEWS),
        Figure(name, "XLA's counting", compiled, m.counting / m.compile),
        Figure(name, "a pair compared", compiled, m.compared / m.compile, AIM_COMPARED),
    ]


def _heading(m: Measured) -> str:
    return (
        f"{m.rows:,} instructions; bare table {m.rows / m.bare / 1e6:.2f} M/s, compile {m.compile:.1f} s;"
        f" columns x{m.bare / m.columns:.2f} as fast as the table, instructions() x{m.bare / m.table:.2f};"
        f" around an instruction {m.around * 1e3:.0f} ms (aim {AIM_AROUND_S * 1e3:.0f})"
    )


def _compiled(name: str) -> tuple[bytes, float]:
    """The optimized module of a workload, and the CPU seconds of its bare compile."""
    workload = make(name)
    lowered = jax.jit(workload.fun).lower(*workload.args)
    start = time.process_time()
    compiled = lowered.compile()
    spent = time.process_time() - start
    executable: Any = compiled.runtime_executable()
    return executable.hlo_modules()[0].as_serialized_hlo_module_proto(), spent


def _measure(data: bytes, compile_s: float, rounds: int) -> Measured:
    every = [_round(data) for _ in range(rounds)]
    best = {name: min(spent[name] for spent in every) for name in every[0]}
    rows = sum(1 for _ in Module.from_proto(data).instructions())
    taken = {name: best[name] for name in ("bare", "columns", "table", "counting", "views", "around", "compared")}
    return Measured(rows=rows, compile=compile_s, bytes=_bytes(data) / rows, **taken)


def _round(data: bytes) -> dict[str, float]:
    """CPU seconds of each part."""
    spent: dict[str, float] = {}
    _timed(spent, "bare", lambda: _bare_table(data))
    module = _timed(spent, "columns", lambda: _columns(data))
    cost = _timed(spent, "costs", lambda: _costs(module, spent))
    _timed(spent, "table", lambda: instructions(module, cost))
    _timed(spent, "others", lambda: _others(module, cost))
    _timed(spent, "around", lambda: graph(module, "around", module.columns.names[len(module.columns) // 2]))
    other = Module.from_proto(data)
    _timed(spent, "compared", lambda: _compare(module, other))
    return spent | {"views": sum(spent[name] for name in ("columns", "costs", "table", "others"))}


def _timed(spent: dict[str, float], name: str, do: Callable[[], T]) -> T:
    start = time.process_time()
    found = do()
    spent[name] = time.process_time() - start
    return found


def _bare_table(data: bytes) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for computation in decoded(data).computations:
        for i in computation.instructions:
            shape, said = i.shape, i.metadata
            origin = said.op_name, said.stack_frame_id, said.source_file, said.source_line
            rows.append((
                i.name, i.opcode, shape.element_type, tuple(shape.dimensions), tuple(i.operand_ids), *origin,
            ))  # fmt: skip
    return rows


def _columns(data: bytes) -> Module:
    module = Module.from_proto(data)
    _ = module.columns.operands, module.columns.called, module.known_shapes, module.known_origins
    return module


def _costs(module: Module, spent: dict[str, float]) -> dict[str, InstructionCost]:
    parts = singles(module)
    counts = _timed(spent, "counting", lambda: count_here([part.module for part in parts]))
    return costs(module, parts, counts)


def _others(module: Module, cost: dict[str, InstructionCost]) -> None:
    found = collectives(module, None)
    roofline(module, cost, peak_of(Target.parse("gpu:h100:1")), found)
    graph(module)
    structure(module)
    instruction_multiset(module)
    module_digest(module)


def _compare(module: Module, other: Module) -> None:
    instruction_changes(instruction_multiset(module), instruction_multiset(other))


def _bytes(data: bytes) -> int:
    """What a module in columns holds, besides the bytes that it was read from."""
    tracemalloc.start()
    module = _columns(data)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del module
    return held


def _exponent(points: Sequence[tuple[int, float]]) -> float:
    """Of the power of the size that the times follow best, by least squares in logarithms."""
    x, y = ([math.log(point[axis]) for point in points] for axis in (0, 1))
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    above = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    return above / sum((a - mean_x) ** 2 for a in x)


if __name__ == "__main__":
    main()
