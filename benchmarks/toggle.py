"""What turning a knob costs, over the bare compile.

    python -m benchmarks.toggle [--rounds 5] [workload ...]

In one run and interleaved, each round of each workload: (1) bare: `compile_and_load` of the same
module in this process, as `jax.jit(f).lower(...).compile()` does it; (2) written: the same, until XLA has
written its final HLO to a file in memory, before which nobody can have it; (3) toggle: the same from a warm
worker, until the optimized HLO is in hand (`Job.preview`) and until all results are; (4) seen: the
same setting once more, from memory; (5) restart: the same in a Python process that has imported and
lowered, and compiled nothing, from disk. Every toggle has another value of a flag that changes nothing,
so that nothing else is remembered. Round 0 warms up and is left out.

Wall times on a busy machine swing, so each is divided by its own round's bare compile, and CPU times
of all processes stand beside them: until the optimized HLO was in hand, and until all results were.

Beside this: `python -m benchmarks.recovery` for workers that are killed, cancelled or not there yet,
`python -m benchmarks.endurance` for thousands of toggles, `python -m benchmarks.two_notebooks` for two
kernels at once, `python -m benchmarks.first_picture` for JupyterLab.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax

from benchmarks.measuring import NEUTRAL_FLAG, Figure, cpu_s, lines, machine, verdict
from benchmarks.workloads import make
from inspector import settings
from inspector.compilation.compiled import is_from_cache
from inspector.compilation.request import CompileRequest
from inspector.engines.shared_engines import close_engines, default_engine
from inspector.engines.workers.scratch import Scratch
from inspector.lowering.lower import lower
from inspector.stages.lowered import Lowered, compile_request

WORKLOADS = ("cnn", "tf2", "tf6", "tf12")
QUICK = ("cnn", "tf2")
AIM_PREVIEW_MEDIAN = 0.25  # of the workloads
AIMS = {"preview": 0.40, "all": 1.1, "seen": 0.01, "restart": 0.01}
PREVIEW = "optimized HLO in hand, wall"
MOMENTS = {
    "preview": (PREVIEW, "bare"),
    "written": ("XLA has written it, wall", "bare"),
    "all": ("all results, wall", "bare"),
    "seen": ("seen before, wall", "bare"),
    "restart": ("seen before by another kernel, wall", "bare"),
    "preview_cpu": ("optimized HLO in hand, CPU", "bare_cpu"),
    "all_cpu": ("all results, CPU", "bare_cpu"),
    "restart_cpu": ("seen before by another kernel, CPU", "bare_cpu"),
}
"""Fields of a round: in words, and what they are held to."""


@dataclasses.dataclass(frozen=True)
class Round:
    """Seconds of one round.

    Attributes:
      bare, written, preview, all, seen, restart: wall.
      bare_cpu, preview_cpu, all_cpu: of every process of ours.
      restart_cpu: of the restarted one.
    """

    bare: float
    written: float
    preview: float
    all: float
    seen: float
    restart: float
    bare_cpu: float
    preview_cpu: float
    all_cpu: float
    restart_cpu: float


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("workloads", nargs="*", default=list(WORKLOADS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--again", nargs=3, metavar=("WORKLOAD", "VALUE", "FOLDER"), help="be the restarted kernel")
    options = parser.parse_args(arguments)
    if options.again is not None:
        _restarted_kernel(*options.again)
        return
    if any(name.startswith("fsdp8") for name in options.workloads):
        jax.config.update("jax_num_cpu_devices", 8)
    figures(options.workloads, options.rounds)


def figures(workloads: Sequence[str] = QUICK, rounds: int = 5) -> list[Figure]:
    """Measures and prints, a workload after the other."""
    found: list[Figure] = []
    try:
        for name in workloads:
            measured = _measure(name, rounds + 1)[1:]
            mine = _figures(name, measured)
            bare, bare_cpu = (statistics.median(getattr(r, key) for r in measured) for key in ("bare", "bare_cpu"))
            print(
                f"{name}: bare {bare:.2f} s, CPU {bare_cpu:.2f} s, {len(measured)} rounds {machine()}\n{lines(mine)}",
                flush=True,
            )
            found += mine
    finally:
        close_engines()
    previews = [figure.value for figure in found if figure.name == PREVIEW]
    median = statistics.median(previews)
    print(
        f"optimized HLO in hand, median of workloads: {median:.3f} of the bare compile, worst {max(previews):.3f}"
        f" ({verdict((median, AIM_PREVIEW_MEDIAN), (max(previews), AIMS['preview']))}) {machine()}"
    )
    return found


def _measure(name: str, count: int) -> list[Round]:
    workload = make(name)
    lowered = _lowered(name)
    staged = jax.jit(workload.fun).lower(*workload.args)
    target = _target(name)
    with tempfile.TemporaryDirectory() as folder, settings.scope(cache=True, cache_directory=folder):
        requests = [compile_request(lowered, {NEUTRAL_FLAG: 1000 + index}, target) for index in range(count)]
        return [_round(name, staged, request, index) for index, request in enumerate(requests)]


def _lowered(name: str) -> Lowered:
    """On a thread of its own: a program knows the calls that led to it, and here no main program is among them."""
    workload = make(name)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(lower, workload.fun, *workload.args).result()


def _target(name: str) -> str:
    return "cpu:8" if name.startswith("fsdp8") else "cpu"


def _round(name: str, staged: Any, request: CompileRequest, index: int) -> Round:
    engine = default_engine(request.program, request.target)
    before = _remembered()
    cpu, started = cpu_s(), time.perf_counter()
    # Another value each time: JAX remembers what it compiled.
    staged.compile(compiler_options={NEUTRAL_FLAG: 2000 + index})
    bare, bare_cpu = time.perf_counter() - started, cpu_s() - cpu

    written = _written_s(staged, 3000 + index)

    cpu, started = cpu_s(), time.perf_counter()
    job = engine.submit(request)
    early = job.preview()
    preview, preview_cpu = time.perf_counter() - started, cpu_s() - cpu
    job.result()
    everything, all_cpu = time.perf_counter() - started, cpu_s() - cpu
    assert early.before_code

    started = time.perf_counter()
    assert is_from_cache(engine.submit(request).result())
    seen = time.perf_counter() - started
    while _remembered() == before:  # it is written after the result is handed out
        time.sleep(0.01)
    restart, restart_cpu = _restarted(name, 1000 + index)
    return Round(bare, written, preview, everything, seen, restart, bare_cpu, preview_cpu, all_cpu, restart_cpu)


def _written_s(staged: Any, value: int) -> float:
    """Seconds until XLA has written its final HLO, text and proto, by the times of the files."""
    scratch = Scratch(os.getpid())
    try:
        dump = {"xla_dump_to": scratch.path, "xla_dump_hlo_as_text": True, "xla_dump_hlo_as_proto": True}
        started = time.time()
        staged.compile(compiler_options={NEUTRAL_FLAG: value, **dump})
        files = [file for end in ("txt", "hlo.pb") for file in Path(scratch.path).glob(f"*after_optimizations.{end}")]
        return max(file.stat().st_mtime for file in files) - started
    finally:
        scratch.delete()


def _remembered() -> int:
    """Files in the cache that are whole."""
    return len(list(Path(settings.current().cache_directory).glob("*.compiled")))


def _restarted(name: str, value: int) -> tuple[float, float]:
    """Seconds until a kernel that starts now, and has imported and lowered, has the result that is on disk; and CPU."""
    folder = settings.current().cache_directory
    command = [sys.executable, "-m", "benchmarks.toggle", "--again", name, str(value), folder]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True, text=True)
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["from_cache"]
    return float(told["elapsed_s"]), float(told["cpu_s"])


def _restarted_kernel(name: str, value: str, folder: str) -> None:
    """That kernel."""
    if name.startswith("fsdp8"):
        jax.config.update("jax_num_cpu_devices", 8)
    for module in ("choice", "cached"):  # imported when first needed, and what is told is without imports
        importlib.import_module(f"inspector.engines.{module}")
    lowered = _lowered(name)
    settings.update(cache=True, cache_directory=folder)
    cpu, started = time.process_time(), time.perf_counter()
    compiled = lowered.compile({NEUTRAL_FLAG: int(value)}, _target(name))
    elapsed_s, spent_s = time.perf_counter() - started, time.process_time() - cpu
    print(json.dumps({"elapsed_s": elapsed_s, "cpu_s": spent_s, "from_cache": is_from_cache(compiled)}))


def _figures(name: str, rounds: Sequence[Round]) -> list[Figure]:
    """Medians of what each moment took over its own round's bare compile."""
    return [
        Figure(
            name,
            words,
            "the bare compile",
            statistics.median(getattr(r, key) / getattr(r, bare) for r in rounds),
            AIMS.get(key),
        )
        for key, (words, bare) in MOMENTS.items()
    ]


if __name__ == "__main__":
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    main()
