"""The tour as a user takes it, in JupyterLab and Notebook 7: run all, turn a flag, follow a line, run.

And what is typed wrong, on a small function: said in place, with everything else as it was.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import nbformat
import pytest
from playwright.sync_api import Locator, Page, Position, expect

from tests.browser.conftest import CellResult, Jupyter, Seen

OpenNotebook = Callable[[str], Page]
RunAll = Callable[[], list[CellResult]]

AT: Position = {"x": 60, "y": 8}  # inside a line's text, whatever its width
COMPILE_LIMIT_MS = 60_000
EXPLORED = "explore(train_step"
SMALL = """
import jax
import jax.numpy as jnp
from inspector import explore

def total(x):
    return x + jax.lax.psum(x, "i")

explore(total, jnp.float32(1), axis_env=[("i", 4)])
"""
TO_CELL = """async text => {
  const notebook = window.jupyterapp.shell.currentWidget.content;
  const index = notebook.widgets.findIndex(cell => cell.model.sharedModel.source.includes(text));
  notebook.activeCellIndex = index;
  await notebook.scrollToItem(index, 'start');
}"""


def explorer_below(page: Page, source: str) -> Locator:
    """The Explorer in the output of the cell with that text, scrolled to and finished."""
    page.evaluate(TO_CELL, source)
    cell = page.locator(".jp-CodeCell", has=page.locator(".jp-InputArea", has_text=source))
    explorer = cell.locator(".inspector-explorer")
    expect(explorer.locator("[data-pane=optimized] .cm-line").first).to_be_attached(timeout=COMPILE_LIMIT_MS)
    explorer.scroll_into_view_if_needed()
    return explorer


def add_variant(explorer: Locator, flag: str, value: str = "") -> None:
    explorer.get_by_placeholder(re.compile("^Flag")).fill(flag)
    explorer.get_by_role("combobox", name="Flag value").fill(value)
    explorer.get_by_role("button", name="Add variant").click()


def lit(explorer: Locator, pane: str) -> Locator:
    """The lines on screen that are linked to the chosen one."""
    return explorer.locator(f"[data-pane={pane}] .cm-line.insp-strong")


def said(explorer: Locator) -> Locator:
    """Returns the error that the controls show."""
    return explorer.locator(".insp-controls [role=alert]")


@pytest.fixture
def small(jupyter: Jupyter) -> str:
    """A notebook with one function, explored."""
    path = jupyter.root / "small.ipynb"
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    cells = [nbformat.v4.new_code_cell(SMALL.strip())]
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel}), path)
    return path.name


@pytest.fixture
def tour(jupyter: Jupyter) -> str:
    """The whole tour in JupyterLab; in Notebook as far as the training step: what follows is the kernel's alone."""
    if jupyter.app == "lab":
        return "00_tour.ipynb"
    notebook = nbformat.read(jupyter.root / "00_tour.ipynb", as_version=4)
    end = next(i for i, cell in enumerate(notebook.cells) if EXPLORED in cell.source)
    del notebook.cells[end + 1 :]
    nbformat.write(notebook, jupyter.root / "training_step.ipynb")
    return "training_step.ipynb"


def test_the_tour(tour: str, open_notebook: OpenNotebook, run_all: RunAll, seen: Seen) -> None:
    page = open_notebook(tour)
    cells = run_all()
    assert [cell.error for cell in cells] == [None] * len(cells)
    assert all(cell.execution_count for cell in cells)
    explorer = explorer_below(page, EXPLORED)
    baseline = explorer.locator(".insp-chip", has_text="baseline")  # what is added after it has ended is looked at
    expect(baseline).to_have_class(re.compile("insp-chip-done"), timeout=COMPILE_LIMIT_MS)

    add_variant(explorer, "xla_cpu_enable_fast_math", "true")
    chip = explorer.locator(".insp-chip", has_text="xla_cpu_enable_fast_math=true")
    expect(chip).to_have_class(re.compile("insp-chip-done"), timeout=COMPILE_LIMIT_MS)
    expect(chip.locator(".insp-chip-main")).to_have_attribute("aria-pressed", "true")
    explorer.locator("[data-tab=stats]").click()
    heading = explorer.locator(".insp-stats thead .insp-column-active")
    expect(heading).to_contain_text("xla_cpu_enable_fast_math=true")
    peak = explorer.locator(".insp-stats tbody tr", has_text="peak memory").locator(".insp-column-active .insp-value")
    expect(peak).to_have_text(re.compile(r"^\d[\d.]* MiB$"))

    explorer.locator("[data-pane=source] .cm-scroller").evaluate(
        "pane => { pane.scrollTop = 0; }"
    )  # opened at train_step
    for pane in ("stablehlo", "optimized"):
        explorer.locator("[data-pane=source] .cm-line", has_text='x @ p["w"]').click(position=AT)
        expect(lit(explorer, "stablehlo").first).to_contain_text("stablehlo.dot_general")
        lit(explorer, pane).first.click(position=AT)  # and back
        expect(explorer.locator(f"[data-pane={pane}] .insp-chosen")).to_have_count(1)
        expect(lit(explorer, "source")).to_contain_text('x @ p["w"]')

    explorer.locator("[data-tab=run]").click()
    explorer.get_by_role("button", name="Run baseline").click()
    median = explorer.locator(".insp-runs tbody tr").first.locator(".insp-value")
    expect(median).to_have_text(re.compile(r"^\d[\d.]* (µs|ms|s)$"), timeout=COMPILE_LIMIT_MS)
    assert seen == Seen()


def test_errors_appear_in_place(small: str, open_notebook: OpenNotebook, run_all: RunAll, seen: Seen) -> None:
    page = open_notebook(small)
    assert [cell.error for cell in run_all()] == [None]
    explorer = explorer_below(page, "explore(total")
    axes = explorer.get_by_label("Axis environment")
    expect(axes).to_have_value("i=4")

    add_variant(explorer, "xla_cpu_enable_fast_maths", "true")
    expect(said(explorer)).to_contain_text("UnknownFlagError")
    expect(said(explorer)).to_contain_text("Did you mean xla_cpu_enable_fast_math")
    add_variant(explorer, "xla_backend_optimization_level", "high")
    expect(said(explorer)).to_contain_text("FlagTypeError")
    expect(explorer.locator(".insp-chip")).to_have_count(1)

    axes.fill("k=2")
    explorer.get_by_role("button", name="Lower again").click()
    expect(said(explorer)).to_contain_text("UnboundAxisError", timeout=COMPILE_LIMIT_MS)
    expect(said(explorer)).to_contain_text("unbound axis name: i")
    expect(explorer.locator(".insp-chip-done")).to_have_count(1)
    assert seen == Seen()


def test_a_flag_is_searched_and_changed_by_keyboard(
    small: str, open_notebook: OpenNotebook, run_all: RunAll, seen: Seen
) -> None:
    page = open_notebook(small)
    assert [cell.error for cell in run_all()] == [None]
    explorer = explorer_below(page, "explore(total")
    cells = page.locator(".jp-Cell").count()
    explorer.get_by_placeholder(re.compile("^Flag")).click()
    page.keyboard.type("fas")
    found = explorer.locator(".insp-suggestion:visible")
    expect(found.first.locator("mark")).to_have_text("fas", timeout=COMPILE_LIMIT_MS)
    page.keyboard.type("t_math_honor_nan")
    expect(found).to_have_count(1)
    expect(found.locator(".insp-flag-name")).to_have_text("xla_cpu_fast_math_honor_nans")
    expect(explorer.locator(".insp-suggestion-detail:visible")).to_contain_text("default")
    page.keyboard.press("Enter")  # chooses it
    page.keyboard.press("Enter")  # adds it, turned
    label = explorer.locator(".insp-chip-done .insp-label").nth(1)
    expect(label).to_have_text(re.compile("^xla_cpu_fast_math_honor_nans=(true|false)$"), timeout=COMPILE_LIMIT_MS)
    assert page.locator(".jp-Cell").count() == cells  # no key reached the notebook's shortcuts
    assert seen == Seen()


def test_the_theme_is_the_page_s(small: str, open_notebook: OpenNotebook, run_all: RunAll) -> None:
    page = open_notebook(small)
    assert [cell.error for cell in run_all()] == [None]
    explorer = explorer_below(page, "explore(total")
    assert brightness(explorer) > 200
    page.evaluate("() => window.jupyterapp.commands.execute('apputils:change-theme', { theme: 'JupyterLab Dark' })")
    page.wait_for_function("() => document.body.dataset.jpThemeLight === 'false'")
    page.wait_for_timeout(300)
    assert brightness(explorer) < 60


def brightness(explorer: Locator) -> float:
    """Mean of red, green and blue of the text pane's background, 0 to 255."""
    color: str = explorer.locator("[data-pane=optimized] .cm-editor").evaluate(
        """element => {
          for (let e = element; e; e = e.parentElement) {
            const color = getComputedStyle(e).backgroundColor;
            if (!/^rgba\\(.*, 0\\)$/.test(color)) return color;
          }
        }"""
    )
    scale = 255 if color.startswith("color(") else 1  # color(srgb 0.9 0.9 0.9), or rgb(230, 230, 230)
    channels = [scale * float(part) for part in re.findall(r"[\d.]+", color)[:3]]
    return sum(channels) / 3
