"""What an Explorer of a large program holds, while it is open and after it is closed.

    python -m benchmarks.memory [--times 2] [workload]

A notebook kernel of its own lowers the program with JAX, which is where bare is measured. Then it opens an Explorer of
it, waits for the compile, shows it, asks for the instructions' table, and closes it; so many times. Told are the
kernel's resident memory over bare with the Explorer open and 5 s after it was closed, and its workers' beside it. Before
that, another kernel does without the Explorer what it stands for: it lowers, compiles and holds the text, and lets go.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import json
import subprocess
import sys
import time
from collections.abc import Sequence

import jax
import psutil  # type: ignore[import-untyped]  # no py.typed upstream

from benchmarks.measuring import Figure, machine, verdict
from benchmarks.workloads import make

AIM_OPEN_MB = 600.0
OPEN = "an Explorer open"
_SETTLE_S = 5.0
_MB = 1 << 20


@dataclasses.dataclass(frozen=True)
class Resident:
    """MB of a kernel at one moment.

    Attributes:
      moment: in words.
      kernel: of itself.
      workers: of its fork server and each of its workers, [n].
    """

    moment: str
    kernel: float
    workers: list[float]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("workload", nargs="?", default="tf24")
    parser.add_argument("--times", type=int, default=2)
    parser.add_argument("--kernel", choices=("bare", "explorer"), help="be one of the kernels")
    options = parser.parse_args(arguments)
    if options.kernel == "bare":
        _bare_kernel(options.workload)
    elif options.kernel == "explorer":
        _kernel(options.workload, options.times)
    else:
        figures(options.workload, options.times)


def figures(name: str = "tf2", times: int = 2) -> list[Figure]:
    """Measures in kernels of their own, and prints."""
    print(f"{name} {machine()}", flush=True)
    _told("bare", name, times)
    bare, *_, opened, closed = _told("explorer", name, times)
    return [
        Figure(name, "resident with an Explorer open", "bare", opened.kernel / bare.kernel),
        Figure(name, "workers then", "bare", sum(opened.workers) / bare.kernel),
        Figure(name, "resident after it was closed", "bare", closed.kernel / bare.kernel),
        Figure(name, "workers then idle", "bare", sum(closed.workers) / bare.kernel),
    ]


def _told(kernel: str, name: str, times: int) -> list[Resident]:
    """What a kernel tells, printed as it comes; its first moment is bare."""
    command = [sys.executable, "-m", "benchmarks.memory", "--kernel", kernel, name, "--times", str(times)]
    found: list[Resident] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("{"):
                found.append(Resident(**json.loads(line)))
                print(f"  {_line(found[-1], found[0])}", flush=True)
    return found


def _line(now: Resident, bare: Resident) -> str:
    if now is bare:
        return f"{now.moment}: {now.kernel:.0f} MB"
    over = now.kernel - bare.kernel
    said = f", {verdict((over, AIM_OPEN_MB))}" if now.moment == OPEN else ""
    workers = f"; workers {' + '.join(f'{each:.0f}' for each in now.workers)} MB" if now.workers else ""
    return f"{now.moment}: {over:+.0f} MB{said}{workers}"


def _bare_kernel(name: str) -> None:
    workload = make(name)
    lowered = jax.jit(workload.fun).lower(*workload.args)
    gc.collect()
    _tell("bare JAX, lowered")
    compiled = lowered.compile()
    text = compiled.as_text()
    _tell("compiled here, with its text")
    del lowered, compiled, text, workload
    gc.collect()
    time.sleep(_SETTLE_S)
    _tell(f"{_SETTLE_S:g} s after all that was let go")


def _kernel(name: str, times: int) -> None:
    workload = make(name)
    jax.jit(workload.fun).lower(*workload.args)
    gc.collect()
    _tell("bare JAX, lowered")
    for _ in range(times):
        _open_and_close(name)


def _open_and_close(name: str) -> None:
    from inspector import explore

    workload = make(name)
    explorer = explore(workload.fun, *workload.args, target="cpu").wait()
    explorer._repr_mimebundle_()  # what a cell shows
    compiled = explorer.baseline.compiled
    compiled.instructions()
    del compiled
    time.sleep(_SETTLE_S)
    _tell(OPEN)
    explorer.close()
    del explorer, workload
    gc.collect()
    time.sleep(_SETTLE_S)
    _tell(f"{_SETTLE_S:g} s after it was closed")


def _tell(moment: str) -> None:
    """To the process that measures."""
    own = psutil.Process()
    workers = [_resident_mb(process) for process in own.children(recursive=True)]
    print(json.dumps(dataclasses.asdict(Resident(moment, _resident_mb(own), workers))), flush=True)


def _resident_mb(process: psutil.Process) -> float:
    return float(process.memory_info().rss) / _MB


if __name__ == "__main__":
    main()
