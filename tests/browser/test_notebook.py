"""The Explorer in its notebook: what is saved, what a busy and a dead kernel leave, and whose keys are whose."""

from __future__ import annotations

import base64
import json
import os
import re
import time
from collections.abc import Callable

import nbformat
import pytest
from playwright.sync_api import Locator, Page, expect

from inspector.widgets.saving.app_code import code
from tests.browser.conftest import CellResult, Jupyter, Seen

OpenNotebook = Callable[[str], Page]
RunAll = Callable[[], list[CellResult]]
Explored = Callable[..., Page]

LIMIT_MS = 90_000
FIRST = """
import time
import jax
import jax.numpy as jnp
from inspector import explore

def step(x):
    return jnp.tanh(x @ x).sum()

explore(step, jnp.ones((64, 64)), target="cpu")
"""
SAVE = "() => window.jupyterapp.commands.execute('docmanager:save')"
PATH = "window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.id"
IS_DIRTY = "() => window.jupyterapp.shell.currentWidget.context.model.dirty"


@pytest.fixture
def opened(jupyter: Jupyter, open_notebook: OpenNotebook) -> Explored:
    """Opens a notebook of the first cell and these."""

    def open_(*more: str) -> Page:
        path = jupyter.root / "notebook.ipynb"
        kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
        cells = [nbformat.v4.new_code_cell(source.strip()) for source in (FIRST, *more)]
        nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel}), path)
        return open_notebook(path.name)

    return open_


@pytest.fixture
def explored(opened: Explored, run_all: RunAll) -> Explored:
    """Runs a notebook of these cells; the first Explorer has its optimized HLO then."""

    def explore(*more: str) -> Page:
        page = opened(*more)
        assert [cell.error for cell in run_all()] == [None] * (1 + len(more))
        done(page.locator(".inspector-explorer").first)
        return page

    return explore


def done(explorer: Locator) -> None:
    explorer.scroll_into_view_if_needed()
    expect(explorer.locator(".insp-chip-done")).to_have_count(1, timeout=LIMIT_MS)
    expect(explorer.locator("[data-pane=optimized] .cm-line").first).to_be_attached()


def saved(page: Page, jupyter: Jupyter) -> str:
    """The outputs of the notebook's file, after it was saved."""
    page.evaluate(SAVE)
    page.wait_for_function(f"() => !({IS_DIRTY})()")
    return json.dumps([cell["outputs"] for cell in json.loads((jupyter.root / "notebook.ipynb").read_text())["cells"]])


def test_a_saved_notebook_keeps_the_optimized_hlo_and_is_read_without_a_kernel(
    explored: Explored, jupyter: Jupyter, seen: Seen
) -> None:
    page = explored()
    stored = page.locator(".inspector-stored")
    expect(stored).to_have_count(1)
    expect(stored).to_be_hidden()
    explorer = page.locator(".inspector-explorer")
    explorer.get_by_placeholder(re.compile("^Flag")).fill("xla_cpu_enable_fast_math")
    explorer.get_by_role("button", name="Add variant").click()
    expect(explorer.locator(".insp-chip-done")).to_have_count(2, timeout=LIMIT_MS)
    expect(stored).to_contain_text("Optimized HLO of xla_cpu_enable_fast_math=true")
    expect(explorer.locator(".insp-chip-main").nth(1)).to_have_attribute("aria-pressed", "true")  # not drawn anew
    text = saved(page, jupyter)
    assert "ENTRY %main" in text
    assert "queued" not in text
    assert len(text) < 100_000 + len(base64.b64encode(code()))
    page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.shutdown()")
    page.reload()
    stored.wait_for(state="visible")
    expect(stored.locator("[data-pane=optimized] .cm-line", has_text="ENTRY %main").first).to_be_visible(
        timeout=LIMIT_MS
    )
    assert seen.errors == []


def test_an_explorer_that_is_shown_while_the_kernel_is_busy_is_there_afterwards(explored: Explored, seen: Seen) -> None:
    busy = "for _ in range(3):\n    display(explore(step, jnp.ones((32, 32)), target='cpu'))\ntime.sleep(12)"
    page = explored(busy)
    explorers = page.locator(".inspector-explorer")
    expect(explorers).to_have_count(4)
    for index in range(4):
        done(explorers.nth(index))
    expect(page.locator(".insp-notices", has_text="does not respond")).to_have_count(0)
    assert seen == Seen()


def test_an_explorer_is_read_while_the_cells_after_it_run(opened: Explored, jupyter: Jupyter, seen: Seen) -> None:
    page = opened("import pathlib\nwhile not pathlib.Path('read').exists():\n    time.sleep(0.1)")
    ran = page.evaluate_handle("({ until: window.jupyterapp.commands.execute('notebook:run-all-cells') })")
    done(page.locator(".inspector-explorer").first)
    (jupyter.root / "read").touch()
    ran.evaluate("ran => ran.until")
    assert seen == Seen()


def test_a_dead_kernel_leaves_nothing_spinning(explored: Explored) -> None:
    page = explored("import os\nos.getpid()")
    explorer = page.locator(".inspector-explorer")
    pid = int(page.locator(".jp-OutputArea-output pre").last.inner_text())
    explorer.scroll_into_view_if_needed()
    os.kill(pid, 19)  # what is asked for now is not answered
    explorer.locator("[data-tab=roofline]").click()
    expect(explorer.get_by_text("Computing FLOPs and bytes")).to_be_visible()
    explorer.locator("[data-tab=run]").click()
    explorer.get_by_role("button", name="Run baseline").click()
    explorer.locator("[data-tab=roofline]").click()
    os.kill(pid, 9)
    expect(explorer.locator(".insp-notices")).to_contain_text("The notebook kernel is gone", timeout=LIMIT_MS)
    expect(explorer.get_by_text("Not received")).to_be_visible()
    expect(explorer.locator(".insp-spinner")).to_have_count(0)
    expect(explorer.locator("[data-pane=optimized] .cm-line").first).to_be_visible()


def test_a_restarted_kernel_leaves_nothing_spinning_and_the_cell_runs_again(
    explored: Explored, run_all: RunAll
) -> None:
    page = explored()
    explorer = page.locator(".inspector-explorer")
    explorer.scroll_into_view_if_needed()
    explorer.locator("[data-tab=roofline]").click()
    page.evaluate("async () => { await window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart() }")
    expect(explorer.locator(".insp-notices")).to_contain_text("The notebook kernel is gone", timeout=LIMIT_MS)
    expect(explorer.locator(".insp-spinner")).to_have_count(0)
    expect(explorer.locator("[data-pane=optimized] .cm-line").first).to_be_visible()
    explorer.locator("[data-tab=run]").click()
    expect(explorer.get_by_role("button", name="Run baseline")).to_be_disabled()
    assert [cell.error for cell in run_all()] == [None]
    done(explorer)
    expect(explorer.locator(".insp-notices", has_text="The notebook kernel is gone")).to_have_count(0)


def test_combinations_are_the_notebooks_and_letters_the_apps(explored: Explored, jupyter: Jupyter, seen: Seen) -> None:
    page = explored("1 + 1")
    explorer = page.locator(".inspector-explorer")
    cells = page.locator(".jp-Cell").count()
    explorer.locator("[data-pane=source] .cm-line").first.click(position={"x": 60, "y": 8})
    for key in ("a", "b", "x", "d", "d", "Shift+A", "m"):
        page.keyboard.press(key)
    assert page.locator(".jp-Cell").count() == cells
    page.evaluate("() => { window.jupyterapp.shell.currentWidget.context.model.dirty = true }")
    before = (jupyter.root / "notebook.ipynb").stat().st_mtime_ns
    page.keyboard.press("Control+s")
    deadline = time.monotonic() + 10
    while (jupyter.root / "notebook.ipynb").stat().st_mtime_ns == before and time.monotonic() < deadline:
        page.wait_for_timeout(100)
    assert (jupyter.root / "notebook.ipynb").stat().st_mtime_ns > before
    page.keyboard.press("b")
    page.keyboard.press("Control+f")
    expect(explorer.locator("[data-pane=source] .cm-search input[name=search]")).to_be_focused()
    assert page.locator(".jp-Cell").count() == cells
    assert seen == Seen()


BOXES = """
import ipywidgets as w

e = explore(step, jnp.ones((64, 64)), target="cpu", height_px=300)
output = w.Output()
with output:
    display(e)
label = w.Label("a label")
tab = w.Tab([w.HBox([e]), w.VBox([e])])
accordion = w.Accordion([w.Box([e])], selected_index=0)
narrow = w.HBox([explore(step, jnp.ones((64, 64)), target="cpu", height_px=300)])
narrow.children[0].layout.width = "40%"
centered = w.VBox([e], layout=w.Layout(align_items="center"))
"""
FULL = {  # what is displayed -> how many Explorers share its width, and the pixels that something else has of it
    "w.HBox([e])": (1, 0),
    "w.Box([e])": (1, 0),
    "w.VBox([e])": (1, 0),
    "w.GridBox([e])": (1, 0),
    "w.HBox([e, e])": (2, 0),
    "w.HBox([label, e])": (1, 60),
    "w.HBox([w.VBox([label]), w.VBox([e])])": (1, 60),
    "w.HBox([output])": (1, 0),
    "w.Box([e], layout=w.Layout(flex_flow='column'))": (1, 0),
    "tab": (1, 0),
    "accordion": (1, 0),
    "output": (1, 0),
}
WIDTHS = """async source => {
  const notebook = window.jupyterapp.shell.currentWidget.content;
  const index = notebook.widgets.findIndex(cell => cell.model.sharedModel.source === source);
  notebook.activeCellIndex = index;
  await notebook.scrollToItem(index, 'start');
  await new Promise(resolve => setTimeout(resolve, 300));
  const output = notebook.widgets[index].node.querySelector('.jp-OutputArea-output');
  const shown = [...output.querySelectorAll('.insp')].filter(element => element.getClientRects().length);
  return [output.clientWidth, shown.map(element => element.offsetWidth), shown.map(element => element.offsetHeight)];
}"""


def test_an_explorer_has_a_width_in_every_box(explored: Explored, page: Page) -> None:
    """A box of ipywidgets makes its children as wide as their content, of which an Explorer has none."""
    explored(BOXES, *FULL, "narrow", "centered")
    for width in (1500, 700):
        page.set_viewport_size({"width": width, "height": 900})
        for source, (count, other_px) in FULL.items():
            room, widths, heights = page.evaluate(WIDTHS, source)
            assert len(widths) == count, source
            assert heights == [300] * count, source
            assert room - 60 <= sum(widths) + other_px <= room + 20, (source, width, room, widths)
        room, (shown,), _ = page.evaluate(WIDTHS, "narrow")
        assert 0.35 * room < shown < 0.45 * room, "a width that the user sets stays"
        room, (shown,), _ = page.evaluate(WIDTHS, "centered")
        assert shown >= min(room - 20, 1000)
