"""The headline above the panes, with a real Explorer behind the page."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

import inspector
from inspector.errors import Unavailable
from inspector.platforms import Peak
from inspector.widgets.panes import roofline
from tests.frontend.behind import OpenDemo, behind, until
from tests.frontend.test_roofline import arguments, step

pytestmark = [pytest.mark.browser, pytest.mark.slow]

NONE = Unavailable("none")
ROOFS = Peak("toy", {"f32": 1e9}, 1e9, 1 << 30, NONE, NONE, "this test")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_each_fact_leads_to_its_place(
    demo: OpenDemo, theme: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(roofline, "stored_peak", lambda: ROOFS)
    explorer = inspector.explore(step, *arguments()).wait(120)
    page = demo("waiting", until=".insp-state", theme=theme)
    exchange = behind(page, explorer)
    facts = page.locator(".insp-headline .insp-fact")
    until(page, exchange, facts)
    expected = [part.text for part in explorer.baseline.compiled.headline(ROOFS)]
    expect(facts).to_have_text(expected)
    facts.nth(1).click()
    expect(page.locator("[data-tab=roofline]")).to_have_attribute("aria-selected", "true")
    facts.nth(0).click()
    expect(page.locator("[data-tab=memory]")).to_have_attribute("aria-selected", "true")
    facts.nth(2).focus()
    page.keyboard.press("Enter")
    selected = page.locator("[data-pane=optimized] .insp-chosen").first
    expect(selected).to_be_visible()
    page.screenshot(path=tmp_path / f"headline-{theme}.png")
    explorer.close()


def test_this_machine_is_measured_in_the_background(demo: OpenDemo, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[Peak] = []
    monkeypatch.setattr(roofline, "can_store_peak", lambda: True)
    monkeypatch.setattr(roofline, "measured_peak", lambda: measured.append(ROOFS) or ROOFS)
    explorer = inspector.explore(step, *arguments()).wait(120)
    page = demo("waiting", until=".insp-state")
    exchange = behind(page, explorer)
    until(page, exchange, page.locator(".insp-fact", has_text="about"))
    assert measured == [ROOFS]
    page.click("[data-tab=roofline]")
    until(page, exchange, page.locator(".insp-time-bar"))
    expect(page.get_by_role("button", name="Measure this machine")).to_have_count(0)
    assert measured == [ROOFS]
    explorer.close()


@pytest.mark.parametrize(
    ("scenario", "words"), [("failed", "Compilation failed: XLA refused"), ("cancelled", "canceled")]
)
def test_a_variant_without_results_says_why(demo: OpenDemo, scenario: str, words: str) -> None:
    page = demo(scenario, until=".insp-headline *")
    expect(page.locator(".insp-headline")).to_contain_text(words)
