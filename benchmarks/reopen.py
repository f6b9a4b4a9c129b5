"""How long a program that was compiled before takes until it is on screen, in JupyterLab.

    python -m benchmarks.reopen [--rounds 3] [--cache FOLDER] [workload ...]

Each round is a notebook kernel that starts now: it runs a cell with `explore(f, *args)`, once jaxlib and inspector are
imported. The clock starts when JAX has lowered the program, and stops at the first frame after the optimized HLO is
on screen. Told besides: the kernel's own CPU time until then, and when each text was sent. The first round compiles
what is not in the cache folder, and is told apart.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Sequence

from playwright.sync_api import Page

from benchmarks.lab import EXPLORE_LIMIT_MS, ask, explorer_of, lab, open_notebook, start_anew
from benchmarks.measuring import machine, verdict

WORKLOADS = ("tf2", "tf12", "tf24")
AIM_S = 2.0
WRITTEN_MS = 5_000
"""After a compile, until its file lies in the cache folder."""

# Notes when JAX has lowered, and when each text goes to the browser. Not around what lowers: whoever calls that is named
# in the module, which would be another one.
SETUP = """
import json, time
import jax
import inspector.widgets.explorer
from inspector.widgets.app import App

seen = {}
init, send = jax.stages.Lowered.__init__, App.publish_document

def init_and_note(self, *args, **kwargs):
    init(self, *args, **kwargs)
    seen.setdefault("lowered", time.time())
    seen.setdefault("cpu", time.process_time())

def send_and_note(self, document):
    send(self, document)
    seen.setdefault(document.pane, time.time())
    seen["cpu_end"] = time.process_time()

jax.stages.Lowered.__init__, App.publish_document = init_and_note, send_and_note
"""

TELL = """
from inspector.compilation.compiled import is_from_cache
print(json.dumps({**seen, 'cached': is_from_cache(ex.baseline.compiled)}))
"""

RUN = """async limit => {
  window.jupyterapp.commands.execute('notebook:run-cell');
  const end = await window.painted(() => window.optimized(window.explorer()), limit);
  return performance.timeOrigin + end;
}"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("workloads", nargs="*", default=list(WORKLOADS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cache", default="", help="a folder for what was compiled; by default a new one")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        notebooks = {name: explorer_of(name) for name in options.workloads}
        with lab(notebooks, options.cache or folder) as page:
            for name in options.workloads:
                open_notebook(page, name)
                taken = [taken for _ in range(options.rounds + 1) if (taken := _round(page, name)) is not None]
                middle = statistics.median(taken[-options.rounds :])
                print(
                    f"{name}: on screen {middle:.2f} s after JAX has lowered it, {verdict((middle, AIM_S))} {machine()}"
                )


def _round(page: Page, name: str) -> float | None:
    """Seconds until it was on screen; None where it had to be compiled."""
    start_anew(page)
    ask(page, SETUP)
    painted_ms = page.evaluate(RUN, EXPLORE_LIMIT_MS)
    seen = json.loads(ask(page, TELL))
    lowered = float(seen["lowered"])
    sent = ", ".join(f"{pane} {moment - lowered:.2f}" for pane, moment in seen.items() if moment > lowered)
    taken = float(painted_ms) / 1e3 - lowered
    told = "from the cache" if seen["cached"] else "compiled"
    print(
        f"  {name} {told}: on screen {taken:.2f} s, CPU {seen['cpu_end'] - seen['cpu']:.2f} s; sent: {sent}", flush=True
    )
    if seen["cached"]:
        return taken
    page.wait_for_timeout(WRITTEN_MS)
    return None


if __name__ == "__main__":
    main()
