"""Variants side by side as a user sees them, in JupyterLab and Notebook 7: one program for several targets."""

from __future__ import annotations

import re
from collections.abc import Callable

import nbformat
import pytest
from playwright.sync_api import Locator, Page, Position, expect

from tests.absent import needs_tpu
from tests.browser.conftest import CellResult, Jupyter, Seen
from tests.lines import expect_in_view

OpenNotebook = Callable[[str], Page]
RunAll = Callable[[], list[CellResult]]
Explore = Callable[[str], Locator]

AT: Position = {"x": 60, "y": 8}  # inside a line's text, whatever its width
COMPILE_LIMIT_MS = 120_000
PROGRAM = """
import jax
import jax.numpy as jnp
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec as P
from inspector import explore

mesh = AbstractMesh((8,), ("data",), axis_types=(AxisType.Auto,))

def argument(*axes):
    return jax.ShapeDtypeStruct((64, 64), jnp.float32, sharding=NamedSharding(mesh, P(*axes)))

def mean(x, w):
    return jnp.mean(jnp.tanh(x @ w))

def total(x):
    return jax.lax.psum(jnp.tanh(x @ x), "i")

{call}
"""


@pytest.fixture
def explored(jupyter: Jupyter, open_notebook: OpenNotebook, run_all: RunAll) -> Explore:
    """Runs a cell that ends in a call of `explore`, and gives its Explorer."""

    def explore(call: str) -> Locator:
        path = jupyter.root / "targets.ipynb"
        kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
        cells = [nbformat.v4.new_code_cell(PROGRAM.format(call=call).strip())]
        nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel}), path)
        page = open_notebook(path.name)
        assert [cell.error for cell in run_all()] == [None]
        explorer = page.locator(".inspector-explorer")
        explorer.scroll_into_view_if_needed()
        return explorer

    return explore


def columns(explorer: Locator) -> Locator:
    return explorer.locator(".insp-column")


def expect_texts(explorer: Locator, count: int) -> None:
    """Waits until each of so many columns has its text."""
    expect(columns(explorer)).to_have_count(count)
    for index in range(count):
        entry = columns(explorer).nth(index).locator(".cm-line", has_text=re.compile("^ENTRY"))
        expect(entry).to_be_visible(timeout=COMPILE_LIMIT_MS)


def expect_linked(explorer: Locator, text: str, count: int) -> None:
    """A line of the source is linked to lines of every column, and those are in view."""
    explorer.locator("[data-pane=source] .cm-line", has_text=text).first.click(position=AT)
    for index in range(count):
        expect_in_view(columns(explorer).nth(index).locator(".insp-strong"))


def test_numbers_of_devices_side_by_side(explored: Explore, seen: Seen) -> None:
    explorer = explored(
        'explore(total, jnp.ones((8, 8)), axis_env=[("i", 2)], target="cpu:2", compare=["--xla_cpu_enable_fast_math"])'
    )
    target = explorer.get_by_placeholder("Target: cpu:2")
    target.fill("cpu:4")
    explorer.get_by_role("button", name="Add variant").click()
    expect(explorer.locator(".insp-chip .insp-label")).to_have_text(
        ["baseline", "xla_cpu_enable_fast_math=true", "cpu:4"]
    )
    expect(columns(explorer)).to_have_count(0)  # one platform: not unless asked for
    explorer.get_by_role("button", name="Side by side").click()
    expect_texts(explorer, 3)
    expect_linked(explorer, "jnp.tanh(x @ x)", 3)
    chosen = columns(explorer).nth(2).locator(".insp-chosen")
    columns(explorer).nth(2).locator(".insp-strong").first.click(position=AT)
    expect(chosen).to_have_count(1)
    expect_in_view(columns(explorer).nth(0).locator(".insp-strong"))
    expect(explorer.locator(".insp-chip-main").nth(2)).to_have_attribute("aria-pressed", "true")
    assert seen == Seen()


@needs_tpu
def test_a_tpu_that_is_not_here_beside_the_cpu(explored: Explore, seen: Seen) -> None:
    explorer = explored('explore(mean, argument("data"), argument(), target="cpu:8", compare=["tpu:v5e:2x4"])')
    names = explorer.locator(".insp-column-name .insp-label")
    expect(names).to_have_text(["baseline", "tpu:v5e:2x4"])
    expect_texts(explorer, 2)
    expect_linked(explorer, "jnp.tanh(x @ w)", 2)
    explorer.locator(".insp-column-name").nth(1).click()
    explorer.locator("[data-tab=run]").click()
    expect(explorer.get_by_role("button", name="Run tpu:v5e:2x4")).to_be_disabled()
    explorer.locator("[data-tab=stablehlo]").click()
    expect(explorer.locator("[data-pane=stablehlo] .cm-line").first).to_be_visible()
    assert seen == Seen()
