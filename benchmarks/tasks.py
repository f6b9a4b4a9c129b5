"""The clicks that ten questions about a program take, in JupyterLab at 1,500 px.

    python -m benchmarks.tasks [--screenshots FOLDER]

Answers each question in a new Explorer of a sharded training step, with real clicks, typing where a user would type. A click
fails if its target is not in view, and an answer counts only if it is in view: nothing is scrolled.
"""

from __future__ import annotations

import argparse
import dataclasses
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from playwright.sync_api import Error, Locator, Page, expect

from benchmarks.lab import EXPLORE_LIMIT_MS, RUN, ask, lab, open_notebook

MOST_CLICKS = 3
WAIT_MS = 60_000

CELL = """
import jax
import jax.numpy as jnp
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec as P
import inspector

mesh = AbstractMesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)

def array(*shape, spec=()):
    return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(mesh, P(*spec)))

def loss(params, x, y):
    for w in params["layers"]:
        x = jnp.tanh(x @ w)
    return ((x @ params["head"] - y) ** 2).mean()

def train_step(params, x, y):
    grads = jax.grad(loss)(params, x, y)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)

params = {"layers": [array(256, 256, spec=("data", "model"))] * 4, "head": array(256, 64, spec=("data",))}
donating = jax.jit(train_step, donate_argnums=(0, 1))
ex = inspector.explore(donating, params, array(512, 256, spec=("data",)), array(512, 64, spec=("data",)), target="cpu:8")
ex
"""

# Whether the middle or the beginning of an element is in view and not covered.
IN_VIEW = """element => {
  const box = element.getBoundingClientRect();
  const x = box.left + Math.min(12, box.width / 2), y = (box.top + box.bottom) / 2;
  const top = document.elementFromPoint(x, y);
  return box.width > 0 && box.left >= 0 && box.top >= 0 && box.bottom <= innerHeight && top !== null &&
    (element.contains(top) || top.contains(element));
}"""


class User:
    """Clicks in a page, and counts the clicks."""

    def __init__(self, page: Page) -> None:
        """Begins without clicks."""
        self.page = page
        self.explorer = page.locator(".inspector-explorer").first
        self.clicks = 0

    def click(self, target: Locator) -> None:
        """Clicks an element that is in view.

        Raises:
          AssertionError: it is not in view.
        """
        self.see(target)
        box = target.first.bounding_box()
        assert box is not None
        self.page.mouse.click(box["x"] + min(40.0, box["width"] / 2), box["y"] + box["height"] / 2)
        self.clicks += 1

    def type(self, text: str) -> None:
        """Types into the element with the focus, and presses Enter."""
        self.page.keyboard.type(text)
        self.page.keyboard.press("Enter")

    def see(self, answer: Locator, text: str | re.Pattern[str] = "") -> None:
        """Waits for an answer, which must be in view.

        Raises:
          AssertionError: it did not appear, or only outside of the view.
        """
        expect(answer.first).to_be_visible(timeout=WAIT_MS)
        if text:
            expect(answer.first).to_contain_text(text, timeout=WAIT_MS)
        for _ in range(30):
            if answer.first.evaluate(IN_VIEW):
                return
            self.page.wait_for_timeout(100)
        raise AssertionError(f"not in view: {answer.first.evaluate('e => e.outerHTML.slice(0, 200)')}")

    def tab(self, name: str) -> Locator:
        """Returns the tab of a pane."""
        return self.explorer.locator(f"[data-tab={name}]")

    def pane(self, name: str, inside: str = "") -> Locator:
        """Returns an element of a pane."""
        return self.explorer.locator(f"[data-pane={name}] {inside}".strip())


def most_expensive(user: User) -> None:
    """The most expensive kernel is the first row, with its line."""
    user.click(user.tab("instructions"))
    user.see(user.pane("instructions", "tbody tr:first-child th"))
    user.see(user.pane("instructions", "tbody tr:first-child td").filter(has_text=re.compile(r"\]:\d+")))


def peak_buffer(user: User) -> None:
    """The largest buffer at the peak is the first row, with its line."""
    user.click(user.tab("memory"))
    user.see(user.pane("memory", "tbody tr:first-child th"))
    user.see(user.explorer.locator(".insp-heap-words"), re.compile("Peak: "))
    row = user.pane("memory", "tbody tr").filter(has_text="temporary")
    user.see(row.locator("td").first, re.compile(r"In \[\d+\]|:\d+"))


def one_pass(user: User) -> None:
    """A pass is chosen in the list; its changes in words and the difference of the texts are beside it."""
    user.click(user.tab("passes"))
    user.click(user.pane("passes", "tbody tr").filter(has_text="spmd-partitioning"))
    user.see(user.pane("passes", ".insp-pass-said"), "spmd-partitioning")
    user.see(user.pane("passes", ".insp-pass-word"))
    user.see(user.pane("passes", ".insp-diff .cm-changedLine, .insp-diff .cm-deletedLine"))


def all_gather(user: User) -> None:
    """The table names the line; the side names the array, its sharding and the needed one."""
    user.click(user.tab("collectives"))
    user.click(user.explorer.locator(".insp-collectives tbody tr").filter(has_text="all-gather"))
    user.see(user.explorer.locator(".insp-collective-side"), re.compile("needed: "))


def donations(user: User) -> None:
    """A row for each argument: reused, or the reason why not."""
    user.click(user.tab("memory"))
    user.click(user.explorer.get_by_role("button", name="Donations", exact=True))
    user.see(user.pane("memory", "tbody tr").filter(has_text="no output").first)


def assembly(user: User) -> None:
    """The kernel is selected in the list; its code is beside it."""
    user.click(user.tab("code"))
    user.click(user.pane("code", "tbody tr").filter(has_text="fusion"))
    user.see(user.pane("code", ".cm-line").nth(1))


def colleague(user: User) -> None:
    """The page is downloaded."""
    with user.page.expect_download(timeout=WAIT_MS):
        user.click(user.explorer.get_by_label(re.compile("Save as HTML")))


def flags_that_matter(user: User) -> None:
    """The scan begins with one button; flags that change the program come first."""
    user.click(user.tab("options"))
    user.click(user.explorer.get_by_role("button", name="Which flags matter?", exact=True))
    start = user.explorer.locator(".insp-options .insp-button", has_text=re.compile("^(Scan|Start|Try|Which)"))
    if start.count() and start.first.is_visible():
        user.click(start)
    user.see(user.pane("options", "tbody tr"))


def two_flags(user: User) -> None:
    """Two variants are typed, and compared with each other: the changes in words, and the difference of the texts."""
    user.click(user.explorer.get_by_role("combobox", name="Flag: search"))
    user.type("--xla_cpu_enable_fast_math=true")
    expect(user.explorer.locator(".insp-chip-main")).to_have_count(2, timeout=WAIT_MS)
    user.page.keyboard.press("Control+A")  # the field keeps the focus and its text
    user.type("--xla_disable_hlo_passes=fusion")
    expect(user.explorer.locator(".insp-chip-main")).to_have_count(3, timeout=WAIT_MS)
    user.click(user.explorer.get_by_label("Compare with another variant"))
    user.click(user.explorer.get_by_role("menuitem").filter(has_text="fast_math"))
    user.see(user.explorer.get_by_role("button", name=re.compile("^Compare with xla_cpu_enable_fast_math")))
    user.see(user.pane("optimized", ".insp-summary"), re.compile("fusions? "))
    user.see(user.pane("optimized", ".insp-changes-row").filter(has_text="fusion"))


def two_targets(user: User) -> None:
    """A second target is typed; Memory has a column for each, once the buffers of both are recorded."""
    user.click(user.explorer.get_by_role("combobox", name="Target: "))
    user.page.keyboard.press("Control+A")
    user.type("tpu:v5e:2x4")
    user.click(user.tab("memory"))
    table = user.pane("memory", ".insp-memory-table")
    record = user.explorer.get_by_role("button", name=re.compile("^Record .* to compare$"))
    expect(table.or_(record).first).to_be_visible(timeout=WAIT_MS)
    if record.is_visible():  # the first variant came without its buffers
        user.click(record)
    row = table.locator("tbody tr").filter(has_text="peak memory").locator("td")
    for head, cell, target in (
        (table.locator("thead th").nth(1), row.first, "cpu"),
        (table.locator("thead th").last, row.last, "tpu"),
    ):
        user.see(head, re.compile(target))
        user.see(cell, re.compile(r"\d"))


@dataclasses.dataclass(frozen=True)
class Task:
    """A question, and the way to its answer."""

    question: str
    way: Callable[[User], None]


TASKS = (
    Task("Most expensive kernel and its line", most_expensive),
    Task("Buffer of the peak and its line", peak_buffer),
    Task("What one pass changed", one_pass),
    Task("Why this all-gather", all_gather),
    Task("Did donation work, and why not", donations),
    Task("Assembly of a kernel", assembly),
    Task("Send it to a colleague", colleague),
    Task("Which flag matters", flags_that_matter),
    Task("Memory of two targets", two_targets),
    Task("Two flags against each other", two_flags),
)


@dataclasses.dataclass(frozen=True)
class Result:
    """The clicks of a task; a failure if the answer did not come into view."""

    task: Task
    clicks: int
    failure: str


def results(screenshots: Path | None = None, tasks: Sequence[Task] = TASKS) -> list[Result]:
    """Does the tasks in turn, in one JupyterLab, and prints a row for each."""
    with lab({"tasks": CELL}) as page:
        page.set_viewport_size({"width": 1500, "height": 900})
        open_notebook(page, "tasks")
        return [_do(page, task, screenshots) for task in tasks]


def _do(page: Page, task: Task, screenshots: Path | None) -> Result:
    _explore(page)
    user, failure = User(page), ""
    try:
        task.way(user)
    except (AssertionError, Error) as error:
        failure = " ".join(str(error).split())[:300]
    if screenshots is not None:
        page.screenshot(path=screenshots / f"{task.way.__name__}.png")
    print(f"| {task.question} | {user.clicks} | {failure or 'yes'} |", flush=True)
    return Result(task, user.clicks, failure)


def _explore(page: Page) -> None:
    """Runs the cell again, so that no task begins where another one ended, and shows its Explorer."""
    page.evaluate("() => window.jupyterapp.commands.execute('notebook:clear-all-cell-outputs')")
    expect(page.locator(".inspector-explorer")).to_have_count(0)
    page.evaluate(RUN, EXPLORE_LIMIT_MS)
    ask(page, "ex.wait()")
    page.wait_for_timeout(1500)
    page.locator(".inspector-explorer").first.evaluate("e => e.scrollIntoView({ block: 'center' })")


def main(arguments: Sequence[str] | None = None) -> None:
    """Does the tasks and prints a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--screenshots", type=Path, help="a folder for a screenshot of each answer")
    parser.add_argument("--only", default="", help="names of tasks, separated by commas")
    options = parser.parse_args(arguments)
    names = options.only.split(",")
    tasks = [task for task in TASKS if not options.only or task.way.__name__ in names]
    print("| task | clicks | answer in view |\n|---|---|---|", flush=True)
    found = results(options.screenshots, tasks)
    if any(each.failure or each.clicks > MOST_CLICKS for each in found):
        sys.exit(1)


if __name__ == "__main__":
    main()
