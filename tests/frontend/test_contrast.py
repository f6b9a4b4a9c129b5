"""The contrast of text in every pane: at first, below the pointer, selected and disabled, in both themes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

from tests.frontend.behind import OpenDemo
from tests.frontend.contrast import AA, contrasts

pytestmark = [pytest.mark.browser, pytest.mark.slow]

ROWS = ":is(.cm-line, tbody tr, [role=treeitem], [role=option], .insp-finding)"
# The middle of rows of each kind that are in view, evenly from the first to the last.
POINTS = """([pane, rows]) => {
  const root = document.querySelector(`[data-pane=${pane}]`) ?? document.querySelector(`#${pane}`);
  const seen = [...(root?.querySelectorAll(rows) ?? [])].filter((row) => {
    const box = row.getBoundingClientRect();
    const [x, y] = [box.left + Math.min(60, box.width / 2), (box.top + box.bottom) / 2];
    return box.width > 0 && row.contains(document.elementFromPoint(x, y));
  });
  const every = Math.max(1, Math.floor(seen.length / 4));
  return seen.filter((_, i) => i % every === 0).slice(0, 4).map((row) => {
    const box = row.getBoundingClientRect();
    return [box.left + Math.min(60, box.width / 2), (box.top + box.bottom) / 2];
  });
}"""

# The pane is the same as 60 and 120 ms ago: a diff comes later than the texts above it.
STILL = """() => {
  const text = document.querySelector(".insp").textContent;
  window.same = text === window.before ? window.same + 1 : 0;
  window.before = text;
  return window.same >= 2;
}"""


def too_low(page: Page, state: str) -> Iterator[str]:
    for ratio, element, text in contrasts(page):
        if ratio < AA:
            yield f"{ratio:.2f} {element} {text!r} ({state})"


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("scenario", ["mlp", "targets", "recorded"])
def test_all_text_has_contrast(demo: OpenDemo, scenario: str, theme: str) -> None:
    page = demo(scenario, theme=theme)
    page.set_viewport_size({"width": 1500, "height": 900})
    low: dict[str, str] = {}
    for name in page.locator("[role=tab]").evaluate_all("tabs => tabs.map(tab => tab.dataset.tab)"):
        page.locator(f"[data-tab={name}]").evaluate("tab => tab.click()")
        page.wait_for_function(STILL, polling=60)
        found = [*too_low(page, name)]
        for x, y in page.evaluate(POINTS, [name, ROWS]):
            page.mouse.move(x, y)
            page.mouse.click(x, y)  # the row is selected and below the pointer
            found += too_low(page, f"{name}, selected")
            page.mouse.move(x, y + 20)
            found += too_low(page, f"{name}, below the pointer")
        low |= {each.split(" ", 1)[1].partition("'")[0]: each for each in found}
    assert not low, "\n".join(low.values())


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_disabled_controls_are_readable(demo: OpenDemo, theme: str) -> None:
    page = demo("mlp", theme=theme)
    page.locator(".insp button:visible").evaluate_all("all => all.forEach(button => { button.disabled = true })")
    found = [*too_low(page, "disabled")]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_changed_text_has_contrast_in_a_line_of_any_state(demo: OpenDemo, theme: str) -> None:
    page = demo("recorded", theme=theme)
    page.locator("[data-tab=passes]").evaluate("tab => tab.click()")
    page.locator(".insp-diff .cm-changedText").first.wait_for()
    found = []
    for state in ["chosen", "strong", "weak", "hover", "hover-weak", "following"]:
        mark = f"lines => lines.forEach(line => line.classList.toggle('insp-{state}'))"
        page.locator(".insp-diff .cm-line").evaluate_all(mark)
        assert page.locator(f".insp-diff .cm-line.insp-{state} .cm-changedText").count()
        found += too_low(page, state)
        page.locator(".insp-diff .cm-line").evaluate_all(mark)
    assert not found, "\n".join(found)
