"""What it costs to lose a worker: killed in mid-compile, cancelled, or not there yet.

    python -m benchmarks.recovery [--rounds 20] [--workload tf2]

In one run and interleaved, each round: (1) a compile by a warm worker; (2) the same setting anew, its
worker killed with SIGKILL in mid-compile and the request sent again: seconds from the kill to the result;
(3) a compile in this process, as `jax.jit(f).lower(...).compile()` does it, and what it still burns after
the moment of a cancel, because nothing stops it; (4) a compile by a worker, cancelled at the same moment:
the CPU time that its process burns afterwards; (5) a fresh interpreter to the result of a tiny compile;
(6) the same from an engine whose worker is not there.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import random
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import psutil  # type: ignore[import-untyped]  # no py.typed upstream

from benchmarks.measuring import (
    NEUTRAL_FLAG,
    Figure,
    cpu_s,
    machine,
    own_cpu_s,
    quantile,
    reaped_cpu_s,
    server_and_workers,
    spread,
    verdict,
    wait_dead,
    warm,
)
from benchmarks.workloads import make
from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.engine import Job
from inspector.compilation.request import CompileRequest
from inspector.engines.workers.worker_engine import WorkerEngine
from inspector.errors import WorkerDiedError
from inspector.lowering.lower import lower
from inspector.stages.lowered import Lowered, compile_request

AIM_P50, AIM_P95 = 1.25, 1.8
AIM_CANCEL_S = 0.1
AIM_FIRST = 0.15
FIGURES = (
    ("result after SIGKILL, wall", "killed", "a warm compile", "warm", AIM_P50),
    ("result after SIGKILL, CPU", "killed_cpu", "a warm compile", "warm_cpu", None),
    ("a new worker's first result, wall", "first", "a fresh interpreter's", "fresh", AIM_FIRST),
    ("a new worker's first result, CPU", "first_cpu", "a fresh interpreter's", "fresh_cpu", None),
)
"""In words, its name among the values, over what, and that one's name; the aim."""
FRESH = "import jax; jax.jit(lambda x: jax.numpy.sin(x) @ x).lower(jax.numpy.ones((8, 8))).compile()"


class Rounds:
    """A workload, an engine, and what was measured so far, seconds by name."""

    def __init__(self, name: str, seed: int) -> None:
        """Warms up the worker and this process."""
        workload = make(name)
        self.values: dict[str, list[float]] = {}
        self._engine = WorkerEngine()
        self._lowered = lower(workload.fun, *workload.args)
        self._tiny = lower(lambda x: jax.numpy.sin(x) @ x, jax.ShapeDtypeStruct((8, 8), "float32"))
        self._staged = jax.jit(workload.fun).lower(*workload.args)
        self._random = random.Random(seed)
        self._number = 0
        self._staged.compile()
        self._engine.submit(self._request(self._lowered)).result()

    def close(self) -> None:
        """Ends the engine."""
        self._engine.close()

    def round(self) -> None:
        """All six."""
        self._warm()
        moment_s = min(self.values["warm"]) * self._random.uniform(0.2, 0.8)
        self._killed(moment_s)
        self._burns_on(moment_s)
        self._cancelled(moment_s)
        self._fresh()
        self._first()

    def _warm(self) -> None:
        cpu, started = cpu_s(), time.perf_counter()
        self._engine.submit(self._request(self._lowered)).result()
        elapsed = time.perf_counter() - started
        self._keep("warm", elapsed)
        self._keep("warm_cpu", cpu_s() - cpu)

    def _killed(self, moment_s: float) -> None:
        job, worker = self._begun(moment_s)
        cpu, started = self._cpu_of_survivors(), time.perf_counter()
        os.kill(worker.pid, signal.SIGKILL)
        with contextlib.suppress(WorkerDiedError):
            job.result()
        self._engine.submit(self._request(self._lowered)).result()
        self._keep("killed", time.perf_counter() - started)
        self._keep("killed_cpu", self._cpu_of_survivors() + self._cpu_of_worker() - cpu)

    def _burns_on(self, moment_s: float) -> None:
        self._number += 1
        flags: dict[str, Any] = {NEUTRAL_FLAG: 100_000 + self._number}
        thread = threading.Thread(target=lambda: self._staged.compile(compiler_options=flags))
        thread.start()
        time.sleep(moment_s)
        cpu = time.process_time()
        thread.join()
        self._keep("bare_burnt", time.process_time() - cpu)

    def _cancelled(self, moment_s: float) -> None:
        job, worker = self._begun(moment_s)
        server, _ = server_and_workers()
        before, reaped = own_cpu_s(worker), reaped_cpu_s(server)
        job.cancel()
        wait_dead(worker)
        self._warm_up()
        self._keep("burnt", reaped_cpu_s(server) - reaped - before)

    def _fresh(self) -> None:
        started = time.perf_counter()
        with subprocess.Popen([sys.executable, "-c", FRESH], stderr=subprocess.DEVNULL) as process:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        self._keep("fresh", time.perf_counter() - started)
        self._keep("fresh_cpu", usage.ru_utime + usage.ru_stime)

    def _first(self) -> None:
        _, (worker,) = server_and_workers()
        os.kill(worker.pid, signal.SIGKILL)
        wait_dead(worker)
        cpu, started = self._cpu_of_survivors(), time.perf_counter()
        self._engine.submit(self._request(self._tiny)).result()
        self._keep("first", time.perf_counter() - started)
        self._keep("first_cpu", self._cpu_of_survivors() + self._cpu_of_worker() - cpu)
        self._warm_up()

    def _begun(self, moment_s: float) -> tuple[Job[CompiledProgram], psutil.Process]:
        """A compile that has been under way for some seconds, less where it ended before, and its worker."""
        while True:
            job = self._engine.submit(self._request(self._lowered))
            while job.stage in ("queued", "starting a worker"):
                time.sleep(0.001)
            _, (worker,) = server_and_workers()
            time.sleep(moment_s)
            if not job.done():
                return job, worker
            moment_s /= 2

    def _cpu_of_survivors(self) -> float:
        server, _ = server_and_workers()
        return own_cpu_s(psutil.Process()) + own_cpu_s(server)

    def _cpu_of_worker(self) -> float:
        _, (worker,) = server_and_workers()
        return own_cpu_s(worker)

    def _warm_up(self) -> None:
        """A worker that has compiled."""
        warm(self._engine)
        self._engine.submit(self._request(self._lowered)).result()

    def _request(self, lowered: Lowered) -> CompileRequest:
        self._number += 1
        return compile_request(lowered, {NEUTRAL_FLAG: self._number}, "cpu")

    def _keep(self, name: str, value: float) -> None:
        self.values.setdefault(name, []).append(value)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--workload", default="tf2")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    figures(options.workload, options.rounds, options.seed)


def figures(name: str = "tf2", count: int = 5, seed: int = 0) -> list[Figure]:
    """Measures and prints."""
    rounds = Rounds(name, seed)
    try:
        for _ in range(count):
            rounds.round()
    finally:
        rounds.close()
    report(name, rounds.values)
    return [
        Figure(name, words, over, statistics.median(_ratios(rounds.values, key, under)), aim)
        for words, key, over, under, aim in FIGURES
    ]


def _ratios(values: Mapping[str, Sequence[float]], over: str, under: str) -> list[float]:
    return [a / b for a, b in zip(values[over], values[under], strict=True)]


def report(name: str, values: dict[str, list[float]]) -> None:
    """Prints what was measured."""
    middle: dict[str, Any] = {key: statistics.median(v) for key, v in values.items()}

    ratios = functools.partial(_ratios, values)
    count = len(values["warm"])
    killed = ratios("killed", "warm")
    print(
        f"{name}, {count} rounds {machine()}\n"
        f"  result after SIGKILL in mid-compile: {middle['killed']:.2f} s, a warm compile {middle['warm']:.2f} s;"
        f" ratio {spread(killed)}; CPU ratio {spread(ratios('killed_cpu', 'warm_cpu'))}"
        f" ({verdict((statistics.median(killed), AIM_P50), (quantile(killed, 0.95), AIM_P95))})\n"
        f"  CPU time burnt after cancel: {spread(values['burnt'])} s; in this process, where nothing stops it:"
        f" {spread(values['bare_burnt'])} s ({verdict((quantile(values['burnt'], 0.95), AIM_CANCEL_S))})\n"
        f"  a new worker's first result: {middle['first']:.3f} s, CPU {middle['first_cpu']:.3f} s; a fresh interpreter's"
        f" {middle['fresh']:.3f} s, CPU {middle['fresh_cpu']:.3f} s; ratio {spread(ratios('first', 'fresh'))};"
        f" CPU ratio {spread(ratios('first_cpu', 'fresh_cpu'))}"
        f" ({verdict((statistics.median(ratios('first', 'fresh')), AIM_FIRST))})",
        flush=True,
    )


if __name__ == "__main__":
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    main()
