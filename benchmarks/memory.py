"""What an Explorer of a large program holds, while it is open and after it is closed.

    python -m benchmarks.memory [--times 2] [workload]

A notebook kernel of its own lowers the program with JAX, which is where bare is measured. Then it opens an Explorer of
it, waits for the compile, shows it, asks for the instructions' table, and closes it; so many times. Told are the
kernel's resident memory over bare with the Explorer open and 5 s after it was closed, and its workers' beside it.
"""

from __future__ import annotations

import argparse
import gc
import subprocess
import sys
import time
from collections.abc import Sequence

import jax
import psutil  # type: ignore[import-untyped]  # no py.typed upstream

from benchmarks.measuring import machine, verdict
from benchmarks.workloads import make

AIM_OPEN_MB = 600.0
_SETTLE_S = 5.0
_MB = 1 << 20


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("workload", nargs="?", default="tf24")
    parser.add_argument("--times", type=int, default=2)
    parser.add_argument("--kernel", action="store_true", help="be the kernel")
    options = parser.parse_args(arguments)
    if options.kernel:
        _kernel(options.workload, options.times)
        return
    command = [sys.executable, "-m", "benchmarks.memory", "--kernel", options.workload, "--times", str(options.times)]
    subprocess.run(command, check=True)


def _kernel(name: str, times: int) -> None:
    workload = make(name)
    jax.jit(workload.fun).lower(*workload.args)
    gc.collect()
    bare = _resident_mb()
    print(f"{name}: bare {bare:.0f} MB {machine()}", flush=True)
    for number in range(1, times + 1):
        _open_and_close(name, f"Explorer {number}", bare)


def _open_and_close(name: str, who: str, bare: float) -> None:
    from inspector import explore

    workload = make(name)
    explorer = explore(workload.fun, *workload.args, target="cpu").wait()
    explorer._repr_mimebundle_()  # what a cell shows
    compiled = explorer.baseline.compiled
    rows = len(compiled.instructions())
    del compiled
    time.sleep(_SETTLE_S)
    held = _resident_mb() - bare
    said = verdict((held, AIM_OPEN_MB))
    print(f"  {who} of {rows:,} instructions open: +{held:.0f} MB, {said}; workers {_workers_mb()} MB", flush=True)
    explorer.close()
    del explorer, workload
    gc.collect()
    time.sleep(_SETTLE_S)
    held = _resident_mb() - bare
    print(f"  {_SETTLE_S:g} s after it was closed: +{held:.0f} MB; workers {_workers_mb()} MB {machine()}", flush=True)


def _resident_mb(process: psutil.Process | None = None) -> float:
    return float((process or psutil.Process()).memory_info().rss) / _MB


def _workers_mb() -> str:
    """Of the fork server and of each of its workers."""
    return " + ".join(f"{_resident_mb(process):.0f}" for process in psutil.Process().children(recursive=True)) or "0"


if __name__ == "__main__":
    main()
