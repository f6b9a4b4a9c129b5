"""A notebook that was run, saved and opened again without its notebook kernel, and what nbconvert makes of it."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Browser, Locator, Page, expect
from playwright.sync_api import TimeoutError as PlaywrightTimeoutError

from tests.browser.conftest import CellResult, Jupyter, Seen

LIMIT_MS = 90_000
CELLS = (
    """
import jax
import jax.numpy as jnp
from inspector import explore

def step(x):
    return jnp.tanh(x @ x).sum()

e = explore(step, jnp.ones((64, 64)), target="cpu")
e.add({"xla_cpu_enable_fast_math": True})
e
""",
    """
e2 = explore(lambda x: jax.lax.psum(x, "i"), jnp.ones(8), axis_env=[("i", 4)])
e2.wait()
e2
""",
)
SAVE = "() => window.jupyterapp.commands.execute('docmanager:save')"
SHUTDOWN = "() => window.jupyterapp.shell.currentWidget.sessionContext.shutdown()"
IS_DIRTY = "() => window.jupyterapp.shell.currentWidget.context.model.dirty"


def write(path: Path) -> None:
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    cells = [nbformat.v4.new_code_cell(source.strip()) for source in CELLS]
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel}), path)


@pytest.fixture(scope="module")
def saved() -> dict[str, Path]:
    """The notebook that each front end has run and saved, by name of the front end."""
    return {}


@pytest.fixture
def kept(
    saved: dict[str, Path],
    jupyter: Jupyter,
    page: Page,
    open_notebook: Callable[[str], Page],
    run_all: Callable[[], list[CellResult]],
) -> tuple[Page, Path]:
    """Run and saved when both Explorers have said all; the notebook kernel is gone. Tests leave the file as it is."""
    if jupyter.app in saved:
        return page, saved[jupyter.app]
    path = jupyter.root / "kept.ipynb"
    write(path)
    open_notebook(path.name)
    assert [cell.error for cell in run_all()] == [None, None]
    before: list[str] = []
    for _ in range(30):  # the replies come a moment after the compiles
        page.wait_for_timeout(4_000)
        page.evaluate(SAVE)
        page.wait_for_function(f"() => !({IS_DIRTY})()", timeout=LIMIT_MS)
        if len(now := outputs(path)) == 2 and now == before:
            break
        before = now
    page.evaluate(SHUTDOWN)
    saved[jupyter.app] = path
    return page, path


def outputs(path: Path) -> list[str]:
    """The HTML of the stored outputs."""
    cells = json.loads(path.read_text())["cells"]
    found = [output["data"]["text/html"] for c in cells for output in c["outputs"] if "text/html" in output["data"]]
    return ["".join(text) for text in found]


def open_pane(explorer: Locator, title: str) -> Locator:
    """Opens a pane by its tab. A cell that still grows can move the tab away while it is clicked, so that it is clicked again."""
    panel = explorer.get_by_role("tabpanel", name=title)
    for _ in range(3):
        explorer.get_by_role("tab", name=title).click()
        with contextlib.suppress(PlaywrightTimeoutError):
            panel.wait_for(timeout=LIMIT_MS / 3)
            break
    return panel


def is_alive(explorer: Locator) -> None:
    """The app works: texts, links, a pane that Python answered when it was recorded."""
    explorer.scroll_into_view_if_needed()
    expect(explorer.locator(".insp-hint")).to_contain_text("Run the cell", timeout=LIMIT_MS)
    explorer.locator("[data-pane=optimized] .cm-line", has_text="ROOT").first.click()
    expect(explorer.locator("[data-pane=optimized] .insp-chosen")).to_contain_text("ROOT")
    expect(explorer.locator("[data-pane=source] .insp-strong, [data-pane=source] .insp-weak").first).to_be_attached()
    expect(open_pane(explorer, "Instructions")).to_contain_text("parameter")
    expect(open_pane(explorer, "Passes")).to_contain_text("Run the cell")
    expect(explorer.locator(".insp-spinner")).to_have_count(0)


def test_a_trusted_notebook_has_the_app_without_its_kernel(
    kept: tuple[Page, Path], jupyter: Jupyter, seen: Seen
) -> None:
    page, path = kept
    texts = outputs(path)
    assert [text.count("x-inspector-code'") for text in texts] == [1, 0], "the code is kept once"
    assert len(texts[1]) < 300_000
    page.goto(jupyter.notebook_url(path.name))
    stored = page.locator(".inspector-stored")
    expect(stored).to_have_count(2, timeout=LIMIT_MS)
    for index in range(2):
        is_alive(stored.nth(index))
    expect(page.get_by_text("model not found")).to_have_count(2)
    for index in range(2):
        expect(page.get_by_text("model not found").nth(index)).to_be_hidden()
    assert seen.errors == []


def test_an_untrusted_notebook_is_read(kept: tuple[Page, Path], jupyter: Jupyter) -> None:
    page, path = kept
    notebook = nbformat.read(path, 4)
    notebook.cells[0].source += "\n# by somebody else"
    other = path.with_name("other.ipynb")
    nbformat.write(notebook, other)
    page.goto(jupyter.notebook_url(other.name))
    form = page.locator(".inspector-form").first
    expect(form).to_contain_text("peak memory", timeout=LIMIT_MS)
    form.get_by_text("Optimized HLO of baseline").click()
    expect(form.locator("pre", has_text="ENTRY %main").first).to_be_visible()
    expect(page.locator(".insp")).to_have_count(0)


def test_nbconvert_has_the_app_too(kept: tuple[Page, Path], chromium: Browser, tmp_path: Path) -> None:
    _, path = kept
    command = [sys.executable, "-m", "nbconvert", "--to", "html", "--output-dir", str(tmp_path), str(path)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    context = chromium.new_context(viewport={"width": 1400, "height": 900})
    context.route(lambda url: not url.startswith(("file:", "blob:", "data:")), lambda route: route.abort())
    page = context.new_page()
    page.goto((tmp_path / "kept.html").as_uri())
    for index in range(2):
        is_alive(page.locator(".inspector-stored").nth(index))
    context.close()
