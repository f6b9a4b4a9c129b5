"""The same programs for a CPU, TPUs and GPUs, side by side, with our counts held to XLA's own.

    python -m benchmarks.targets [--write docs/targets.md] [--workloads mlp cnn ...] [--targets cpu:8 ...]

Needs no accelerator: what is not here is compiled for ahead of time (`inspector[tpu]`, `inspector[cuda]`).
With `--write` the section of the JAX that runs is written anew in that file, and the others stay. The
columns are described at the top of `docs/targets.md`.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jax

import inspector
from benchmarks.workloads import make
from inspector.analysis.cost.kernels import structure
from inspector.analysis.memory.timeline import Timeline
from inspector.compilation.cost import Cost, is_reported, total
from inspector.compilation.memory import Memory
from inspector.compilation.target import Target
from inspector.engines.shared_engines import close_engines, worker_engine
from inspector.errors import Unavailable
from inspector.stages.compiled import Compiled, instruction_costs
from inspector.support.units import format_bytes, format_count, format_seconds

WORKLOADS = ("mlp", "cnn", "tf2", "fsdp8_2", "pallas_mm")
TARGETS = ("cpu:8", "tpu:v5e:2x4", "tpu:v6e:2x2", "gpu:h100:8", "gpu:b200:1")
HEADS = (
    "program", "target", "flops", "Σ flops / XLA's", "Σ bytes / XLA's", "kernels", "fusions",
    "collectives", "memory", "live / heap", "heap / XLA's temp", "cycles", "at the roofs",
)  # fmt: skip
NOTHING = "–"
_LEAST_TRACED = 100  # a heap of which XLA traced less than this part holds tables of tuples, far apart


@dataclasses.dataclass(frozen=True)
class Row:
    """One program for one target: the cells after `program` and `target`, or why there are none."""

    workload: str
    target: str
    cells: tuple[str, ...]
    reason: str = ""


def main(arguments: Sequence[str] | None = None) -> None:
    """Compiles, prints, and writes when asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--workloads", nargs="*", default=list(WORKLOADS))
    parser.add_argument("--targets", nargs="*", default=list(TARGETS))
    parser.add_argument("--write", type=Path, default=None)
    options = parser.parse_args(arguments)
    jax.config.update("jax_num_cpu_devices", 8)
    rows = []
    try:
        for workload in options.workloads:
            for target in options.targets:
                rows.append(_row(workload, target))
                print(" | ".join((workload, target, *(rows[-1].cells or (rows[-1].reason,)))), flush=True)
    finally:
        close_engines()
    text = "\n".join(_section(rows))
    print(text)
    if options.write is not None:
        options.write.write_text(_replaced(options.write.read_text(), text))


def _row(workload: str, target: str) -> Row:
    made = make(workload)
    try:
        lowered = inspector.lower(made.fun, *made.args, platform=Target.parse(target).platform)
        compiled = lowered.compile(target=target, products=("buffers",), engine=worker_engine())
    except Exception as e:  # JAX's own too: the reason is the result
        return Row(workload, target, (), f"{type(e).__name__}: {_first_sentence(str(e))}")
    return Row(workload, target, _cells(compiled))


def _cells(compiled: Compiled) -> tuple[str, ...]:
    module, costs = compiled.module(), instruction_costs(compiled)
    counted = total(module, costs)
    numbers, use = structure(module), compiled.timeline()
    theirs = _reported(compiled)
    roof = compiled.roofline()
    bound = f", {roof.total.bound_by}" if not isinstance(roof.total.least_s, Unavailable) else ""
    return (
        _count(counted.flops),
        _ratio(counted.flops, theirs if isinstance(theirs, Unavailable) else theirs.flops),
        _ratio(counted.bytes_accessed, theirs if isinstance(theirs, Unavailable) else theirs.bytes_accessed),
        _count(numbers.kernels),
        _count(numbers.fusions),
        f"{_count(numbers.collectives)} ({format_bytes(numbers.collective_bytes)})" if numbers.collectives else "0",
        *_memory(use, compiled.memory),
        _count(numbers.estimated_cycles),
        NOTHING if isinstance(roof.total.least_s, Unavailable) else format_seconds(roof.total.least_s) + bound,
    )


def _reported(compiled: Compiled) -> Cost | Unavailable:
    """XLA's own count of the whole module; other costs are sums of ours, which would be held to themselves."""
    if compiled.target.is_absent and compiled.target.platform == "gpu":
        return Unavailable("the compiler for GPUs that are not here reports none")
    if not is_reported(compiled.hlo_proto, compiled.module):
        return Unavailable("XLA counts loops once and custom calls not at all")
    return compiled.cost


def _memory(use: Timeline | Unavailable, memory: Memory | Unavailable) -> tuple[str, str, str]:
    """Allocations by memory space; the most that lives in each heap over its size; the main heap over XLA's total."""
    if isinstance(use, Unavailable):
        return (str(use), NOTHING, NOTHING)
    large = {n: s for n, s in use.spaces.items() if n in ("RAM", "HBM", "VMEM", "host") and s.allocated_bytes}
    heaps = [(n, s.live_bytes, s.temp_bytes) for n, s in large.items() if s.live_bytes * _LEAST_TRACED > s.temp_bytes]
    main_heap = next(iter(large.values())).temp_bytes
    told = memory if isinstance(memory, Unavailable) else memory.reported
    xla = told if isinstance(told, Unavailable) else told.get("temp_size_in_bytes", Unavailable("not reported"))
    return (
        ", ".join(f"{name} {format_bytes(space.allocated_bytes)}" for name, space in large.items()),
        ", ".join(f"{name} {live / heap:.5f}" for name, live, heap in heaps) or NOTHING,
        _ratio(main_heap, xla) if xla else f"{format_bytes(main_heap)} / {format_bytes(xla)}",
    )


def _ratio(ours: float | Unavailable, theirs: float | Unavailable) -> str:
    if isinstance(theirs, Unavailable) or isinstance(ours, Unavailable):
        return "not reported"
    return f"{ours / theirs:.6f}" if theirs else NOTHING


def _count(value: float | Unavailable) -> str:
    return NOTHING if isinstance(value, Unavailable) else format_count(value)


def _first_sentence(text: str) -> str:
    return " ".join(text.split()).partition(". ")[0][:200]


def _section(rows: Sequence[Row]) -> Iterator[str]:
    yield f"{_heading()}\n"
    yield f"{time.strftime('%Y-%m-%d')}.\n"
    yield _line(HEADS)
    yield _line(["---"] * len(HEADS))
    for row in rows:
        cells = row.cells or (row.reason.replace("|", "\\|"), *[""] * (len(HEADS) - 3))
        yield _line((row.workload, row.target, *cells))


def _heading() -> str:
    return f"## JAX {jax.__version__}"


def _line(cells: Sequence[Any]) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def _replaced(document: str, section: str) -> str:
    """The document with one section written anew, or added at its end."""
    before, *sections = document.split("\n## ")
    kept = [s for s in sections if f"## {s.partition(chr(10))[0]}" != _heading()]
    parts = sorted([*(f"## {s.rstrip()}" for s in kept), section.rstrip()])
    return "\n\n".join([before.rstrip(), *parts]) + "\n"


if __name__ == "__main__":
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    main()
