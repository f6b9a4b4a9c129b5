"""The previous version of a program, which a cell leaves to its next run, in a browser."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import pytest
from playwright.sync_api import expect

import inspector
from tests.frontend.behind import OpenDemo, behind, until

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_an_edit_is_compared_in_one_click(demo: OpenDemo) -> None:
    def before(x: Any) -> Any:
        return jnp.sin(x) @ x

    def after(x: Any) -> Any:
        return jnp.sin(x) @ jnp.cos(x)

    x = jnp.ones((64, 64))
    earlier = inspector.explore(before, x).wait(120)
    explorer = inspector.explore(after, x).wait(120)
    explorer.resume(earlier.state_for_rerun())
    earlier.close()
    page = demo("waiting", until=".insp-state")
    exchange = behind(page, explorer)
    button = page.get_by_role("button", name="Compare with previous version")
    until(page, exchange, button)
    expect(page.locator(".insp-compare button")).to_have_count(1)
    button.click()
    until(page, exchange, page.locator("[data-pane=optimized] .insp-summary", has_text="appeared"))
    expect(page.locator(".insp-chip .insp-label")).to_have_text(["baseline", "previous version"])
    expect(page.locator(".insp-chip-main[aria-pressed=true]")).to_contain_text("baseline")
    expect(button).to_have_attribute("aria-pressed", "true")
    page.get_by_role("button", name="Split").click()
    expect(page.locator("[data-pane=optimized] .cm-merge-b .cm-line", has_text="cosine").first).to_be_visible()
    button.click()
    expect(button).to_have_attribute("aria-pressed", "false")
    page.locator("[data-chip]", has_text="previous version").click()
    expect(page.get_by_role("button", name="Compare with baseline")).to_be_disabled()
    explorer.close()
