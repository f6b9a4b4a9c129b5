"""What the benchmarks share: figures, CPU times of processes, the machine's load, statistics in words, neutral flags.

Wall times on a busy machine swing, so CPU times stand beside them, and every line ends with the load.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import statistics
import time
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import psutil  # type: ignore[import-untyped]  # no py.typed upstream

from inspector.engines.workers.worker_engine import WorkerEngine

NEUTRAL_FLAG = "xla_gpu_collective_permute_decomposer_threshold"
"""Of no effect on a CPU: another value is another setting, so that nothing is remembered."""


@dataclasses.dataclass(frozen=True)
class Figure:
    """What something costs, held to something that was measured in the same run. Less is better.

    Attributes:
      workload: of which program.
      name: what was measured, with its kind of time or size: "preview, wall".
      over: what `value` is a multiple of: "the bare compile".
      value: the ratio, above 0.
      aim: the most that it may be, or None.

    Raises:
      ValueError: a value that is no ratio.
    """

    workload: str
    name: str
    over: str
    value: float
    aim: float | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.value) and self.value > 0):
            raise ValueError(
                f"{self.workload}, {self.name} over {self.over}: got {self.value}, expected a ratio above 0"
            )

    def __str__(self) -> str:
        said = "" if self.aim is None else f" ({verdict((self.value, self.aim))})"
        return f"{self.name} over {self.over}: {self.value:.4g}{said}"


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


def lines(figures: Iterable[Figure]) -> str:
    """A line a figure, indented, without its workload."""
    return "\n".join(f"  {figure}" for figure in figures)


def machine() -> str:
    """Who measured, and how busy the machine is."""
    load = ", ".join(f"{x:.1f}" for x in os.getloadavg())
    return f"[JAX {jax.__version__}, {os.cpu_count()} cores, load {load}]"
