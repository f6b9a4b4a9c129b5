"""The Bisect pane in a browser: a search, its result and its steps."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

import inspector
from tests.frontend.behind import OpenDemo, behind, until
from tests.widgets.test_bisect import NANS, X, guarded

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_a_difference_is_taken_to_its_flag_and_pass(demo: OpenDemo, tmp_path: Any) -> None:
    explorer = inspector.explore(guarded, X, target="cpu", compare=NANS)
    explorer.wait(120)
    page = demo("waiting", until=".insp-state")
    exchange = behind(page, explorer, tab="bisect")
    pane = page.locator("[data-pane=bisect]")
    button = page.get_by_role("button", name="Search", exact=True)
    expect(button).to_be_disabled()
    expect(pane).to_contain_text("The baseline is the good side")
    page.get_by_label("Search", exact=True).select_option("parts")
    expect(button).to_be_enabled()
    page.get_by_label("Search", exact=True).select_option("values")
    page.locator(".insp-chip-main").nth(1).click()
    button.click()
    until(page, exchange, pane.locator(".insp-bisect-facts"))
    expect(pane).to_contain_text("xla_cpu_fast_math_honor_nans=false")
    expect(pane.locator(".insp-bisect-steps tbody tr.insp-bisect-bad").first).to_be_visible()
    pane.get_by_text("StableHLO", exact=True).click()
    expect(pane.locator(".insp-bisect-code")).to_contain_text("stablehlo")
    page.screenshot(path=tmp_path / "bisect.png")
    explorer.close()
