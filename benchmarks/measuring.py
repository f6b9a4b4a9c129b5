"""What the benchmarks share: CPU times of processes, the machine's load, statistics in words, neutral flags.

Wall times on a busy machine swing, so CPU times stand beside them, and every line ends with the load.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import time
from collections.abc import Sequence
from typing import Any

import jax
import psutil  # type: ignore[import-untyped]  # no py.typed upstream

from inspector.engines.worker import WorkerEngine

NEUTRAL_FLAG = "xla_gpu_collective_permute_decomposer_threshold"
"""Of no effect on a CPU: another value is another setting, so that nothing is remembered."""


def cpu_s(process: psutil.Process | None = None) -> float:
    """User and system seconds of a process (this one by default) and of all that live below it."""
    first = process or psutil.Process()
    total = 0.0
    for each in (first, *first.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            total += own_cpu_s(each)
    return total


def own_cpu_s(process: psutil.Process) -> float:
    """User and system seconds of one process."""
    times: Any = process.cpu_times()
    return float(times.user + times.system)


def reaped_cpu_s(process: psutil.Process) -> float:
    """Seconds of the children that have ended, and that it has waited for."""
    times: Any = process.cpu_times()
    return float(times.children_user + times.children_system)


def server_and_workers() -> tuple[psutil.Process, list[psutil.Process]]:
    """The fork server of this process, and its workers.

    Raises:
      ValueError: there is not exactly one.
    """
    (server,) = [p for p in psutil.Process().children() if "fork-server" in p.cmdline()]
    return server, server.children()


def wait_dead(process: psutil.Process) -> None:
    """Until it has ended, whether its parent knows or not."""
    with contextlib.suppress(psutil.NoSuchProcess):
        while process.status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.002)


def warm(engine: WorkerEngine, target: str = "cpu") -> None:
    """Waits until a worker is ready."""
    from inspector.compilation.target import Target

    engine.warm(Target.parse(target)).result()


def quantile(values: Sequence[float], part: float) -> float:
    """The value below which `part` (0 to 1) of the values lie; the next greater one, so the worst of few."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def spread(values: Sequence[float]) -> str:
    """Median, 95th percentile and the worst."""
    return f"p50 {statistics.median(values):.3f}, p95 {quantile(values, 0.95):.3f}, worst {max(values):.3f}"


def verdict(*pairs: tuple[float, float]) -> str:
    """Whether each (value, aim) is at most its aim."""
    aims = " and ".join(f"{aim:g}" for _, aim in pairs)
    return f"aim {aims}: {'met' if all(value <= aim for value, aim in pairs) else 'missed'}"


def machine() -> str:
    """Who measured, and how busy the machine is."""
    load = ", ".join(f"{x:.1f}" for x in os.getloadavg())
    return f"[JAX {jax.__version__}, {os.cpu_count()} cores, load {load}]"
