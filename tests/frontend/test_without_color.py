"""No information is given by color alone: whatever has a color with a meaning also has text, a sign, a title or a label."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.frontend.behind import OpenDemo
from tests.frontend.test_recorded import record

pytestmark = [pytest.mark.browser, pytest.mark.slow]

# Elements in a color with a meaning that has neither words nor a sign: in it, on it, or in the row or figure that it is in.
COLOR_ALONE = """(pane) => {
  const root = document.querySelector(`[data-pane=${pane}]`) ?? document.querySelector(`#${pane}`);
  const probe = document.querySelector(".inspector-explorer .insp") ?? document.querySelector(".insp");
  const tokens = ["good", "bad", "better", "worse", "added", "removed", "added-text", "removed-text"];
  tokens.push(...["forward", "backward", "recomputed"].map((phase) => `phase-${phase}`));
  tokens.push(...[...Array(8)].map((_, i) => `group-${i}`));
  const meant = new Set();
  for (const token of tokens) {
    const swatch = probe.appendChild(document.createElement("i"));
    swatch.style.background = `var(--insp-${token}, transparent)`;
    const color = getComputedStyle(swatch).backgroundColor;
    if (!/, 0\\)$/.test(color)) meant.add(color);
    swatch.remove();
  }
  const words = (element) =>
    element.textContent.trim() || element.getAttribute("title") || element.getAttribute("aria-label") ||
    element.querySelector("[title], [aria-label]") ||
    ["::before", "::after"].some((part) => !["none", "normal", '""'].includes(getComputedStyle(element, part).content));
  const isMarked = (element) => {
    if (element.closest(".insp-icon")) return false; // its shape is a sign
    if (element.style.getPropertyValue("--on")) return false; // a dashed line, see below
    if (element.style.getPropertyValue("--hue")) return true;
    const { backgroundColor, borderLeftColor, borderLeftWidth, fill, stroke } = getComputedStyle(element);
    const paints = [backgroundColor, parseFloat(borderLeftWidth) ? borderLeftColor : ""];
    if (element instanceof SVGElement) paints.push(fill, stroke);
    return paints.some((paint) => meant.has(paint));
  };
  const alone = [];
  let count = 0;
  for (const element of root?.querySelectorAll("*") ?? []) {
    const box = element.getBoundingClientRect();
    if (!box.width || !box.height || !isMarked(element)) continue;
    count += 1;
    const around = element.closest("tr, li, label, button, figure, [role=img], [role=treeitem], .cm-gutterElement, svg") ?? element.parentElement;
    const isLine = element.matches(".cm-gutterElement");
    if (!words(element) && (isLine || !words(around))) alone.push(element.outerHTML.slice(0, 160));
  }
  return [count, alone];
}"""

SIGNS = """(pane) => [...document.querySelectorAll(`[data-pane=${pane}] :is(.cm-changedLineGutter, .cm-deletedLineGutter)`)].map((mark) => {
  const isRemoved = mark.matches(".cm-deletedLineGutter") || mark.closest(".cm-merge-a") !== null;
  const { width } = mark.getBoundingClientRect();
  return [isRemoved, getComputedStyle(mark, "::before").content.replaceAll('"', ""), width];
})"""


@pytest.mark.parametrize("scenario", ["mlp", "targets", "recorded"])
def test_colors_with_a_meaning_are_also_in_words(demo: OpenDemo, scenario: str) -> None:
    page = demo(scenario)
    page.set_viewport_size({"width": 1500, "height": 900})
    for name in page.locator("[role=tab]").evaluate_all("tabs => tabs.map(tab => tab.dataset.tab)"):
        page.locator(f"[data-tab={name}]").evaluate("tab => tab.click()")
        page.wait_for_timeout(100)
        count, alone = page.evaluate(COLOR_ALONE, name)
        assert alone == [], name
        assert count > 0 or (scenario, name) != ("targets", "memory")


def test_the_curves_of_passes_have_the_dashes_of_their_legend(demo: OpenDemo) -> None:
    page = demo("recorded")
    record(page, "passes")
    curves = page.locator(".insp-pass-curve").evaluate_all("all => all.map(e => getComputedStyle(e).strokeDasharray)")
    assert len(set(curves)) == len(curves) == 4
    dashes = "all => all.map(e => ['--on', '--off'].map(p => e.style.getPropertyValue(p)).join(', '))"
    assert page.locator(".insp-pass-count").evaluate_all(dashes) == curves


def signs(page: Page, view: str) -> set[tuple[bool, str]]:
    page.get_by_role("button", name=view, exact=True).click()
    expect(page.locator("[data-pane=passes] .cm-changeGutter").first).to_be_attached()
    page.wait_for_timeout(200)
    marks = page.evaluate(SIGNS, "passes")
    assert all(width >= 10 for _, _, width in marks)
    return {(is_removed, sign) for is_removed, sign, _ in marks}


def test_added_and_removed_lines_have_signs(demo: OpenDemo) -> None:
    page = demo("recorded")
    page.set_viewport_size({"width": 1400, "height": 800})
    record(page, "passes")
    page.locator("[data-pane=passes] tr", has_text=re.compile("^●?fusion")).first.click()
    expect(page.locator("[data-pane=passes] .insp-pass-events li").first).to_be_visible()
    assert signs(page, "Unified") <= {(True, "−"), (False, "+")}
    assert signs(page, "Split") == {(True, "−"), (False, "+")}
