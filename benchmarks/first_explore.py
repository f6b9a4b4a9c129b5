"""How long the first `explore` of a fresh kernel takes, over the bare first compile of a fresh kernel.

    python -m benchmarks.first_explore [--rounds 7] [--new]

Each round starts two fresh interpreters, which first import what a notebook's kernel and its first cell have
imported: ipykernel, NumPy, JAX. Then the clock starts: (1) bare: `jax.jit(f).lower(x).compile().as_text()`;
(2) explore: `from inspector import explore`, and `explore(f, x)` of the same one-line function until (a) it
returns, (b) the optimized HLO is in hand, (c) all results are. Nothing is remembered of earlier compiles;
what was found in the installed libraries is, but for `--new`: an empty cache folder and no `.pyc`, as right after
an installation. Round 0 warms up and is left out, but for `--new`.

Wall times on a busy machine swing, so CPU times stand beside them: of the kernel alone, and with its workers.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.measuring import Figure, machine, verdict

ROOT = Path(__file__).resolve().parent.parent
AIM_S = 0.7
UNSET = ("XLA_FLAGS", "PYTHONDONTWRITEBYTECODE")
MOMENTS = ("import", "returns", "preview", "all")
KINDS = {"wall": 0, "CPU of all processes": 2}
WORKLOAD = "one line"

KERNEL = """
import json, os, sys, time
import psutil
import IPython.core.interactiveshell, ipykernel.zmqshell, ipykernel.comm
import numpy as np
import jax, jax.numpy as jnp

def f(x):
    return jnp.tanh(x @ x).sum()

x = np.ones((8, 8), np.float32)
me, told = psutil.Process(), {}

def now(moment):
    wall, own, others = time.perf_counter(), time.process_time(), 0.0
    for child in me.children(recursive=True):
        times = child.cpu_times()
        others += times.user + times.system
    ended = me.cpu_times()
    others += ended.children_user + ended.children_system
    told[moment] = [wall, own, own + others, time.time() - float(sys.argv[1])]
"""

BARE = """
now("begin")
jax.jit(f).lower(x).compile().as_text()
now("all")
print(json.dumps(told))
"""

EXPLORE = """
now("begin")
from inspector import explore
now("import")
ex = explore(f, x)
now("returns")
(variant,) = ex.variants
variant.job.preview()
now("preview")
ex.wait()
now("all")
from inspector.compilation.compiled import is_from_cache
assert not is_from_cache(variant.compiled)
ex.close()
print(json.dumps(told))
"""

Times = Mapping[str, Sequence[float]]
"""Seconds by moment since the clock started: wall, CPU of the kernel, CPU of all; and wall since the interpreter started."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--new", action="store_true", help="no cache folder and no .pyc yet, in every round")
    options = parser.parse_args(arguments)
    figures(options.rounds, options.new)


def figures(rounds: int = 5, new: bool = False) -> list[Figure]:
    """Measures and prints."""
    with tempfile.TemporaryDirectory(prefix="first-explore-") as folder:
        found = [_round(folder, new) for _ in range(rounds + (not new))]
    measured = found if new else found[1:]
    _report(measured)
    return [
        Figure(WORKLOAD, f"{moment}, {kind}", "the bare first compile", _median_ratio(measured, moment, at))
        for moment in MOMENTS[1:]
        for kind, at in KINDS.items()
    ]


def _median_ratio(rounds: Sequence[tuple[Times, Times]], moment: str, kind: int) -> float:
    return statistics.median(explore[moment][kind] / bare["all"][kind] for bare, explore in rounds)


def _round(folder: str, new: bool) -> tuple[Times, Times]:
    """Bare, and explore."""
    bare, explore = (_measured(code, folder, new) for code in (BARE, EXPLORE))
    return bare, explore


def _measured(code: str, folder: str, new: bool) -> Times:
    with tempfile.TemporaryDirectory(dir=folder) as empty:
        found = empty if new else folder
        environment = {
            **{name: value for name, value in os.environ.items() if name not in UNSET},
            "INSPECTOR_CACHE": "off",
            "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")])),
            "XDG_CACHE_HOME": found,
            "PYTHONPYCACHEPREFIX": found,
        }
        command = [sys.executable, "-c", KERNEL + code, str(time.time())]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True)
    told = json.loads(done.stdout.splitlines()[-1])
    begin = told.pop("begin")
    return {
        moment: [*(t - b for t, b in zip(times[:3], begin, strict=False)), times[3]] for moment, times in told.items()
    }


def _report(rounds: Sequence[tuple[Times, Times]]) -> None:
    """Prints medians: what each moment took, and by how much it came after the same round's bare compile."""
    wall, own, total, born = range(4)
    bare = [statistics.median(b["all"][kind] for b, _ in rounds) for kind in range(4)]
    print(f"bare: wall {bare[wall]:.2f} s, CPU {bare[own]:.2f} s; {bare[born]:.1f} s after the interpreter's start")
    for moment in MOMENTS:
        at = [statistics.median(e[moment][kind] for _, e in rounds) for kind in range(4)]
        over = [statistics.median(e[moment][kind] - b["all"][kind] for b, e in rounds) for kind in range(4)]
        print(
            f"explore, {moment:8}: wall {at[wall]:.2f} s, CPU of the kernel {at[own]:.2f} s, of all {at[total]:.2f} s;"
            f" over bare {over[wall]:+.2f}, {over[own]:+.2f}, {over[total]:+.2f}; {at[born]:.1f} s after the interpreter's start"
        )
    over_s = statistics.median(e["all"][wall] - b["all"][wall] for b, e in rounds)
    print(
        f"all results over bare, import counted: {over_s:.2f} s ({verdict((over_s, AIM_S))}), {len(rounds)} rounds {machine()}"
    )


if __name__ == "__main__":
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    main()
