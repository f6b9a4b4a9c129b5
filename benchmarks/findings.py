"""The CPU time of estimates and findings over that of the compile.

    python -m benchmarks.findings [--target cpu] [workload ...]

Measures each part of each program once, in this process and in its worker, after a small program has warmed both:

1. The compile, in a warm worker, until all results are read.
2. Estimates: the module is read into columns, XLA counts the operations, then the roofline and the schedule.
3. Findings: `Compiled.findings()` without proofs, including another roofline and the conversion of the StableHLO to HLO.
4. Detectors: the part of the findings that is left if the roofline, the HLO before optimization and the collectives are known.

A program for CPUs, which have no published peaks, is estimated with those of an H100.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

import jax
import psutil  # type: ignore[import-untyped]  # no py.typed upstream

import inspector
from benchmarks.measuring import Figure, lines, machine, own_cpu_s, reaped_cpu_s
from benchmarks.workloads import make
from inspector.analysis.cost.peaks import peak_of
from inspector.analysis.findings.registry import DETECTORS
from inspector.analysis.findings.subject import Subject
from inspector.compilation.target import Target
from inspector.engines.shared_engines import close_engines, worker_engine
from inspector.errors import Unavailable
from inspector.platforms import Peak
from inspector.stages.compiled import Compiled, instruction_costs
from inspector.stages.findings import module_before

WORKLOADS = ("mlp", "cnn", "tf2", "tf6", "tfscan12")
QUICK = ("mlp", "cnn", "tf2")
AIM = 0.05  # of the compile
LARGE = 200_000  # instructions, from which the aim holds
AIM_DETECTORS_S = 0.1

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Measured:
    """CPU seconds of one program, and the kinds of its slowest detectors.

    Attributes:
      rows: number of instructions of the optimized module.
      compile, estimates, findings: seconds of the parts in all processes.
      detectors: seconds of each detector, by kind.
    """

    rows: int
    compile: float
    estimates: float
    findings: float
    detectors: dict[str, float]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("workloads", nargs="*", default=list(WORKLOADS))
    parser.add_argument("--target", default="cpu")
    options = parser.parse_args(arguments)
    jax.config.update("jax_num_cpu_devices", 8)  # for the workloads that are sharded
    figures(options.workloads, options.target)


def figures(workloads: Sequence[str] = QUICK, target: str = "cpu") -> list[Figure]:
    """Measures and prints one workload after the other."""
    found: list[Figure] = []
    try:
        measure("tiny", target)  # imports, and the worker's first count
        for name in workloads:
            measured = measure(name, target)
            mine = _figures(name, measured)
            print(f"{name} for {target}: {_heading(measured)} {machine()}\n{lines(mine)}", flush=True)
            found += mine
    finally:
        close_engines()
    return found


def measure(name: str, target: str) -> Measured:
    """Compiles and examines a workload."""
    workload = make(name)
    lowered = inspector.lower(workload.fun, *workload.args, platform=Target.parse(target).platform)
    compile_s, compiled = _timed(lambda: lowered.compile(target=target, engine=worker_engine()))
    own = peak_of(compiled.target, compiled.devices)
    peak = peak_of(Target.parse("gpu:h100:1")) if isinstance(own, Unavailable) else own
    assert isinstance(peak, Peak)
    estimates_s, _ = _timed(lambda: (compiled.roofline(peak), compiled.schedule(peak)))
    findings_s, _ = _timed(lambda: compiled.findings(peak))
    detectors = _detectors(compiled, peak)
    return Measured(len(compiled.module().columns), compile_s, estimates_s, findings_s, detectors)


def _detectors(compiled: Compiled, peak: Peak) -> dict[str, float]:
    """Returns the seconds of each detector with the analyses of the whole program at hand, without Python's garbage collection of other objects."""
    before, roofline, collectives = module_before(compiled.program), compiled.roofline(peak), compiled.collectives()
    subject = Subject(
        compiled, lambda: before, lambda: instruction_costs(compiled), lambda: roofline, lambda: collectives
    )
    seconds: dict[str, float] = {}
    gc.collect()
    gc.disable()
    for each in DETECTORS:
        begin = time.process_time()  # they do not use the worker
        list(each.find(subject))
        seconds[each.kind] = time.process_time() - begin
    gc.enable()
    return seconds


def _timed(do: Callable[[], T]) -> tuple[float, T]:
    """Returns the CPU seconds that a function takes in this process and those below it, and its result."""
    begin = _spent()
    result = do()
    return _spent() - begin, result


def _spent() -> float:
    below = psutil.Process().children(recursive=True)
    return time.process_time() + sum(own_cpu_s(each) + reaped_cpu_s(each) for each in below)


def _figures(name: str, m: Measured) -> list[Figure]:
    aim = AIM if m.rows >= LARGE else None
    return [
        Figure(name, "estimates", "the compile", m.estimates / m.compile, aim),
        Figure(name, "findings", "the compile", m.findings / m.compile, aim),
        Figure(name, "detectors", "the compile", sum(m.detectors.values()) / m.compile, aim),
    ]


def _heading(m: Measured) -> str:
    slowest = sorted(m.detectors.items(), key=lambda each: -each[1])[:3]
    aim = "" if m.rows >= LARGE else f" (aim {AIM_DETECTORS_S * 1e3:.0f})"
    return (
        f"{m.rows:,} instructions; compile {m.compile:.1f} s, estimates {m.estimates * 1e3:.0f} ms, findings"
        f" {m.findings * 1e3:.0f} ms, detectors {sum(m.detectors.values()) * 1e3:.0f} ms{aim}:"
        f" {', '.join(f'{kind} {1e3 * seconds:.0f}' for kind, seconds in slowest)}"
    )


if __name__ == "__main__":
    main()
