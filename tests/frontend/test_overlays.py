"""Overlays of the panes stay on screen and whole: cards, search, keys, menus, completion lists."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.frontend.behind import OpenDemo

pytestmark = [pytest.mark.browser, pytest.mark.slow]

IS_WHOLE = """element => {
  const { top, right, bottom, left, width, height } = element.getBoundingClientRect();
  const isIn = top >= 0 && left >= 0 && right <= innerWidth && bottom <= innerHeight;
  const points = [[left + 6, top + 6], [right - 6, top + 6], [left + 6, bottom - 6], [right - 6, bottom - 6]];
  const covered = points.filter(([x, y]) => !element.contains(document.elementFromPoint(x, y)));
  return [isIn, covered.length, Math.round(width) > 60, Math.round(height) > 24];
}"""
SIZES = [(1500, 900), (700, 420), (360, 300)]


def expect_whole(page: Page, element: Locator) -> None:
    expect(element).to_be_visible()
    page.wait_for_timeout(150)
    assert element.evaluate(IS_WHOLE) == [True, 0, True, True], element.bounding_box()


def scrolled(page: Page, px: int) -> None:
    """Scrolls the page, so that so many pixels of the Explorer are above the window."""
    page.evaluate("px => scrollTo(0, px + document.querySelector('.insp').getBoundingClientRect().top + scrollY)", px)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("above_px", [0, 200])
def test_search_and_keys_stay_in_the_window(
    demo: OpenDemo, size: tuple[int, int], above_px: int, tmp_path: Any
) -> None:
    page = demo("mlp")
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.evaluate("document.body.style.minHeight = '2000px'")
    scrolled(page, above_px)
    page.locator(".insp").evaluate("root => root.querySelector('[role=tab]').focus({ preventScroll: true })")
    scrolled(page, above_px)
    page.keyboard.press("/")
    palette = page.locator(".insp-palette")
    expect_whole(page, palette)
    page.keyboard.type("a")
    expect(palette.get_by_role("option").nth(12)).to_be_attached()
    expect_whole(page, palette)
    page.screenshot(path=tmp_path / f"palette-{size[0]}-{above_px}.png")
    for _ in range(12):
        page.keyboard.press("ArrowDown")
    expect(palette.locator("[aria-selected=true]")).to_be_in_viewport()
    page.evaluate("scrollBy(0, 60)")
    expect_whole(page, palette)
    page.keyboard.press("Escape")
    scrolled(page, above_px)
    page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keyboard shortcuts")
    expect_whole(page, keys)
    page.screenshot(path=tmp_path / f"keys-{size[0]}-{above_px}.png")
    keys.locator("p").last.scroll_into_view_if_needed()
    expect(keys.locator("p").last).to_be_in_viewport()
    expect_whole(page, keys)


@pytest.mark.parametrize("size", SIZES[:2])
def test_a_menu_stays_in_the_window(demo: OpenDemo, size: tuple[int, int], tmp_path: Any) -> None:
    page = demo("mlp")
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.evaluate("document.body.style.minHeight = '2000px'")
    buttons = page.get_by_role("button", name="Pane menu")
    for i in range(buttons.count()):
        if not buttons.nth(i).is_visible():
            continue
        buttons.nth(i).click()
        expect_whole(page, page.locator(".insp-menu"))
        page.screenshot(path=tmp_path / f"menu-{size[0]}-{i}.png")
        page.keyboard.press("Escape")


@pytest.mark.parametrize(("theme", "size"), [("light", (1360, 760)), ("dark", (700, 640))])
def test_a_card_is_not_cut_off_by_its_pane(demo: OpenDemo, theme: str, size: tuple[int, int], tmp_path: Any) -> None:
    page = demo("mlp", theme=theme)
    page.set_viewport_size({"width": size[0], "height": size[1]})
    # As JupyterLab does with cells of a long notebook: what is fixed is then inside of this element.
    page.locator("#host").evaluate("host => { host.style.contain = 'layout'; }")
    text = page.locator("[data-pane=optimized] .cm-scroller")
    pane = page.locator("[data-pane=optimized]").first.bounding_box()
    lines = text.locator(".cm-line", has_text=re.compile(r" (fusion|dot|parameter)\("))
    seen = 0
    for i in range(lines.count()):
        word = lines.nth(i).locator(".insp-tok-op").first
        box = word.bounding_box()
        if not (box and pane and pane["y"] < box["y"] < pane["y"] + pane["height"] - 20 and box["y"] < size[1] - 20):
            continue
        if box["x"] + box["width"] > pane["x"] + pane["width"] - 10:
            continue
        word.hover()
        card = page.locator(".cm-tooltip-hover:has(.insp-card)")
        expect_whole(page, card)
        if seen == 0:
            page.screenshot(path=tmp_path / f"card-{theme}.png")
        seen += 1
        page.mouse.move(2, 2)
        expect(card).to_have_count(0)
        if seen == 5:
            break
    assert seen, "no operation is in view"
