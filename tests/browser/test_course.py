"""Every notebook as a reader takes it: opened, run from top to bottom, its pictures there and described."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.absent import needs_gpu, needs_tpu
from tests.browser.conftest import ROOT, CellResult, Seen
from tests.project import committed

TOUR = "00_tour.ipynb"  # which has tests of its own
COMPILING = ("03_targets.ipynb", "04_pallas_tpu.ipynb", "course/6_overlap.ipynb")
NOTEBOOKS = [
    pytest.param(name, marks=[needs_tpu, needs_gpu] if name in COMPILING else [])
    for name in (path.relative_to(ROOT / "notebooks").as_posix() for path in committed("notebooks", "*.ipynb"))
    if name != TOUR
]
PICTURES = """() => window.jupyterapp.shell.currentWidget.content.widgets
  .filter(cell => cell.model.type === 'code')
  .flatMap(cell => cell.model.outputs.toJSON())
  .filter(output => output.data?.['image/png'])
  .map(output => output.metadata?.['image/png']?.alt ?? '')"""


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS)
def test_a_notebook_runs_from_top_to_bottom(
    notebook: str, open_notebook: Callable[[str], Page], run_all: Callable[[], list[CellResult]], seen: Seen
) -> None:
    page = open_notebook(notebook)
    assert {cell.error for cell in run_all()} == {None}
    pictures = page.evaluate(PICTURES)
    assert all(pictures), pictures  # each has an alternative text
    expect(page.locator(".jp-RenderedHTMLCommon script:not(.inspector-stored script)")).to_have_count(0)
    assert seen == Seen()
