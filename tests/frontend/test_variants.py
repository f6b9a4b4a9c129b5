"""Many variants in the toolbar, and comparisons of any two of them."""

from __future__ import annotations

import jax.numpy as jnp
import pytest
from playwright.sync_api import expect

import inspector
from tests.frontend.behind import OpenDemo, behind, until

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_any_two_variants_are_compared_and_many_are_in_a_menu(demo: OpenDemo) -> None:
    flags = [
        {"xla_cpu_enable_fast_math": True},
        {"xla_backend_optimization_level": 0},
        {"xla_cpu_prefer_vector_width": 128},
    ]
    more = [{"xla_cpu_enable_fast_min_max": True}, {"xla_llvm_disable_expensive_passes": True}]
    explorer = inspector.explore(lambda x: jnp.tanh(x @ x).sum(), jnp.ones((64, 64)), compare=[*flags, *more])
    explorer.wait(120)
    page = demo("waiting", until=".insp-state")
    exchange = behind(page, explorer)
    until(page, exchange, page.locator(".insp-more:visible"))
    for _ in range(20):
        exchange()
        page.wait_for_timeout(50)
    visible = page.locator(".insp-chip:visible .insp-label")
    expect(visible).to_have_count(4)
    expect(page.locator(".insp-more")).to_have_text("2 more")
    page.locator(".insp-more").click()
    items = page.locator(".insp-menu [role=menuitem]")
    expect(items).to_have_count(6)
    expect(items.first).to_have_text("✓ baseline on the attached device")
    items.nth(5).click()
    expect(visible).to_have_count(4)
    expect(page.locator(".insp-chip-main[aria-pressed=true]")).to_contain_text("expensive_passes")

    page.get_by_role("button", name="Compare with another variant").click()
    title = page.locator(".insp-menu-title")
    expect(title).to_contain_text("Compare xla_llvm_disable_expensive_passes=true")
    page.locator(".insp-menu [role=menuitem]", has_text="optimization_level").click()
    button = page.get_by_role("button", name="Compare with xla_backend_optimization_level=0", exact=True)
    expect(button).to_have_attribute("aria-pressed", "true")
    until(page, exchange, page.locator("[data-pane=optimized] .insp-summary"))
    page.get_by_role("tab", name="Stats").click()
    delta = page.locator(".insp-stats .insp-column-active .insp-delta").first
    expect(delta).to_have_attribute("title", "Compared with xla_backend_optimization_level=0 on the attached device")
    explorer.close()
