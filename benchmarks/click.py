"""How long a click on a line takes, in JupyterLab, by the size of the program.

    python -m benchmarks.click [--clicks 12] [--dock stats] [--cache FOLDER] [workload ...]

Opens an Explorer of each workload, of 5,000, 65,000 and 221,000 instructions, and clicks on lines of each text with
the mouse. Told are what the handlers of a click took (all listeners of pointer, mouse and click events together), and
when the next frame was painted after it, as the page's own clock has it, which swings with what else the machine does;
and the CPU time of the page's thread until then, which does not as much. Beside them stands a bare click, on the same
lines in turn with the others, which changes a color and is heard by nothing else.

The first time a program is compiled, which takes minutes for the largest; with a cache folder it is read the next time.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
from collections.abc import Callable, Iterator, Sequence

from playwright.sync_api import Page

from benchmarks.lab import explorer_of, lab, open_explorer, thread_clock
from benchmarks.measuring import Figure, machine, verdict

WORKLOADS = ("tf2", "tf12", "tf24")
TEXTS = ("source", "jaxpr", "stablehlo", "hlo", "optimized")
AIM_MS = 50.0
SETTLE_MS = 250

# A bare click goes no further than here.
LISTEN = """() => {
  let click = null, began = 0;
  const end = event => {
    click.handler += performance.now() - began;
    const { answer, handler } = click;
    if (event.type === 'click') afterFrame(() => answer([handler, performance.now() - event.timeStamp]));
  };
  const bare = event => {
    event.stopImmediatePropagation();
    event.preventDefault();
    if (event.type === 'click') click.marked.style.borderTopColor = click.marked.style.borderTopColor ? '' : 'red';
    end(event);
  };
  for (const type of ['pointerdown', 'mousedown', 'pointerup', 'mouseup', 'click']) {
    addEventListener(type, event => { began = performance.now(); if (click?.isBare) bare(event); }, true);
    addEventListener(type, event => click && end(event));
  }
  window.nextClick = isBare => {
    window.clicked = new Promise(answer => {
      click = { isBare, answer, handler: 0, marked: document.querySelector('.insp-status') };
    });
  };
}"""

# Points on lines of a text that are in view and carry an origin or not, evenly from top to bottom.
POINTS = """([pane, count]) => {
  const editor = document.querySelector(`[data-pane=${pane}] .cm-editor`);
  const box = editor.querySelector('.cm-scroller').getBoundingClientRect();
  const gutter = editor.querySelector('.cm-gutters').getBoundingClientRect().right;
  const lines = [...editor.querySelectorAll('.cm-line')].map(line => line.getBoundingClientRect())
    .filter(line => line.top > box.top && line.bottom < Math.min(box.bottom, innerHeight) - 20);
  const every = Math.max(1, Math.floor(lines.length / count));
  return lines.filter((_, i) => i % every === 0).slice(0, count).map(line => [gutter + 30, (line.top + line.bottom) / 2]);
}"""


@dataclasses.dataclass(frozen=True)
class Click:
    """Milliseconds.

    Attributes:
      handler: in the handlers, wall time.
      painted: until the frame after it, wall time.
      cpu: of the page's thread until then.
    """

    handler: float
    painted: float
    cpu: float


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("workloads", nargs="*", default=list(WORKLOADS))
    parser.add_argument("--clicks", type=int, default=12, help="on each text")
    parser.add_argument("--dock", default="stats", help="the pane at the front of the dock")
    parser.add_argument("--cache", default="", help="a folder for what was compiled")
    options = parser.parse_args(arguments)
    figures(options.workloads, options.clicks, options.dock, options.cache)


def figures(
    workloads: Sequence[str] = ("tf2",), clicks: int = 12, dock: str = "stats", cache: str = ""
) -> list[Figure]:
    """Measures and prints, a workload after the other."""
    with lab({name: explorer_of(name) for name in workloads}, cache) as page:
        return [figure for name in workloads for figure in _measure(page, name, clicks, dock)]


def _measure(page: Page, name: str, clicks: int, dock: str) -> Iterator[Figure]:
    count = open_explorer(page, name)
    print(f"{name}: {count:,} instructions, {dock} in the dock {machine()}", flush=True)
    page.click(f"[data-tab={dock}]")
    page.wait_for_timeout(3000)
    page.evaluate(LISTEN)
    cpu_ms = thread_clock(page)
    for text in TEXTS:
        page.click(f"[data-tab={text}]")
        page.wait_for_selector(f"[data-pane={text}] .cm-line")
        page.wait_for_timeout(1000)
        points = page.evaluate(POINTS, [text, clicks])
        pairs = [
            (_click(page, cpu_ms, x, y, is_bare=True), _click(page, cpu_ms, x, y, is_bare=False)) for x, y in points
        ]
        bare, heard = [bare for bare, _ in pairs[1:]], [click for _, click in pairs[1:]]
        _report(text, bare, heard)
        yield Figure(name, f"a click on {text}, CPU", "a bare click", _middle("cpu", heard) / _middle("cpu", bare))


def _click(page: Page, cpu_ms: Callable[[], float], x: float, y: float, *, is_bare: bool) -> Click:
    page.mouse.move(x, y)
    page.wait_for_timeout(SETTLE_MS)
    page.evaluate("isBare => window.nextClick(isBare)", is_bare)
    before = cpu_ms()
    page.mouse.click(x, y)
    handler, painted = page.evaluate("window.clicked")
    return Click(handler, painted, cpu_ms() - before)


def _report(text: str, bare: Sequence[Click], clicks: Sequence[Click]) -> None:
    def both(name: str) -> str:
        worst = max(getattr(click, name) for click in clicks)
        return f"{name} {_middle(name, clicks):4.0f} (worst {worst:4.0f}, bare {_middle(name, bare):3.0f})"

    told = ", ".join(map(both, ("handler", "painted", "cpu")))
    print(f"  {text:10} {told} ms; {verdict((_middle('painted', clicks), AIM_MS))}", flush=True)


def _middle(name: str, clicks: Sequence[Click]) -> float:
    return float(statistics.median(getattr(click, name) for click in clicks))


if __name__ == "__main__":
    main()
