"""Measured times after a run: the margin beside texts, the orders of the outline and the collectives, and a color of the graph."""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from playwright.sync_api import expect

import inspector
from inspector.support.units import format_seconds
from tests.frontend.behind import OpenDemo, behind, until

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def step(x: jax.Array) -> jax.Array:
    total: jax.Array = jax.lax.psum(jnp.tanh(x @ x), "i")
    return jnp.sort(total, axis=0).sum() + jax.lax.all_gather(x[0], "i").mean()


@pytest.mark.parametrize(("theme", "width"), [("light", 1500), ("dark", 900)])
def test_a_run_gives_every_pane_its_times(demo: OpenDemo, theme: str, width: int, tmp_path: Any) -> None:
    explorer = inspector.explore(step, jnp.ones((64, 64)), axis_env=[("i", 2)], target="cpu:2").wait(120)
    page = demo("waiting", until=".insp-state", theme=theme)
    page.set_viewport_size({"width": width, "height": 900})
    exchange = behind(page, explorer)
    optimized = page.locator("[data-pane=optimized]")
    until(page, exchange, optimized.locator(".cm-line"))
    page.get_by_role("tab", name="Outline").click()
    head = page.locator(".insp-outline-head")
    until(page, exchange, page.locator("[data-pane=outline] [role=treeitem]"))
    expect(head).not_to_contain_text("Measured time")
    page.get_by_role("button", name="Line costs").first.click()
    page.get_by_role("menuitem", name="Measured time").click()
    words = optimized.locator(".insp-cost-words")
    until(page, exchange, words.get_by_role("button", name="Run"))
    expect(words).to_contain_text("run the program to measure it")
    page.screenshot(path=tmp_path / f"before-{theme}.png")
    words.get_by_role("button", name="Run").click()
    until(page, exchange, words.get_by_role("button", name="Heaviest lines"))
    profile = explorer.baseline.profile
    total = profile.total_s / profile.executions / len(profile.devices)
    expect(words.locator("b")).to_have_text(f"Measured time: {format_seconds(total)}")
    expect(head).to_contain_text(f"Measured time: {format_seconds(total)}")
    page.get_by_role("tab", name="Collectives").click()
    head = page.locator(".insp-collectives th[aria-sort=descending]")
    until(page, exchange, head)
    expect(head).to_have_text(re.compile(r"measured time \((s|ms|µs|ns)\) ↓"))
    page.get_by_role("tab", name="Graph").click()
    until(page, exchange, page.locator(".insp-graph .insp-g-legend"))
    page.get_by_label("Node color").select_option("measured")
    until(page, exchange, page.locator(".insp-graph .insp-g-scale"))
    expect(page.locator(".insp-graph .insp-g-legend")).to_contain_text("Measured time 0")
    page.screenshot(path=tmp_path / f"after-{theme}.png")
    page.get_by_role("button", name="Line costs").first.click()
    page.get_by_role("menuitem", name="FLOPs").click()
    expect(words.locator("b")).to_contain_text("FLOPs")
    explorer.close()
