"""The app by keyboard alone: every control is reached by Tab, and no press or redraw loses the focus."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page

from tests.frontend.behind import OpenDemo

pytestmark = [pytest.mark.browser, pytest.mark.slow]

FOCUS = """() => {
  const at = document.activeElement;
  return at && at !== document.body && at.closest(".insp") !== null;
}"""
LABEL = "button => button.getAttribute('aria-label') || button.textContent.trim()"
# Elements that look as if they could be clicked, but that no key reaches.
MOUSE_ONLY = """() => [...document.querySelectorAll(".insp *")].filter((each) =>
  getComputedStyle(each).cursor === "pointer" && each.checkVisibility() &&
  !each.closest("button, a, label, summary, select, input, [tabindex], .cm-editor")).map((each) => each.outerHTML.slice(0, 120))"""
# Every control that Tab should reach; lists and tabs have one place among their entries.
TABBABLE = """() => [...document.querySelectorAll(".insp :is(button, input, select, textarea, summary, a[href], [tabindex])")]
  .filter((each) => each.checkVisibility({ visibilityProperty: true }) && !each.disabled && each.tabIndex >= 0 &&
    each.getClientRects().length > 0 && each.offsetParent !== null)"""
CLOSES = ("Close", "Download", "Dismiss")


def labels(page: Page, name: str) -> list[str]:
    """Returns the labels of the enabled buttons in a pane's group and in the bars."""
    group = page.locator(f".insp-group:has([data-tab={name}][aria-selected=true])")
    found: list[str] = group.locator("button:visible:enabled").evaluate_all(f"all => all.map({LABEL})")
    return [*dict.fromkeys(found)]


def press(page: Page, name: str, label: str) -> str:
    """Presses a button by keyboard; returns what lost the focus, or ""."""
    group = page.locator(f".insp-group:has([data-tab={name}])")
    button = group.locator("button:visible:enabled").evaluate_all(
        f"(all, label) => {{ const found = all.find(b => ({LABEL})(b) === label); found?.focus(); return !!found; }}",
        label,
    )
    if not button:
        return ""
    page.keyboard.press("Enter")
    page.wait_for_timeout(40)
    if not page.evaluate(FOCUS):
        return f"{name}: {label}"
    page.keyboard.press("Escape")
    page.wait_for_timeout(10)
    return "" if page.evaluate(FOCUS) else f"{name}: Escape after {label}"


@pytest.mark.parametrize("scenario", ["mlp", "targets"])
def test_no_button_loses_the_focus(demo: OpenDemo, scenario: str) -> None:
    page = demo(scenario)
    page.set_viewport_size({"width": 1500, "height": 900})
    lost = []
    for name in page.locator("[role=tab]").evaluate_all("tabs => tabs.map(tab => tab.dataset.tab)"):
        tab = page.locator(f"[data-tab={name}]")
        if not tab.count():  # a button has put its pane away
            page = demo(scenario)
        tab.evaluate("tab => tab.click()")
        for label in labels(page, name):
            if not label.startswith(CLOSES):
                lost.append(press(page, name, label))
    assert not [each for each in lost if each], "\n".join(filter(None, lost))


@pytest.mark.parametrize("width", [1500, 420])
def test_tab_reaches_every_control(demo: OpenDemo, width: int) -> None:
    page = demo("mlp")
    page.set_viewport_size({"width": width, "height": 900})
    page.wait_for_timeout(100)
    page.evaluate(
        f"() => {{ window.controls = ({TABBABLE})(); window.reached = new Set(); window.controls[0].focus(); }}"
    )
    for _ in range(page.evaluate("window.controls.length") + 20):
        page.evaluate("() => window.reached.add(document.activeElement)")
        page.keyboard.press("Tab")
    unreached: Any = page.evaluate(
        "() => window.controls.filter(c => !window.reached.has(c) && c.isConnected).map(c => c.outerHTML.slice(0, 120))"
    )
    assert not unreached, "\n".join(unreached)


@pytest.mark.parametrize("scenario", ["mlp", "targets"])
def test_nothing_needs_a_mouse(demo: OpenDemo, scenario: str) -> None:
    page = demo(scenario)
    found: set[str] = set()
    for name in page.locator("[role=tab]").evaluate_all("tabs => tabs.map(tab => tab.dataset.tab)"):
        page.locator(f"[data-tab={name}]").evaluate("tab => tab.click()")
        found |= set(page.evaluate(MOUSE_ONLY))
    assert not found, "\n".join(found)


@pytest.mark.parametrize("key", ["/", "?"])
def test_closed_dialogs_return_the_focus(demo: OpenDemo, key: str) -> None:
    page = demo("mlp")
    page.locator("[data-tab=stablehlo]").focus()
    page.keyboard.press(key)
    page.wait_for_timeout(50)
    assert page.evaluate("() => document.activeElement.dataset.tab") != "stablehlo"
    page.keyboard.press("Escape")
    assert page.evaluate("() => document.activeElement.dataset.tab") == "stablehlo"


def test_a_redrawn_list_keeps_the_focus(demo: OpenDemo) -> None:
    """Steps through the matches of a selection, whose buttons are drawn again with each step."""
    page = demo("mlp")
    page.locator("[data-pane=optimized] .cm-line", has_text="fusion(").last.click()
    step = page.get_by_role("button", name="Next match in ").first
    step.focus()
    label = step.get_attribute("aria-label")
    for _ in range(3):
        page.keyboard.press("Enter")
        page.wait_for_timeout(40)
        assert page.evaluate("() => document.activeElement.getAttribute('aria-label')") == label
