"""What the pane of passes costs Python in CPU time: reading the snapshots, each step through the passes, following instructions.

python -m benchmarks.passes tf6 tf12
"""

from __future__ import annotations

import argparse
import functools
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import inspector
from benchmarks.measuring import machine
from benchmarks.workloads import make
from inspector.analysis.passes.snapshot_changes import excerpt
from inspector.compilation.records.passes import Pass
from inspector.errors import Unavailable
from inspector.stages.passes import CompilerPasses
from inspector.widgets.panes.passes import CONTEXT_LINES, MOST_LINES

_FOLLOWED = 60
_TARGET = "cpu"


def measure(name: str) -> None:
    """Compiles a rung with its passes and prints a line a thing that was measured."""
    workload = make(name)
    compiled = inspector.lower(workload.fun, *workload.args, target=_TARGET).compile(
        target=_TARGET, products=("passes",)
    )
    passes = compiled.passes
    if isinstance(passes, Unavailable):
        raise SystemExit(f"{name}: {passes}")
    _say(name, "reading the snapshots", [_seconds(lambda: passes.history)])
    steps = [functools.partial(_step, passes, step) for step in passes.steps]
    _say(name, "a step", [_seconds(step) for step in steps])
    _say(name, "a step once more", [_seconds(step) for step in steps])
    names = [i.name for i in compiled.module().entry.instructions if i.opcode != "parameter"][:_FOLLOWED]
    _say(name, "following", [_seconds(functools.partial(passes.follow, each)) for each in names])


def _step(passes: CompilerPasses, step: Pass) -> None:
    excerpt(passes.change(step), CONTEXT_LINES, MOST_LINES)


def _seconds(do: Callable[[], Any]) -> float:
    """CPU seconds of this thread: on a busy machine the wall tells of others."""
    started = time.thread_time()
    do()
    return time.thread_time() - started


def _say(name: str, what: str, durations: list[float]) -> None:
    milliseconds = sorted(1e3 * seconds for seconds in durations)
    sys.stdout.write(
        f"{name}: {what}: median {statistics.median(milliseconds):.1f} ms, worst {milliseconds[-1]:.0f} ms,"
        f" of {len(milliseconds)}\n"
    )


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("workloads", nargs="*", default=["tf6"])
    names = parser.parse_args().workloads
    sys.stdout.write(f"{machine()}\n")
    for name in names:
        measure(name)


if __name__ == "__main__":
    main()
