"""The Graph pane between passes, with a real program behind it: what a pass did is colored, and what it left stays in place."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

import inspector
from tests.frontend.behind import OpenDemo, behind, until
from tests.frontend.test_roofline import arguments, step

ROW = 10  # pixels: less apart is beside each other

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def explorer() -> Iterator[Any]:
    found = inspector.explore(step, *arguments()).wait(120)
    yield found
    found.close()


def places(page: Page) -> dict[str, tuple[float, float]]:
    """Returns the position of each closed node on screen."""
    found: list[tuple[str, float, float]] = page.locator(".insp-g-node:not(.insp-g-open)").evaluate_all(
        """nodes => nodes.map(node => { const { x, y } = node.querySelector('rect').getBoundingClientRect();
          return [node.dataset.title, x, y]; })"""
    )
    return {title: (x, y) for title, x, y in found}


def test_changes_of_a_pass_are_shown_and_stepped_through(demo: OpenDemo, explorer: Any, tmp_path: Any) -> None:
    page = demo("waiting", until=".insp-state")
    page.set_viewport_size({"width": 1500, "height": 900})
    exchange = behind(page, explorer, tab="passes")
    until(page, exchange, page.locator("[data-pane=passes] .cm-line"))
    page.click("[data-tab=graph]")
    page.locator("[data-group=dock]").get_by_label("Maximize").click()
    until(page, exchange, page.locator(".insp-g-node"))
    page.get_by_role("button", name="After", exact=True).click()
    name = page.locator(".insp-g-pass-name")
    until(page, exchange, page.locator(".insp-graph:not(.insp-counting) .insp-g-canvas[data-coloring=party]"))
    seen = [name.inner_text()]
    page.locator(".insp-g-canvas").focus()
    while "fusion" not in seen[-1]:
        page.keyboard.press(">")
        assert name.inner_text() != seen[-1], seen
        seen.append(name.inner_text())
        exchange()
        until(page, exchange, page.locator(".insp-graph:not(.insp-counting)"))
    expect(page.locator(".insp-g-legend")).to_contain_text("fused")
    made = page.locator(".insp-g-instruction.insp-g-together").evaluate_all("all => all.map(e => e.dataset.title)")
    assert made
    page.screenshot(path=tmp_path / "after.png")
    after = places(page)
    page.get_by_role("button", name="Before", exact=True).click()
    exchange()
    until(page, exchange, page.locator(".insp-graph:not(.insp-counting)"))
    expect(page.get_by_role("button", name="Before", exact=True)).to_have_attribute("aria-pressed", "true")
    assert not set(made) & places(page).keys()
    page.screenshot(path=tmp_path / "before.png")
    before = places(page)
    both = sorted(before.keys() & after.keys())
    above = [(a, b) for a, b in itertools.permutations(both, 2) if before[a][1] < before[b][1] - ROW]
    assert len(above) > len(both)
    assert [pair for pair in above if after[pair[0]][1] > after[pair[1]][1] + ROW] == [], "what was above stays above"
    page.get_by_role("button", name="Compiled", exact=True).click()
    expect(page.locator(".insp-g-canvas")).to_have_attribute("data-coloring", "kind")
    print(tmp_path)
