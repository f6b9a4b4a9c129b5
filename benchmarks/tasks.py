"""The clicks and seconds that ten questions about a program take, in JupyterLab at 1,500 px.

    python -m benchmarks.tasks [--rounds 3] [--screenshots FOLDER]

Answers each question in a new Explorer of a sharded training step in a new notebook kernel, with real clicks, typing where a user
would type. A click fails if its target is not in view, and an answer counts only if it is in view: nothing is scrolled. The
seconds run from the first click to the answer in view, without the time in which a user reads, moves the pointer and types.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import re
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from playwright.sync_api import Error, Locator, Page, expect

from benchmarks.lab import EXPLORE_LIMIT_MS, RUN, ask, lab, open_notebook, start_anew

MOST_CLICKS = 3
WAIT_MS = 60_000
ROUNDS = 3

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
        self.started_s = 0.0

    def click(self, target: Locator) -> None:
        """Clicks an element that is in view.

        Raises:
          AssertionError: it is not in view.
        """
        self.see(target)
        box = target.first.bounding_box()
        assert box is not None
        self.started_s = self.started_s or time.monotonic()
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
        self.wait(answer.first.filter(has_text=text) if text else answer)
        for _ in range(60):
            if answer.first.evaluate(IN_VIEW):
                return
            self.page.wait_for_timeout(50)
        raise AssertionError(f"not in view: {answer.first.evaluate('e => e.outerHTML.slice(0, 200)')}")

    def wait(self, element: Locator) -> None:
        """Waits for an element, in view or not.

        Raises:
          AssertionError: it did not appear.
        """
        try:
            element.first.wait_for(timeout=WAIT_MS)  # is asked at each frame, `expect` only each second
        except Error as error:
            raise AssertionError(f"did not appear: {element}") from error

    def tab(self, name: str) -> Locator:
        """Returns the tab of a pane."""
        return self.explorer.locator(f"[data-tab={name}]")

    def pane(self, name: str, inside: str = "") -> Locator:
        """Returns an element of a pane."""
        return self.explorer.locator(f"[data-pane={name}] {inside}".strip())


def most_expensive(user: User) -> None:
    """The kernel with the longest estimated time is the first row, with its line."""
    user.click(user.tab("roofline"))
    user.see(user.pane("roofline", "tbody tr:first-child th"))
    user.see(user.pane("roofline", "tbody tr:first-child td").filter(has_text=re.compile(r"\]:\d+")))
    user.see(user.pane("roofline", "tbody tr:first-child td").filter(has_text=re.compile(r"^\d[\d.]* %$")))


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
    user.click(user.explorer.locator(".insp-button-main", has_text="Which flags matter?"))
    user.see(user.pane("options", "tbody tr"))


def two_flags(user: User) -> None:
    """Two variants are typed, and compared with each other: the changes in words, and the difference of the texts."""
    user.click(user.explorer.get_by_role("combobox", name="Flag: search"))
    user.type("--xla_cpu_enable_fast_math=true")
    user.wait(user.explorer.locator(".insp-chip-main").nth(1))
    user.page.keyboard.press("Control+A")  # the field keeps the focus and its text
    user.type("--xla_disable_hlo_passes=fusion")
    user.wait(user.explorer.locator(".insp-chip-main").nth(2))
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
    user.wait(table.or_(record))
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
    """The clicks of a task, the seconds from the first one to the answer, and the failure if it did not come into view."""

    task: Task
    clicks: int
    seconds: float
    failure: str


def results(screenshots: Path | None = None, tasks: Sequence[Task] = TASKS, rounds: int = ROUNDS) -> list[Result]:
    """Does the tasks in turn, in one JupyterLab, and prints a row for each.

    Args:
      screenshots: a folder for a screenshot of each answer; None for none.
      tasks: the tasks.
      rounds: how often each task is done; the seconds are the median.
    """
    with lab({"tasks": CELL}) as page:
        page.set_viewport_size({"width": 1500, "height": 900})
        open_notebook(page, "tasks")
        return [_do(page, task, screenshots, rounds) for task in tasks]


def _do(page: Page, task: Task, screenshots: Path | None, rounds: int) -> Result:
    found = [_once(page, task, screenshots) for _ in range(rounds)]
    worst = max(found, key=lambda each: (bool(each.failure), each.clicks))
    seconds = [each.seconds for each in found]
    middle, most = statistics.median(seconds), max(seconds)
    row = (
        task.question,
        worst.clicks,
        f"{middle:.2f}",
        f"{most:.2f}",
        worst.failure or "yes",
        f"{os.getloadavg()[0]:.0f}",
    )
    print("|", " | ".join(map(str, row)), "|", flush=True)
    return dataclasses.replace(worst, seconds=middle)


def _once(page: Page, task: Task, screenshots: Path | None) -> Result:
    _explore(page)
    user, failure = User(page), ""
    try:
        task.way(user)
    except (AssertionError, Error) as error:
        failure = " ".join(str(error).split())[:300]
    seconds = time.monotonic() - user.started_s
    if screenshots is not None:
        page.screenshot(path=screenshots / f"{task.way.__name__}.png")
    return Result(task, user.clicks, seconds, failure)


def _explore(page: Page) -> None:
    """Runs the cell in a new notebook kernel and without what the page remembers, and shows its Explorer."""
    start_anew(page)
    page.evaluate("() => localStorage.clear()")
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
    parser.add_argument(
        "--rounds", type=int, default=ROUNDS, help="how often each task is done; the seconds are the median"
    )
    options = parser.parse_args(arguments)
    names = options.only.split(",")
    tasks = [task for task in TASKS if not options.only or task.way.__name__ in names]
    print("| task | clicks | seconds | worst | answer in view | load |\n|---|---|---|---|---|---|", flush=True)
    found = results(options.screenshots, tasks, options.rounds)
    if any(each.failure or each.clicks > MOST_CLICKS for each in found):
        sys.exit(1)


if __name__ == "__main__":
    main()
