"""How long everything that is done with mouse and keyboard takes, in JupyterLab, by the size of the program.

    python -m benchmarks.browser [--times 10] [--passes] [--cache FOLDER] [workload ...]

Opens an Explorer of each workload and does each of the interactions several times. Told are the CPU time of the page's
thread until the second frame after the event was painted, as the first often only asks for the next, and the wall time,
which swings with what else the machine does; the median and the worst of both. At the end the page's heap, what
JupyterLab alone takes left out, and which share of a core the notebook kernel took meanwhile.

A bare click stands beside them: on the program's name, where nothing happens. With `--passes` the compiler's passes are
recorded, which compiles the program once more, and stepped through. The first time a program is compiled, which takes
minutes for the largest; with a cache folder it is read the next time.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import psutil  # type: ignore[import-untyped]  # no py.typed upstream
from playwright.sync_api import Locator, Page

from benchmarks.lab import ask, explorer_of, lab, open_explorer, open_notebook, thread_clock
from benchmarks.measuring import Figure, machine, verdict

WORKLOADS = ("tf12", "tf24")
AIM_MS, WORST_MS, HEAP_AIM_MB = 100.0, 300.0, 300.0
SETTLE_MS = 400
RECORD_LIMIT_MS = 900_000
BARE = "bare click"

# The second frame after the first event of a type, as the page's own clock has it.
ARM = """type => {
  window.interaction = new Promise(answer => addEventListener(type, event => {
    const began = event.timeStamp;
    afterFrame(() => afterFrame(() => answer(performance.now() - began)));
  }, { capture: true, once: true }));
}"""

Act = Callable[[int], None]


@dataclasses.dataclass(frozen=True)
class Interaction:
    """Something that a user does.

    Attributes:
      name: in a few words.
      event: the type of the event that it begins with.
      act: does it for the nth time; what it needs was on screen before.
    """

    name: str
    event: str
    act: Act


@dataclasses.dataclass(frozen=True)
class Took:
    """Milliseconds until the second frame: of the page's thread, and of the clock on the wall."""

    cpu: float
    wall: float


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("workloads", nargs="*", default=list(WORKLOADS))
    parser.add_argument("--times", type=int, default=10, help="how often each is done")
    parser.add_argument("--passes", action="store_true", help="record the compiler's passes and step through them")
    parser.add_argument("--cache", default="", help="a folder for what was compiled")
    options = parser.parse_args(arguments)
    figures(options.workloads, options.times, options.passes, options.cache)


def figures(
    workloads: Sequence[str] = ("tf2",), times: int = 6, has_passes: bool = False, cache: str = ""
) -> list[Figure]:
    """Measures and prints, a workload after the other."""
    with lab({name: explorer_of(name) for name in workloads}, cache) as page:
        return [figure for name in workloads for figure in _measure(page, name, times, has_passes)]


def _measure(page: Page, name: str, times: int, has_passes: bool) -> Iterator[Figure]:
    open_notebook(page, name)
    alone = _heap_mb(page)
    count = open_explorer(page, name)
    print(f"{name}: {count:,} instructions {machine()}", flush=True)
    page.wait_for_timeout(5000)
    cpu_ms, kernel = thread_clock(page), psutil.Process(int(ask(page, "import os; print(os.getpid())")))
    busy, began = sum(kernel.cpu_times()[:2]), time.monotonic()
    medians: dict[str, float] = {}
    for interaction in _interactions(page, has_passes):
        took = [_took(page, cpu_ms, interaction, turn) for turn in range(times)]
        medians[interaction.name] = _report(interaction.name, took)
    share = (sum(kernel.cpu_times()[:2]) - busy) / (time.monotonic() - began)
    heap = _heap_mb(page) - alone
    print(f"  heap {heap:.0f} MB; {verdict((heap, HEAP_AIM_MB))}; kernel {share:.0%} of a core {machine()}", flush=True)
    for interaction_name, median in medians.items():
        if interaction_name != BARE:
            yield Figure(name, f"{interaction_name}, CPU", f"a {BARE}", median / medians[BARE])


def _took(page: Page, cpu_ms: Callable[[], float], interaction: Interaction, turn: int) -> Took:
    page.wait_for_timeout(SETTLE_MS)
    page.evaluate(ARM, interaction.event)
    before = cpu_ms()
    interaction.act(turn)
    wall = float(page.evaluate("window.interaction"))
    return Took(cpu_ms() - before, wall)


def _report(name: str, took: Sequence[Took]) -> float:
    median, worst = (function([each.cpu for each in took]) for function in (statistics.median, max))
    wall, longest = (function([each.wall for each in took]) for function in (statistics.median, max))
    told = f"CPU {median:4.0f} (worst {worst:4.0f}), wall {wall:4.0f} (worst {longest:4.0f}) ms"
    print(f"  {name:20} {told}; {verdict((median, AIM_MS), (worst, WORST_MS))}", flush=True)
    return float(median)


def _heap_mb(page: Page) -> float:
    session: Any = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    used = float(session.send("Runtime.getHeapUsage")["usedSize"]) / 1e6
    session.detach()
    return used


def _interactions(page: Page, has_passes: bool) -> Iterator[Interaction]:
    """Each when what it needs is on screen."""
    yield Interaction(BARE, "click", _clicking(page, ".insp-title"))
    yield Interaction("click on a line", "click", lambda turn: page.mouse.click(*_point(page, turn)))
    yield Interaction("hover", "mousemove", lambda turn: page.mouse.move(*_point(page, turn)))
    yield Interaction("arrow key in a text", "keydown", lambda _: page.keyboard.press("ArrowDown"))
    yield Interaction("scroll", "wheel", lambda turn: page.mouse.wheel(0, 400 if turn % 4 < 2 else -400))
    yield from _folding(page)
    yield from _searching(page)
    yield Interaction("pane switch", "click", _turns(page, "[data-tab=hlo]", "[data-tab=stablehlo]"))
    yield Interaction("panel switch", "click", _turns(page, "[data-tab=instructions]", "[data-tab=stats]"))
    yield from _outlining(page)
    yield from _sorting(page)
    yield Interaction("options filter", "keydown", _typing(page, ".insp-control-flag input", "fusion"))
    yield from _graphing(page)
    if has_passes:
        yield from _stepping(page)


OPTIMIZED = "[data-pane=optimized] .cm-editor"


def _point(page: Page, turn: int) -> tuple[float, float]:
    """A point on a line of the optimized HLO, another one each turn."""
    box = page.locator(f"{OPTIMIZED} .cm-scroller").bounding_box()
    assert box is not None
    return box["x"] + 160, box["y"] + 12 + 17 * (turn * 5 % max(1, int(box["height"] / 17) - 2))


def _clicking(page: Page, selector: str) -> Act:
    return lambda _: page.click(selector, no_wait_after=True)


def _turns(page: Page, *selectors: str) -> Act:
    return lambda turn: page.click(selectors[turn % len(selectors)])


def _typing(page: Page, selector: str, text: str) -> Act:
    """A key in a field, which is emptied when all was typed."""

    def act(turn: int) -> None:
        if turn == 0:
            page.click(selector)
        page.keyboard.press(text[turn % len(text)] if turn < len(text) else "Backspace")

    return act


def _folding(page: Page) -> Iterator[Interaction]:
    """Of the first computations, which are short."""
    page.locator(f"{OPTIMIZED} .cm-scroller").evaluate("scroller => { scroller.scrollTop = 0; }")
    page.wait_for_timeout(1000)
    signs = page.locator(f"{OPTIMIZED} .cm-foldGutter span:visible")
    signs.first.wait_for()
    yield Interaction("fold", "click", lambda _: signs.first.click())


def _searching(page: Page) -> Iterator[Interaction]:
    def palette(turn: int) -> None:
        page.keyboard.press("Escape" if turn % 2 else "/")

    page.locator(f"{OPTIMIZED} .cm-content").focus()
    yield Interaction("palette", "keydown", palette)
    page.keyboard.press("Escape")
    page.locator(f"{OPTIMIZED} .cm-content").focus()
    page.keyboard.press("/")
    text = "multiply fusion"
    yield Interaction("key of a search", "keydown", lambda turn: page.keyboard.press(text[turn % len(text)]))
    page.keyboard.press("Escape")


def _outlining(page: Page) -> Iterator[Interaction]:
    page.click("[data-tab=outline]")
    sign = page.locator("[data-pane=outline] [role=treeitem]").first.locator(".insp-tree-sign")
    sign.wait_for()
    yield Interaction("outline open, close", "click", lambda _: sign.click())
    page.click("[data-tab=source]")


def _sorting(page: Page) -> Iterator[Interaction]:
    page.click("[data-tab=instructions]")
    heads = page.locator("[data-pane=instructions] .insp-sort")
    heads.first.wait_for(timeout=120_000)
    yield Interaction("sort of a table", "click", lambda turn: heads.nth(1 + turn % 5).click())


def _graphing(page: Page) -> Iterator[Interaction]:
    page.keyboard.press("Escape")  # closes the suggestions of the field
    page.click("[data-tab=graph]")
    nodes = page.locator(".insp-g-node")
    nodes.first.wait_for(timeout=120_000)
    page.wait_for_timeout(2000)
    yield Interaction("graph open", "click", _turns(page, "[data-tab=stats]", "[data-tab=graph]"))
    page.click("[data-tab=graph]")
    boxes = page.locator(".insp-g-box")

    def press(turn: int) -> None:
        keys: Locator = page.locator(".insp-g-canvas")
        keys.press("Enter" if turn else "ArrowDown")

    page.locator(".insp-g-canvas").focus()
    boxes.first.wait_for()
    yield Interaction("graph box open, close", "keydown", press)


def _stepping(page: Page) -> Iterator[Interaction]:
    page.click("[data-tab=passes]")
    record = page.get_by_role("button", name="Record", exact=True)
    if record.count():  # of a program whose compile takes long; others are recorded when the pane opens
        record.first.click()
    rows = page.locator(".insp-passes .insp-rowlist tbody tr[tabindex]")
    rows.first.wait_for(timeout=RECORD_LIMIT_MS)
    rows.first.click()
    yield Interaction("pass step", "keydown", lambda _: page.keyboard.press("ArrowDown"))


if __name__ == "__main__":
    main()
