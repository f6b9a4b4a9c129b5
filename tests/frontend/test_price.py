"""The price of a collective on a slice or a host: chosen, computed by Python, speeds edited in place."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from playwright.sync_api import expect

import inspector
from tests.frontend.behind import OpenDemo, behind, until

pytestmark = pytest.mark.browser

X = np.ones((64, 64), np.float32)


def step(x: Any) -> Any:
    return jax.lax.ppermute(jax.lax.psum(x, "i"), "j", [(0, 1)])


@pytest.mark.parametrize(("theme", "width"), [("light", 1500), ("dark", 900)])
def test_a_collective_is_priced_on_a_slice_and_on_a_host(demo: OpenDemo, theme: str, width: int, tmp_path: Any) -> None:
    explorer = inspector.explore(step, X, axis_env=[("i", 4), ("j", 2)]).wait(120)
    page = demo("waiting", until=".insp-state", theme=theme)
    page.set_viewport_size({"width": width, "height": 1000})
    exchange = behind(page, explorer, tab="collectives")
    seen = page.get_by_role("region", name="Link cost")
    until(page, exchange, seen.locator("svg"))
    page.get_by_role("button", name="Maximize").last.click()
    facts = seen.locator("dl")
    # Rows of 4 on a 2x4 slice are lines, with one link at their ends.
    expect(facts).to_contain_text("6.49 µs = 6 hops × 1 µs + 24 KiB / 50 GB/s")
    expect(facts).to_contain_text("algorithmline")
    expect(facts).to_contain_text("8 of 20")
    assert seen.locator(".insp-link-used").count() == 12
    assert [text.strip() for text in seen.locator(".insp-chip text:first-of-type").all_text_contents()] == list(
        "01234567"
    )
    seen.get_by_label("Link speed in GB/s").fill("100")
    seen.get_by_label("Latency in µs").fill("1")
    expect(facts).to_contain_text("6.25 µs = 6 hops × 1 µs + 24 KiB / 100 GB/s")
    expect(facts).to_contain_text("entered by you")
    seen.get_by_label("Link speed in GB/s").fill("")
    expect(facts).to_contain_text("unknown: 6 hops × 1 µs + 24 KiB / an unknown speed")
    page.screenshot(path=tmp_path / f"torus-{theme}.png")
    seen.get_by_label("Slice or host").select_option("gpu:h100:8")
    rows = seen.locator("tbody tr")
    until(page, exchange, rows)
    assert rows.count() == 8
    expect(facts).to_contain_text("2.05 µs = 2 hops × 1 µs + 20 KiB / 450 GB/s")
    expect(facts).to_contain_text("reduction in the switches (NVLS)")
    seen.get_by_label("Algorithm").select_option("tree")
    until(page, exchange, facts.get_by_text("4 hops"))
    page.screenshot(path=tmp_path / f"switch-{theme}.png")
    page.locator(".insp-collective-list tbody tr").nth(1).click()
    until(page, exchange, facts.get_by_text("1 hop ×"))
    assert seen.get_by_label("Algorithm").locator("option").all_text_contents() == ["estimate", "direct"]
    seen.get_by_label("Slice or host").select_option("Other …")
    seen.get_by_label("Other target").fill("tpu:v5e:3x3")
    seen.get_by_label("Other target").press("Enter")
    until(page, exchange, seen.get_by_role("alert"))
    expect(seen).to_contain_text("no topology 3x3")
    seen.get_by_label("Other target").fill("tpu:v5p:2x2x2")
    seen.get_by_label("Other target").press("Enter")
    until(page, exchange, seen.locator("svg"))
    expect(seen).to_contain_text("Slanted links connect to the next")
    explorer.close()
