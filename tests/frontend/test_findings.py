"""The Findings pane with a real Explorer behind it: rows, links, proofs, states and sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

import inspector
from tests.findings.test_undonated import PARAMS, X, sgd
from tests.frontend.behind import OpenDemo, behind, until
from tests.frontend.test_accessibility import AXE, findings

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.mark.parametrize(("theme", "width"), [("light", 1500), ("dark", 900), ("light", 420)])
def test_a_finding_is_proven_from_its_row(demo: OpenDemo, theme: str, width: int, tmp_path: Path) -> None:
    explorer = inspector.explore(sgd, PARAMS, X, target="cpu").wait(120)
    page = demo("waiting", until=".insp-state", theme=theme)
    page.set_viewport_size({"width": width, "height": 900})
    exchange = behind(page, explorer, tab="findings" if width < 500 else "")
    part = page.locator(".insp-headline .insp-fact", has_text="1 finding: up to")
    until(page, exchange, part)
    part.click()
    expect(page.locator("[data-tab=findings]")).to_have_attribute("aria-selected", "true")
    row = page.locator(".insp-finding")
    expect(row.locator(".insp-finding-title")).to_contain_text("params (2 arrays, 512 KiB) is returned updated")
    expect(row.locator("pre")).to_have_text("jax.jit(fun, donate_argnames=('params',))")
    page.screenshot(path=tmp_path / f"findings-{width}-{theme}.png")

    row.locator(".insp-finding-title").focus()
    page.keyboard.press("Enter")
    expect(row).to_have_class("insp-finding insp-chosen")
    row.get_by_role("button", name="Prove").focus()
    page.keyboard.press("Enter")
    shown = row.get_by_role("button", name="Show variant")
    until(page, exchange, shown)
    expect(shown).to_be_focused()
    expect(row.locator(".insp-verdict-proven")).to_have_text("Proven")
    assert explorer.variants[1].label == "remedy: undonated"
    if AXE.exists():
        assert [
            each for each in findings(page) if "insp-find" in each
        ] == []  # others are of the selection in the texts
    page.screenshot(path=tmp_path / f"findings-proven-{width}-{theme}.png")
    shown.click()
    until(page, exchange, page.locator(".insp-state-title", has_text="No findings"))
    explorer.close()


def test_a_saved_page_has_the_verdict_and_no_button(demo: OpenDemo, tmp_path: Path) -> None:
    explorer = inspector.explore(sgd, PARAMS, X, target="cpu").wait(120)
    explorer.findings().prove()
    explorer.save_html(tmp_path / "page.html")
    explorer.close()
    page = demo("waiting", until=".insp-state").context.new_page()
    page.goto(f"file://{tmp_path / 'page.html'}")
    row = page.locator(".insp-finding")
    row.wait_for(timeout=60_000)
    expect(row.locator(".insp-verdict-proven")).to_have_text("Proven")
    assert page.locator(".insp-findings button", has_text="Prove").count() == 0
    assert page.get_by_role("button", name="Prove all").count() == 0
    page.close()


def test_small_findings_are_folded(demo: OpenDemo) -> None:
    def step(count: Any, w: Any, x: Any) -> Any:
        import jax.numpy as jnp

        return {"count": count + 1}, jnp.tanh(x @ w).sum()

    import jax
    import jax.numpy as jnp

    explorer = inspector.explore(step, jax.ShapeDtypeStruct((), jnp.int32), PARAMS["w"], X, target="cpu").wait(120)
    page = demo("waiting", until=".insp-state")
    exchange = behind(page, explorer, tab="findings")
    summary = page.locator(".insp-findings-folded summary", has_text="1 with a gain below 1 %")
    until(page, exchange, summary)
    expect(page.locator(".insp-findings .insp-state-title")).to_have_text("No findings with a gain of 1 % or more")
    expect(page.locator(".insp-findings-kinds li").first).to_be_visible()
    summary.click()
    expect(page.locator(".insp-finding")).to_be_visible()
    explorer.close()
