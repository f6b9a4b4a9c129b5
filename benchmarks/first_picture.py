"""How long until the picture: `explore` and a new variant on screen, over the bare compile.

    python -m benchmarks.first_picture [--rounds 5] [workload ...]

In one JupyterLab, one kernel and one run, interleaved, each round: (1) bare: a fresh function through
`jax.jit(f).lower(*args).compile().as_text()`; (2) explore: from the start of a cell with
`explore(f, *args)` until the optimized HLO is painted; (3) toggle: from the click on "Add variant"
until the variant's optimized HLO is painted. Browser times are taken in the page, at the first frame
after the text is there. Round 0 warms up and is printed apart.

Wall times on a busy machine swing, so CPU times of the kernel with its workers stand beside them.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import statistics
from collections.abc import Sequence
from typing import Any

import psutil  # type: ignore[import-untyped]
from playwright.sync_api import Page

from benchmarks.lab import ask, lab, open_notebook
from benchmarks.measuring import NEUTRAL_FLAG, Figure

WORKLOADS = ("tiny", "mlp", "tf2")
CELL = "w = make({!r})\nex = explore(w.fun, *w.args, height_px=500)\nex"
STEP_LIMIT_MS = 60_000
AIM_RATIO, AIM_MS = 1.3, 150.0
FRAME_AIM_MS = 500.0

SETUP = """
import json, os, time
import jax
from benchmarks.workloads import make
from inspector import explore
from inspector.analysis.hlo_listing import hlo_listing
from inspector.widgets.documents import document

ex = None

def bare(name):
    if ex is not None:
        ex.close()  # the last round's
    w = make(name)
    wall, cpu = time.perf_counter(), time.process_time()
    text = jax.jit(w.fun).lower(*w.args).compile().as_text()
    return 1e3 * (time.perf_counter() - wall), 1e3 * (time.process_time() - cpu), text.count("\\n")

def parts(ex):
    variant = ex.wait().variants[-1]
    compiled, start = variant.compiled, time.perf_counter()
    document("optimized", hlo_listing(compiled.hlo, compiled.module(), ex.lowered.root), variant.number)
    listing = 1e3 * (time.perf_counter() - start)
    return {"job": 1e3 * variant.job.elapsed_s, "compile": 1e3 * compiled.timings["compile_s"], "listing": listing}

print(os.getpid())
"""

EXPLORE = """async limit => {
  const start = performance.now();
  const frame = window.painted(
    () => document.querySelector('.inspector-frame') || window.explorer()?.querySelector('[data-tab]'), limit);
  window.jupyterapp.commands.execute('notebook:run-cell');
  const end = await window.painted(() => window.optimized(window.explorer()), limit);
  return [await frame - start, end - start];
}"""

TOGGLE = """async limit => {
  const explorer = window.explorer();
  const before = window.optimized(explorer);
  const button = [...explorer.querySelectorAll('button')].find(b => b.textContent.includes('Add variant'));
  const start = performance.now();
  button.click();
  const end = await window.painted(() => { const now = window.optimized(explorer); return now && now !== before; }, limit);
  return end - start;
}"""


@dataclasses.dataclass(frozen=True)
class Round:
    """One round of one workload, milliseconds of wall and CPU time.

    Attributes:
      bare, frame, explore, toggle: wall.
      bare_cpu, explore_cpu, toggle_cpu: of the kernel and its workers.
      lines: of the optimized HLO.
      job: of the toggle, from its submission until the worker's reply was read.
      compile: of the toggle, inside XLA.
      listing: making the pane's document, measured afterwards.
    """

    bare: float
    frame: float
    explore: float
    toggle: float
    bare_cpu: float
    explore_cpu: float
    toggle_cpu: float
    lines: int
    job: float
    compile: float
    listing: float


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("workloads", nargs="*", default=list(WORKLOADS))
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(arguments)
    figures(options.workloads, options.rounds)


def figures(workloads: Sequence[str] = WORKLOADS, rounds: int = 5) -> list[Figure]:
    """Measures and prints, a workload after the other."""
    found = []
    with lab({name: CELL.format(name) for name in workloads}) as page:
        for name in workloads:
            first, *measured = _measure(page, name, rounds + 1)
            _report(name, measured, first)
            found += _figures(name, measured)
    return found


def _figures(name: str, rounds: Sequence[Round]) -> list[Figure]:
    kinds = (("wall", "bare", ""), ("CPU", "bare_cpu", "_cpu"))
    return [
        Figure(name, f"{what}, {kind}", "the bare compile", _median_ratio(rounds, what + end, bare))
        for kind, bare, end in kinds
        for what in ("explore", "toggle")
    ]


def _median_ratio(rounds: Sequence[Round], over: str, under: str) -> float:
    return statistics.median([float(getattr(r, over) / getattr(r, under)) for r in rounds])


def _measure(page: Page, name: str, count: int) -> list[Round]:
    open_notebook(page, name)
    kernel = psutil.Process(int(ask(page, SETUP)))
    return [_round(page, name, kernel, index) for index in range(count)]


def _round(page: Page, name: str, kernel: psutil.Process, index: int) -> Round:
    bare, bare_cpu, lines = json.loads(ask(page, f"print(json.dumps(bare({name!r})))"))
    page.evaluate("() => window.jupyterapp.commands.execute('notebook:clear-all-cell-outputs')")
    page.wait_for_timeout(300)
    cpu = _cpu_ms(kernel)
    frame, explore = page.evaluate(EXPLORE, STEP_LIMIT_MS)
    ask(page, "ex.wait();")
    explore_cpu = _cpu_ms(kernel) - cpu
    field = page.locator(".inspector-explorer").get_by_placeholder("flag: type")
    field.fill(typed(index))
    field.press("Tab")
    page.wait_for_timeout(300)
    cpu = _cpu_ms(kernel)
    toggle = page.evaluate(TOGGLE, STEP_LIMIT_MS)
    parts = json.loads(ask(page, "ex.wait(); print(json.dumps(parts(ex)))"))
    toggle_cpu = _cpu_ms(kernel) - cpu - parts["listing"]
    return Round(bare, frame, explore, toggle, bare_cpu, explore_cpu, toggle_cpu, lines, **parts)


def typed(index: int) -> str:
    """What is typed for a variant: another value each time, so that nothing can be remembered."""
    return f"--{NEUTRAL_FLAG}={1000 + index}"


def _report(name: str, rounds: Sequence[Round], first: Round) -> None:
    m = {f.name: statistics.median(getattr(r, f.name) for r in rounds) for f in dataclasses.fields(Round)}
    over = statistics.median(r.toggle - AIM_RATIO * r.bare for r in rounds)
    ratio = _median_ratio(rounds, "toggle", "bare")
    verdict = "met" if over <= AIM_MS else "missed"
    framed = "met" if m["frame"] <= FRAME_AIM_MS else "missed"
    frames = ", ".join(f"{r.frame:.0f}" for r in rounds)
    spread = ", ".join(f"{r.bare:.0f}/{r.explore:.0f}/{r.toggle:.0f}" for r in rounds)
    print(
        f"{name}: {m['lines']:.0f} lines of optimized HLO, median of {len(rounds)} rounds, ms\n"
        f"  wall   bare {m['bare']:8.0f}   explore {m['explore']:8.0f}   toggle {m['toggle']:8.0f}\n"
        f"  CPU    bare {m['bare_cpu']:8.0f}   explore {m['explore_cpu']:8.0f}   toggle {m['toggle_cpu']:8.0f}\n"
        f"  frame {m['frame']:.0f} (aim: at most {FRAME_AIM_MS:.0f}: {framed}; rounds {frames}; cold {first.frame:.0f})\n"
        f"  toggle / bare {ratio:.2f}; toggle - {AIM_RATIO} bare {over:+.0f} ms (aim: at most {AIM_MS:.0f}: {verdict})\n"
        f"  of the toggle: XLA {m['compile']:.0f}, job besides {m['job'] - m['compile']:.0f},"
        f" listing {m['listing']:.0f}, rest (comm, paint) {m['toggle'] - m['job'] - m['listing']:.0f}\n"
        f"  rounds (bare/explore/toggle): {spread}\n"
        f"  cold: bare {first.bare:.0f}, explore {first.explore:.0f}, toggle {first.toggle:.0f}; load {os.getloadavg()[0]:.1f}",
        flush=True,
    )


def _cpu_ms(process: psutil.Process) -> float:
    """User and system time of a process and all below it, ended children included."""
    total = 0.0
    for each in (process, *process.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            times: Any = each.cpu_times()
            total += times.user + times.system
    ended: Any = process.cpu_times()
    return 1e3 * float(total + ended.children_user + ended.children_system)


if __name__ == "__main__":
    main()
