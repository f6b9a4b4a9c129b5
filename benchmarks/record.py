"""Measures the small workloads and keeps the ratios, by commit and JAX version, in `benchmarks/ratios.csv`.

    python -m benchmarks.record [benchmark ...]

Some minutes for all of them; each runs in a process of its own. Run it on a quiet machine, with each JAX version that is
supported, and commit the file. Only ratios to something measured in the same run are kept, and sizes for each
instruction: seconds are of one machine and moment. `python -m benchmarks.compare` tells what became worse.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import importlib
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import jax

from benchmarks import ratios
from benchmarks.measuring import Figure, machine

BENCHMARKS = (
    "replica_groups",
    "analysis",
    "first_explore",
    "toggle",
    "memory",
    "worker_memory",
    "recovery",
    "endurance",
    "first_picture",
    "click",
    "browser",
)
"""Modules whose `figures()` measures, prints, and gives what is to be kept, of small workloads where none are named."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures, prints and writes; its exit status is 1 where a benchmark could not be run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("benchmarks", nargs="*", metavar="benchmark", help=", ".join(BENCHMARKS))
    options = parser.parse_args(arguments)
    if unknown := set(options.benchmarks) - set(BENCHMARKS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}")
    commit = _commit()
    failed = [name for name in options.benchmarks or BENCHMARKS if not _record(name, commit)]
    print(f"recorded for {commit} in {ratios.PATH.name} {machine()}")
    if failed:
        sys.exit(f"not measured: {', '.join(failed)}")


def _record(name: str, commit: str) -> bool:
    """Whether it could be measured; its lines are in the file then."""
    print(f"-- {name} {machine()}", flush=True)
    day, cores, load = time.strftime("%Y-%m-%d"), os.cpu_count() or 1, round(os.getloadavg()[0], 1)
    try:
        found = _measured(name)
    except Exception as e:  # what it needs may not be here: a browser, a port
        print(f"{name}: not measured: {type(e).__name__}: {e}", flush=True)
        return False
    measured = [(f.workload, f.name, f.over, f.value) for f in found]
    lines = [ratios.Line(commit, jax.__version__, day, cores, load, name, *figure) for figure in measured]
    ratios.add(lines, ratios.PATH)
    return True


def _measured(name: str) -> list[Figure]:
    """In a new process, so that no benchmark finds what another one left."""
    fresh = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=fresh) as pool:
        return pool.submit(figures, name).result()


def figures(name: str) -> list[Figure]:
    """Those of a benchmark on its small workloads."""
    found: list[Figure] = importlib.import_module(f"benchmarks.{name}").figures()
    return found


def _commit() -> str:
    """The short hash of what is checked out, marked where something but the file of ratios was changed."""
    changed = _git("status", "--porcelain", "--", ".", f":!benchmarks/{ratios.PATH.name}")
    return _git("rev-parse", "--short=10", "HEAD") + (ratios.UNCOMMITTED if changed else "")


def _git(*arguments: str) -> str:
    root = Path(__file__).resolve().parent.parent
    done = subprocess.run(["git", "-C", str(root), *arguments], stdout=subprocess.PIPE, check=True, text=True)
    return done.stdout.strip()


if __name__ == "__main__":
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    main()
