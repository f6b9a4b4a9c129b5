"""Cards beside the pointer: what a name stands for, what an operation does."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.frontend.behind import OpenDemo

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_hover_card_describes_its_line(demo: OpenDemo, theme: str, tmp_path: Any) -> None:
    page = demo("mlp", theme=theme)
    optimized = page.locator("[data-pane=optimized] .cm-content")
    expect(optimized).to_be_visible()
    fusion = optimized.locator(".cm-line", has_text=" fusion(").first
    fusion.locator("span", has_text="fusion").last.hover()
    card = page.locator(".insp-card")
    expect(card).to_contain_text("Several operations as one kernel")
    link = card.get_by_role("link", name="Specification")
    expect(card).to_contain_text("Live range: ")
    expect(card).to_contain_text("Source: programs.py:")
    expect(card).to_contain_text(re.compile(r"%[\w.]+: f32\["))
    assert link.get_attribute("href") == "https://openxla.org/xla/operation_semantics#fusion"
    page.screenshot(path=tmp_path / f"hover-{theme}.png")
    page.mouse.move(2, 2)
    expect(card).to_have_count(0)
    page.locator("[data-tab=stablehlo]").click()
    dot = page.locator("[data-pane=stablehlo] .cm-line", has_text="stablehlo.dot_general").first
    dot.locator("span", has_text="dot_general").first.hover()
    expect(card).to_contain_text("A matrix product with any batch and contracting dimensions")
