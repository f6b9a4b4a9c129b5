"""Costs of lines, next to every text: shares that sum to the total, separate phases, the most expensive line one press away."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import expect

import inspector
from inspector.api import live_work
from tests.frontend.behind import OpenDemo, behind, until
from tests.frontend.test_roofline import arguments, step

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.mark.parametrize(("theme", "width", "is_recorded"), [("light", 1500, True), ("dark", 900, False)])
def test_lines_show_their_cost(
    demo: OpenDemo, theme: str, width: int, is_recorded: bool, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_recorded:  # as on an attached accelerator
        monkeypatch.setattr(live_work, "_with_buffers", lambda request: request)
    explorer = inspector.explore(step, *arguments()).wait(120)
    page = demo("waiting", until=".insp-state", theme=theme)
    page.set_viewport_size({"width": width, "height": 900})
    exchange = behind(page, explorer)
    source = page.locator("[data-pane=source]")
    until(page, exchange, page.locator("[data-pane=optimized] .cm-line"))
    assert not page.evaluate("demo.sent.filter(m => m.type === 'line_costs')")
    page.get_by_role("button", name="Line costs").first.click()
    page.get_by_role("menuitem", name="FLOPs").click()
    until(page, exchange, source.locator(".insp-cost"))
    assert len(page.evaluate("demo.sent.filter(m => m.type === 'line_costs')")) == 1  # for all texts together
    total = explorer.baseline.lowered.line_costs(explorer.baseline.compiled).total
    said = source.locator(".insp-cost-words b").inner_text()
    assert said == f"FLOPs: {total.flops / 1e6:.0f}M"
    shares = source.locator(".insp-cost:visible .insp-cost-share").all_inner_texts()
    assert sum(float(text.rstrip(" %")) for text in shares) == pytest.approx(100, abs=1)
    expect(source.locator(".insp-cost-bar[data-phase=backward]").first).to_be_attached()
    page.screenshot(path=tmp_path / f"costs-{theme}.png")
    optimized = page.locator("[data-pane=optimized]")
    optimized.get_by_role("button", name="Heaviest lines").click()
    first = page.get_by_role("menuitem").first
    assert re.match(r"\d+ % .*(dot|fusion)\(", first.inner_text())
    page.screenshot(path=tmp_path / f"costs-heaviest-{theme}.png")
    first.click()
    expect(optimized.locator(".cm-line.insp-chosen")).to_be_visible()
    optimized.locator(".cm-line.insp-chosen .insp-tok-op").first.hover()
    expect(page.locator(".insp-card")).to_contain_text("of the program")
    page.mouse.move(2, 2)
    page.get_by_role("button", name="Line costs").first.click()
    page.get_by_role("menuitem", name="Estimated time").click()
    measure = source.get_by_role("button", name="Measure this machine")
    until(page, exchange, measure)
    measure.click()
    until(page, exchange, source.locator("b", has_text="Estimated time:"))
    page.get_by_role("button", name="Line costs").first.click()
    page.get_by_role("menuitem", name="Peak memory").click()
    if not is_recorded:
        source.get_by_role("button", name="Record").click()
    until(page, exchange, source.locator("b", has_text="Peak memory:"))
    page.screenshot(path=tmp_path / f"costs-peak-{theme}.png")
    page.get_by_role("button", name="Line costs").first.click()
    page.get_by_role("menuitem", name="None").click()
    expect(page.locator(".insp-cost")).to_have_count(0)
    explorer.close()
