"""Results of axe-core for the page: no serious violations, in any pane, in both themes, wide or narrow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.frontend.behind import OpenDemo

pytestmark = [pytest.mark.browser, pytest.mark.slow]

AXE = Path(__file__).resolve().parent.parent.parent / "frontend/node_modules/axe-core/axe.min.js"
SERIOUS = ("serious", "critical")


def findings(page: Page) -> list[str]:
    if not page.evaluate("() => 'axe' in window"):
        page.add_script_tag(path=AXE)
    found: list[dict[str, Any]] = page.evaluate("async () => (await axe.run('.insp')).violations")
    return [
        f"{each['id']} ({each['impact']}): {node['html'][:420]}"
        for each in found
        if each["impact"] in SERIOUS
        for node in each["nodes"][:2]
    ]


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed: cd frontend && npm ci")
@pytest.mark.parametrize(("theme", "width"), [("light", 1500), ("dark", 900), ("light", 500)])
def test_no_pane_has_serious_violations(demo: OpenDemo, theme: str, width: int) -> None:
    page = demo("mlp", theme=theme)
    page.set_viewport_size({"width": width, "height": 900})
    serious = {"at first": findings(page)}
    for name in page.locator("[role=tab]").evaluate_all("tabs => tabs.map(tab => tab.dataset.tab)"):
        page.locator(f"[data-tab={name}]").evaluate("tab => tab.click()")
        serious[name] = findings(page)
    page.keyboard.press("/")
    serious["palette"] = findings(page)
    page.keyboard.press("Escape")
    page.locator("[role=tab]:visible").first.focus()
    page.keyboard.press("?")
    serious["keys"] = findings(page)
    found = sorted({what for each in serious.values() for what in each})
    assert not found, "\n".join(found)
