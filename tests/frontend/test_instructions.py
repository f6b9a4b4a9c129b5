"""The Instructions pane with a real program behind it: counted when it is opened, sorted, linked to the text."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

import inspector
from inspector.errors import Unavailable
from inspector.platforms import Peak
from inspector.widgets.panes import instructions
from tests.frontend.behind import OpenDemo, behind, until

NONE = Unavailable("this test has none")
ROOFS = Peak("toy", {"f32": 1e12}, 1e11, 1 << 30, NONE, NONE, "this test")
pytestmark = [pytest.mark.browser, pytest.mark.slow]


def program(x: Any, w: Any, v: Any) -> Any:
    import jax.numpy as jnp

    return jnp.tanh(x @ w) @ v + jnp.sin(x)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_longest_estimated_time_comes_first(
    demo: OpenDemo, theme: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import jax.numpy as jnp

    monkeypatch.setattr(instructions, "stored_peak", lambda: ROOFS)
    explorer = inspector.explore(program, jnp.ones((64, 256)), jnp.ones((256, 128)), jnp.ones((128, 256))).wait(120)
    page = demo("waiting", until=".insp-state", theme=theme)
    exchange = behind(page, explorer)
    until(page, exchange, page.locator("[data-tab=instructions]"))
    page.click("[data-tab=instructions]")
    pane = page.locator("[data-pane=instructions]")
    until(page, exchange, pane.locator("tbody tr"))
    expect(pane.locator("th[aria-sort=descending]")).to_contain_text("estimated time")
    slowest = explorer.baseline.compiled.roofline(ROOFS).points[0]
    expect(pane.locator("tbody tr").first.locator("th")).to_have_text(slowest.name)
    page.screenshot(path=tmp_path / f"times-{theme}.png")
    pane.get_by_role("button", name="bytes").click()
    until(page, exchange, pane.locator("th[aria-sort=descending]", has_text="bytes"))
    explorer.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_costliest_come_first_and_lead_to_their_line(demo: OpenDemo, theme: str, tmp_path: Any) -> None:
    import jax.numpy as jnp

    explorer = inspector.explore(program, jnp.ones((64, 256)), jnp.ones((256, 128)), jnp.ones((128, 256))).wait(120)
    page = demo("waiting", until=".insp-state", theme=theme)
    exchange = behind(page, explorer)
    until(page, exchange, page.locator("[data-tab=instructions]"))
    assert not page.evaluate("demo.sent.filter(m => m.type === 'instructions')")
    page.click("[data-tab=instructions]")
    rows = page.locator("[data-pane=instructions] tbody tr")
    until(page, exchange, rows)
    names = lambda: rows.locator("th").all_inner_texts()  # noqa: E731
    table = explorer.baseline.compiled.instructions()
    alone = table[table["fusion"].isna()]
    assert sorted(names()) == sorted(alone["name"])
    most = alone.loc[alone["flops"].idxmax()]
    page.get_by_role("button", name="flops").click()
    until(page, exchange, page.locator("th[aria-sort=descending]", has_text="flops"))
    expect(rows.first).to_contain_text(f"{2 * 64 * 256 * 128 / 1e6:.2f}M")
    assert names()[0] in set(alone[alone["flops"] == most["flops"]]["name"])
    page.screenshot(path=tmp_path / f"instructions-{theme}.png")
    first = names()[0]
    rows.first.click()
    expect(page.locator("[data-pane=optimized] .cm-line.insp-chosen")).to_contain_text(f"%{first} =")
    page.get_by_role("button", name="All", exact=True).click()
    until(page, exchange, rows.nth(len(alone)))
    assert sorted(names()) == sorted(table["name"])
    explorer.close()
