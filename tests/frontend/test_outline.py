"""The outline: computations by what they cost, opened and walked by keyboard, linked with the texts."""

from __future__ import annotations

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from playwright.sync_api import Locator, Page, expect

from inspector import explore
from tests.frontend.behind import OpenDemo, behind, until

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def tree(page: Page) -> Locator:
    return page.get_by_role("tree", name="Outline of the optimized HLO")


def rows(page: Page, level: int) -> Locator:
    return tree(page).locator(f"[role=treeitem][aria-level='{level}']")


@pytest.mark.parametrize(("theme", "width"), [("light", 1500), ("dark", 900)])
def test_the_keyboard_moves_through_the_tree_and_highlights_the_texts(
    demo: OpenDemo, theme: str, width: int, tmp_path: Path
) -> None:
    page = demo("mlp", theme=theme)
    page.set_viewport_size({"width": width, "height": 900})
    page.click("[data-tab=outline]")
    entry = rows(page, 1).first
    expect(entry).to_contain_text("ENTRY")
    if entry.get_attribute("aria-expanded") == "true":
        entry.locator(".insp-tree-sign").click()
    expect(rows(page, 2)).to_have_count(0)
    tree(page).focus()
    for key in ("Home", "ArrowRight"):
        page.keyboard.press(key)
    expect(entry).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    instruction = rows(page, 2).first
    expect(instruction).to_have_attribute("aria-selected", "true")
    current = tree(page).get_attribute("aria-activedescendant")
    assert instruction.get_attribute("id") == current
    name = instruction.get_attribute("title")
    assert name is not None
    expect(page.locator("[data-pane=optimized] .cm-line.insp-chosen")).to_contain_text(f"%{name} = ")
    page.screenshot(path=tmp_path / f"outline-{theme}.png")
    page.keyboard.press("ArrowLeft")  # to the computation, then closed
    page.keyboard.press("ArrowLeft")
    expect(entry).to_have_attribute("aria-expanded", "false")
    expect(entry).to_have_class(re.compile("insp-weak"))  # it hides what is selected


def test_a_selection_elsewhere_is_shown_in_the_outline(demo: OpenDemo) -> None:
    page = demo("mlp")
    page.click("[data-tab=outline]")
    if rows(page, 1).first.get_attribute("aria-expanded") == "false":
        rows(page, 1).first.locator(".insp-tree-sign").click()
    line = page.locator("[data-pane=optimized] .cm-line", has_text=" fusion(").first
    line.click()
    found = re.search(r"%([\w.-]+) = ", line.inner_text())
    assert found is not None
    expect(tree(page).locator("[aria-selected=true]")).to_have_attribute("title", found[1])


def test_computations_are_sorted_by_cost(demo: OpenDemo) -> None:
    def loop(x: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(0, 8, lambda _, y: jnp.tanh(y @ y), x).sum()

    explorer = explore(loop, jnp.ones((64, 64)))
    explorer.wait()
    page = demo("waiting", until=".insp")
    exchange = behind(page, explorer, tab="outline")
    order = page.get_by_label("Sort by")
    order.select_option("flops")
    until(page, exchange, page.locator("[data-pane=outline] .insp-share"))
    expect(page.locator("[data-pane=outline] .insp-note")).to_contain_text("FLOPs: ")
    entry = rows(page, 1).first
    if entry.get_attribute("aria-expanded") == "true":
        entry.locator(".insp-tree-sign").click()
    expect(rows(page, 2)).to_have_count(0)
    said = rows(page, 1).evaluate_all("rows => rows.map(row => row.innerText)")
    assert "ENTRY" in said[0]
    assert "body of" in said[1]  # all products are in the loop
    order.select_option("text")
    expect(page.locator("[data-pane=outline] .insp-share")).to_have_count(0)
    explorer.close()
