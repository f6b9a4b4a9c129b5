"""The harness itself, on a trivial notebook: cells run, errors are seen, foreign requests are seen."""

from __future__ import annotations

from collections.abc import Callable

import nbformat
import pytest
from playwright.sync_api import Page

from tests.browser.conftest import CellResult, Jupyter, Seen

HTML = "from IPython.display import HTML\nHTML('<b id=\"drawn\">' + str(40 + 2) + '</b>')"


@pytest.fixture
def notebook(jupyter: Jupyter) -> str:
    cells = [nbformat.v4.new_code_cell(source) for source in (HTML, "raise ValueError('on purpose')")]
    path = jupyter.root / "trivial.ipynb"
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel}), path)
    return path.name


def test_runs_a_notebook(
    notebook: str, open_notebook: Callable[[str], Page], run_all: Callable[[], list[CellResult]], seen: Seen
) -> None:
    page = open_notebook(notebook)
    first, second = run_all()
    assert first == CellResult(1, None)
    assert second == CellResult(2, "ValueError: on purpose")
    assert page.text_content("#drawn") == "42"
    assert seen == Seen()


def test_browser_errors_are_detected(page: Page, jupyter: Jupyter, seen: Seen) -> None:
    page.goto(f"{jupyter.url}/tree")
    page.evaluate(
        "() => { setTimeout(() => { throw new Error('planted') }); fetch('http://127.0.0.1:9/x').catch(e => e) }"
    )
    for _ in range(100):  # a busy machine needs its time
        if seen.foreign and any("planted" in error for error in seen.errors):
            break
        page.wait_for_timeout(100)
    assert any("planted" in error for error in seen.errors)
    assert seen.foreign == ["http://127.0.0.1:9/x"]
    seen.foreign.clear()
